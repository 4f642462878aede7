/** The rights on the nodes that we make: ZooKeeper's ACLs, from options and from text. */
import { ArgumentError } from "../../../contract/argument-error.ts";
import type { Writer } from "./codec.ts";

/** One line of an ACL, as in zkCli: `digest:ann:<hash>:cdrwa`, `world:anyone:r`. */
export interface Acl {
  /** Of `c` create and `d` delete children, `r` read, `w` write, `a` administer. */
  readonly perms: string;
  /** `world`, `auth`, `digest`, `ip`, `x509`, `sasl`. */
  readonly scheme: string;
  readonly id: string;
}

/**
 * `open`: the whole world may do everything, as is ZooKeeper's and Curator's default. `creator`: only
 * clients that are authenticated as we are. Or a list of your own.
 */
export type AclChoice = "open" | "creator" | readonly Acl[];

const OPEN: readonly Acl[] = [{ perms: "cdrwa", scheme: "world", id: "anyone" }];
const CREATOR: readonly Acl[] = [{ perms: "cdrwa", scheme: "auth", id: "" }];

const BITS: Readonly<Record<string, number>> = { r: 1, w: 2, c: 4, d: 8, a: 16 };
const EXPECTED = 'Expected `acl` to be "open", "creator", or a list such as "auth::cdrwa,world:anyone:r"';

/** Checks a choice and expands it. Throws a `TypeError`. */
export function toAcls(choice: AclChoice): readonly Acl[] {
  if (choice === "open") return OPEN;
  if (choice === "creator") return CREATOR;
  if (!Array.isArray(choice) || choice.length === 0) throw new ArgumentError(EXPECTED);
  for (const { perms, scheme, id } of choice as readonly Acl[]) {
    const isRight = /^[cdrwa]{1,5}$/.test(perms) && /^[a-z]\w*$/.test(scheme) && typeof id === "string";
    if (!isRight) throw new ArgumentError(`${EXPECTED}, with rights of c, d, r, w and a`);
  }
  return choice;
}

/** Reads the form of a URL: a word, or `scheme:id:perms` separated by commas. Ids may have colons. */
export function parseAcl(text: string): AclChoice {
  if (text === "open" || text === "creator") return text;
  return text.split(",").map((line) => {
    const match = /^([a-z]\w*):(.*):([cdrwa]{1,5})$/.exec(line);
    if (match === null) throw new ArgumentError(EXPECTED);
    return { scheme: match[1] as string, id: match[2] as string, perms: match[3] as string };
  });
}

export function writeAcls(writer: Writer, acls: readonly Acl[]): void {
  writer.int(acls.length);
  for (const { perms, scheme, id } of acls) writer.int(toBits(perms)).string(scheme).string(id);
}

function toBits(perms: string): number {
  let bits = 0;
  for (const letter of perms) bits |= BITS[letter] ?? 0;
  return bits;
}
