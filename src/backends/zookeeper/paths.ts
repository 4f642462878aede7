/** Where a lock lies, and what its nodes are called: Curator's layout, or kazoo's. */
import { createHash } from "node:crypto";
import type { Claim, Mode } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";

/**
 * Whose names our nodes bear, so that others respect them: `curator` as `InterProcessMutex` does (and go-zookeeper's
 * `Lock`), `curator-rw` as `InterProcessReadWriteLock` does, `kazoo` as kazoo's `Lock`, `ReadLock` and `WriteLock` do.
 * We respect all of theirs in any case.
 */
export type Dialect = "curator" | "curator-rw" | "kazoo";

interface Style {
  /** What comes before the id, and between it and the sequence number. */
  readonly start: string;
  readonly exclusive: string;
  readonly shared: string;
  readonly dashes: boolean;
  /** kazoo makes a lock's path once and never again, so it must not be one that goes by itself. */
  readonly parents: "container" | "persistent";
}

export const STYLES: Readonly<Record<Dialect, Style>> = {
  curator: { start: "_c_", exclusive: "-lock-", shared: "-__READ__", dashes: true, parents: "container" },
  "curator-rw": { start: "_c_", exclusive: "-__WRIT__", shared: "-__READ__", dashes: true, parents: "container" },
  kazoo: { start: "", exclusive: "__lock__", shared: "__rlock__", dashes: false, parents: "persistent" },
};

/** SemaphoreV2: a line of claimants, whose first takes a lease when there is one. */
export const SEMAPHORE = { line: "locks", leases: "leases", lineName: "-lock-", leaseName: "-lease-" } as const;

/** The beginning of the claim's node name, up to the sequence number. Only this claim's nodes begin so. */
export function nodePrefix(claim: Claim, dialect: Dialect): string {
  const { start, dashes, ...style } = STYLES[dialect];
  return start + guidOf(claim.id, dashes) + style[claim.mode satisfies Mode];
}

/** The claim's part of the name, whatever the mode. */
export function guidOf(id: string, dashes: boolean): string {
  const known = id.length === 22 ? Buffer.from(id, "base64url") : Buffer.alloc(0);
  const bytes = known.length === 16 ? known : createHash("sha256").update(id).digest().subarray(0, 16);
  // UUID version 8, "made up by whoever": so that our nodes can be told from Curator's and kazoo's, which are version 4.
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  if (!dashes) return hex;
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** How lock names become paths. */
export interface Places {
  path(name: string): string;
  /** The lock that lies at `child` of `parent`; `undefined` if no name leads there. */
  name(parent: string, child: string): string | undefined;
  /** Where to look for locks whose names start with `prefix`, and whether also deeper. */
  roots(prefix: string): { readonly parent: string; readonly deep: boolean };
}

/** Every name becomes one child of `base`. Usual names stay readable; two names never become one. */
export function escapedBelow(base: string): Places {
  const parent = base === "/" ? "" : base;
  return {
    path: (name) => `${parent}/${escape(name)}`,
    name: (_, child) => unescape(child),
    roots: () => ({ parent: base, deep: false }),
  };
}

/** Characters that ZooKeeper takes in no path: controls, surrogates and private ones, and the last of the plane. */
const FORBIDDEN = /[\p{Cc}\ud800-\uf8ff\ufff0-\uffff]/u;

/** A name is the path itself, such as `/locks/invoice-42`. */
export const asPaths: Places = {
  path: (name) => {
    const isPath = /^(?:\/(?!\.{1,2}(?:\/|$))[^/]+)+$/.test(name) && !FORBIDDEN.test(name);
    if (isPath) return name;
    const message = `Lock ${quote(name)} is not a ZooKeeper path such as "/locks/invoice-42", which \`names: "paths"\` asks for.`;
    throw new LockBackendError("zookeeper", name, message, { fatal: true });
  },
  name: (parent, child) => (parent === "/" ? `/${child}` : `${parent}/${child}`),
  roots: (prefix) => ({ parent: prefix.slice(0, Math.max(1, prefix.lastIndexOf("/"))) || "/", deep: true }),
};

const PLAIN = /^[ -$&-.0-~]*$/;
/** A surrogate pair, or one unit. */
const UNITS = /[\ud800-\udbff][\udc00-\udfff]|[^ -$&-.0-~]/g;

/** Printable ASCII stays, but for "/" and "%"; the rest becomes `%` and the hex of its UTF-8. */
function escape(name: string): string {
  if (name === "") return "%";
  if (name === "." || name === "..") return name.replaceAll(".", "%2E");
  // The root's child of this name belongs to the servers.
  if (name === "zookeeper") return "%7Aookeeper";
  if (PLAIN.test(name)) return name;
  return name.replace(UNITS, (unit) => {
    // Half a surrogate pair has no UTF-8, and two of them must not become the same replacement character.
    if (unit.length === 1 && /[\ud800-\udfff]/.test(unit)) return `%u${unit.charCodeAt(0).toString(16).toUpperCase()}`;
    return [...Buffer.from(unit)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join("");
  });
}

/** The name, if `child` is what some name becomes. */
function unescape(child: string): string | undefined {
  if (child === "%") return "";
  const name = child
    .replace(/(?:%[0-9A-F]{2})+/g, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString())
    .replace(/%u([0-9A-F]{4})/g, (_, unit: string) => String.fromCharCode(Number.parseInt(unit, 16)));
  return escape(name) === child ? name : undefined;
}
