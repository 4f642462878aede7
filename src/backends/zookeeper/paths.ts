/** The path of a lock and the names of its nodes: Curator's layout, or kazoo's. */
import { createHash } from "node:crypto";
import type { Claim, Mode } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";

/**
 * Which library's node names we use, so its clients respect our locks: `curator` those of `InterProcessMutex` (and of
 * go-zookeeper's `Lock`), `curator-rw` those of `InterProcessReadWriteLock`, `kazoo` those of kazoo's `Lock`, `ReadLock` and
 * `WriteLock`. We respect the nodes of all of them in any case.
 */
export type Dialect = "curator" | "curator-rw" | "kazoo";

interface NodeNaming {
  /** What comes before the id; `exclusive` and `shared` come between the id and the sequence number. */
  readonly start: string;
  readonly exclusive: string;
  readonly shared: string;
  readonly dashes: boolean;
  /** kazoo makes a lock's path only once, so ZooKeeper must not remove it when it is empty. */
  readonly parents: "container" | "persistent";
}

export const NODE_NAMING: Readonly<Record<Dialect, NodeNaming>> = {
  curator: { start: "_c_", exclusive: "-lock-", shared: "-__READ__", dashes: true, parents: "container" },
  "curator-rw": { start: "_c_", exclusive: "-__WRIT__", shared: "-__READ__", dashes: true, parents: "container" },
  kazoo: { start: "", exclusive: "__lock__", shared: "__rlock__", dashes: false, parents: "persistent" },
};

/** SemaphoreV2: a queue of claims, whose first takes a lease when one is free. */
export const SEMAPHORE = { queue: "locks", leases: "leases", queueName: "-lock-", leaseName: "-lease-" } as const;

/** The beginning of the claim's node name, up to the sequence number. Only this claim's nodes begin so. */
export function nodePrefix(claim: Claim, dialect: Dialect): string {
  const { start, dashes, ...modes } = NODE_NAMING[dialect];
  return start + guidOf(claim.id, dashes, !claim.queues) + modes[claim.mode satisfies Mode];
}

/**
 * The claim's part of the name, the same in every mode. `isTry`: the node of a claim that does not queue has other variant bits, so
 * that a holder can tell from the list alone who waits for it.
 */
export function guidOf(id: string, dashes: boolean, isTry = false): string {
  const known = id.length === 22 ? Buffer.from(id, "base64url") : Buffer.alloc(0);
  const bytes = known.length === 16 ? known : createHash("sha256").update(id).digest().subarray(0, 16);
  // UUID version 8 ("custom") distinguishes our nodes from Curator's and kazoo's, which are version 4.
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x80;
  bytes[8] = ((bytes[8] as number) & 0x3f) | (isTry ? 0xc0 : 0x80);
  const hex = bytes.toString("hex");
  if (!dashes) return hex;
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** How lock names become paths. */
export interface NamePaths {
  path(name: string): string;
  /** The name of the lock at `child` of `parent`; `undefined` if no name has that path. */
  name(parent: string, child: string): string | undefined;
  /** The parent of all locks whose names start with `prefix`, and whether they may be deeper below it. */
  roots(prefix: string): { readonly parent: string; readonly deep: boolean };
}

/** Every name becomes one child of `base`. Usual names stay readable; two names never share a path. */
export function escapedBelow(base: string): NamePaths {
  const parent = base === "/" ? "" : base;
  return {
    path: (name) => `${parent}/${escape(name)}`,
    name: (_, child) => unescape(child),
    roots: () => ({ parent: base, deep: false }),
  };
}

/** Characters that ZooKeeper does not allow in paths: controls, surrogates, private ones, and the last of the plane. */
const FORBIDDEN = /[\p{Cc}\ud800-\uf8ff\ufff0-\uffff]/u;

/** A name is the path itself, such as `/locks/invoice-42`. */
export const asPaths: NamePaths = {
  path: (name) => {
    const isPath = /^(?:\/(?!\.{1,2}(?:\/|$))[^/]+)+$/.test(name) && !FORBIDDEN.test(name);
    if (isPath) return name;
    const message = `Lock ${quote(name)} is not a ZooKeeper path such as "/locks/invoice-42", which \`names: "paths"\` requires.`;
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
