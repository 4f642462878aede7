/**
 * The keys of a lock. Exclusive claims have those of etcd's own mutex (`clientv3/concurrency`, `etcdctl lock`):
 * `<lock>/<lease in hex>`, first created, first served. Shared and limited claims are beside them, below the same prefix, so
 * that `etcdctl lock` waits for them too.
 */
import type { Claim, Mode } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";

/** What a key claims. */
export interface Kind {
  readonly mode: Mode;
  readonly limit: number;
}

/** How names and keys correspond. */
export interface NameKeys {
  /** What all keys of the lock begin with. It ends with "/". */
  prefix(name: string): Buffer;
  /** Where the locks are whose names start with `namePrefix`. */
  range(namePrefix: string): KeySpan;
  /** The lock that a key belongs to, and what it claims; `undefined`: it is no lock's. */
  parse(key: Buffer): { readonly name: string; readonly kind: Kind } | undefined;
  /** What is kept of the locks beside their queues. */
  readonly beside: BesideKeys;
}

/** Keys beside the queues: none of them claims anything. */
export interface BesideKeys {
  /** The lock's outcome. */
  outcome(name: string): Buffer;
  /** The record of the force release of the lease with this fence. */
  forced(name: string, fence: bigint): Buffer;
  parseForced(key: Buffer): { readonly name: string; readonly fence: bigint } | undefined;
  /** What the claim at `key` shows of itself since its key was written. */
  shown(name: string, key: Buffer): Buffer;
  /** All of one kind of one lock. */
  of(kind: "forced" | "shown", name: string): KeySpan;
  /** All of one kind of the locks whose names start with `namePrefix`. */
  range(kind: "forced" | "shown", namePrefix: string): KeySpan;
}

export interface KeySpan {
  readonly key: Buffer;
  readonly end: Buffer;
}

const SHARED = "+shared/";
const EXCLUSIVE_KIND: Kind = { mode: "exclusive", limit: 1 };
const SHARED_KIND: Kind = { mode: "shared", limit: 1 };
const LIMITED = /^\+limit-([1-9]\d{0,14})\//;
const LEASE = /^[0-9a-f]{1,16}$/;
/** No escaped name begins with "%" and a small letter. */
const BESIDE = { forced: "%forced/", outcome: "%outcome/", shown: "%shown/" } as const;

/** What comes between the lock's prefix and the lease. */
function partOf({ mode, limit }: Kind): string {
  if (mode === "shared") return SHARED;
  return limit === 1 ? "" : `+limit-${limit}/`;
}

/** What the keys of this kind begin with. */
export function groupOf({ key }: KeySpan, kind: Kind): Buffer {
  return Buffer.concat([key, Buffer.from(partOf(kind))]);
}

export function keyOf(prefix: Buffer, claim: Claim, leaseId: bigint): Buffer {
  return Buffer.concat([prefix, Buffer.from(partOf(claim) + leaseId.toString(16))]);
}

/** What the rest of a key, after the lock's prefix, claims. What other programs put there is exclusive, as it is to etcd's mutex. */
export function kindOf(rest: string): Kind {
  if (rest.startsWith(SHARED)) return SHARED_KIND;
  const limit = LIMITED.exec(rest)?.[1];
  return limit === undefined ? EXCLUSIVE_KIND : { mode: "exclusive", limit: Number(limit) };
}

/** All keys that begin with `prefix`. */
export function below(prefix: Buffer): KeySpan {
  const end = Buffer.from(prefix);
  // The last byte is "/", or one of UTF-8, of which none is 0xff.
  end[end.length - 1] = (end[end.length - 1] as number) + 1;
  return { key: prefix, end };
}

/** Names below `base`, with "/" and "%" escaped: so that no lock is below another. */
export function escapedBelow(base: string): NameKeys {
  const start = `${base}/`;
  const from = (text: string): Buffer => Buffer.from(start + text);
  return {
    prefix: (name) => from(`${escape(name)}/`),
    range: (namePrefix) => below(from(escape(namePrefix))),
    parse: (key) => {
      const text = textOf(key);
      if (text === undefined || !text.startsWith(start)) return undefined;
      const slash = text.indexOf("/", start.length);
      const name = slash === -1 ? undefined : unescape(text.slice(start.length, slash));
      return name === undefined ? undefined : { name, kind: kindOf(text.slice(slash + 1)) };
    },
    beside: besideBelow(start, (name) => from(`${escape(name)}/`).length),
  };
}

/** A lock's name is what its keys begin with, as it is to `etcdctl lock`. What is kept beside the queues is below `base`. */
export function asPaths(base: string): NameKeys {
  const start = `${base}/`;
  return {
    prefix: (name) => Buffer.from(`${checkPath(name, start)}/`),
    range: (namePrefix) => (namePrefix === "" ? EVERYTHING : below(Buffer.from(namePrefix))),
    parse: (key) => {
      const text = textOf(key);
      const match = text === undefined ? null : /^(.+?)\/((?:\+(?:shared|limit-[1-9]\d{0,14})\/)?([^/]+))$/s.exec(text);
      if (match === null || !LEASE.test(match[3] as string) || text?.startsWith(`${start}%`) === true) return undefined;
      return { name: match[1] as string, kind: kindOf(match[2] as string) };
    },
    beside: besideBelow(start, (name) => Buffer.byteLength(name) + 1),
  };
}

const EVERYTHING: KeySpan = { key: Buffer.from([0]), end: Buffer.from([0]) };

function checkPath(name: string, start: string): string {
  // Above: what is kept beside the queues would be in its queue.
  const isTaken = /(?:^|\/)\+/.test(name) || name.startsWith(`${start}%`) || start.startsWith(`${name}/`);
  if (!isTaken && !name.endsWith("/")) return name;
  const message = `Lock ${quote(name)} cannot be a path: none of its parts may start with "+" or be empty at the end, and it may be neither above nor below ${JSON.stringify(`${start}%`)}, where records are kept. Use another name, or another \`base\`.`;
  throw new LockBackendError("etcd", name, message, { fatal: true });
}

/** `lengthOf`: of the lock's prefix, in bytes. */
function besideBelow(start: string, lengthOf: (name: string) => number): BesideKeys {
  const from = (text: string): Buffer => Buffer.from(start + text);
  return {
    outcome: (name) => from(BESIDE.outcome + escape(name)),
    forced: (name, fence) => from(`${BESIDE.forced}${escape(name)}/${fence}`),
    parseForced: (key) => {
      const [escaped = "", fence = "", ...more] = key
        .toString()
        .slice(start.length + BESIDE.forced.length)
        .split("/");
      const name = unescape(escaped);
      if (name === undefined || more.length > 0 || !/^\d{1,19}$/.test(fence)) return undefined;
      return { name, fence: BigInt(fence) };
    },
    shown: (name, key) => Buffer.concat([from(`${BESIDE.shown}${escape(name)}/`), key.subarray(lengthOf(name))]),
    of: (kind, name) => below(from(`${BESIDE[kind]}${escape(name)}/`)),
    range: (kind, namePrefix) => below(from(BESIDE[kind] + escape(namePrefix))),
  };
}

function escape(name: string): string {
  return name.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** `undefined`: not what escape() makes. */
function unescape(text: string): string | undefined {
  const name = text.replaceAll("%2F", "/").replaceAll("%25", "%");
  return escape(name) === text ? name : undefined;
}

/** Keys are bytes; those that are no text are no lock's. */
function textOf(key: Buffer): string | undefined {
  const text = key.toString();
  return text.includes("\ufffd") && !Buffer.from(text).equals(key) ? undefined : text;
}
