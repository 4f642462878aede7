/**
 * Keys and channels.
 *
 *   <prefix>:{<bucket>}:<name>    a lock, one hash
 *   <prefix>:{<bucket>}           the marker of a cluster node's incarnation, one per bucket
 *   <prefix>:{marker}             the marker of a server's incarnation, without a cluster
 *   <prefix>:inbox:<process>      where a process hears of its grants
 *   <prefix>:{<bucket>}:<name>    as a channel: a voted lease of that lock was released
 *
 * The hash tag is one of 256 buckets and not the name: a cluster's markers must lie in the slots of the locks that they
 * speak for, and must exist before the locks do. The name comes last and needs no escaping.
 */

const BUCKETS = 256;
/** A lock's key is asked for at least twice, and mostly the same few are. */
const KNOWN_MAX = 8192;

/** `%` and a lone surrogate, which UTF-8 cannot tell from another, are written as hex. */
const UNSAFE = /[%\uD800-\uDFFF]/u;
const UNSAFE_ALL = /[%\uD800-\uDFFF]/gu;

export interface Names {
  lock(name: string): string;
  /** The lock's name, or `undefined` when the key is none of ours. */
  nameOf(key: string): string | undefined;
  marker(lockKey: string): string;
  /** The marker, where it may be a script's second key: in a cluster a slot that moves would refuse it, so only if `needed`. */
  markerBeside(lockKey: string, needed: boolean): string | undefined;
  markers(): readonly string[];
  inbox(id: string): string;
  /** A glob for SCAN that finds the locks whose name starts with `start`. */
  glob(start: string): string;
}

export function namesOf(prefix: string, cluster: boolean): Names {
  const head = `${prefix}:{`;
  const headLength = head.length + 2;
  const onlyMarker = `${head}marker}`;
  const known = new Map<string, string>();
  const lock = (name: string): string => `${head}${bucket(name)}}:${UNSAFE.test(name) ? escape(name) : name}`;
  return {
    lock: (name) => {
      const before = known.get(name);
      if (before !== undefined) return before;
      if (known.size === KNOWN_MAX) known.clear();
      const key = lock(name);
      known.set(name, key);
      return key;
    },
    nameOf: (key) => {
      if (!key.startsWith(head) || !key.startsWith("}:", headLength)) return undefined;
      return unescape(key.slice(headLength + 2));
    },
    marker: (lockKey) => (cluster ? lockKey.slice(0, headLength + 1) : onlyMarker),
    markerBeside: (lockKey, needed) => {
      if (!cluster) return onlyMarker;
      return needed ? lockKey.slice(0, headLength + 1) : undefined;
    },
    markers: () => (cluster ? Array.from({ length: BUCKETS }, (_, index) => `${head}${hex(index)}}`) : [onlyMarker]),
    inbox: (id) => `${prefix}:inbox:${id}`,
    glob: (start) => `${globEscape(head)}??}:${globEscape(escape(start))}*`,
  };
}

/** FNV-1a over UTF-16 units: any fixed spread will do, as long as every process has the same. */
function bucket(name: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return hex((hash ^ (hash >>> 8) ^ (hash >>> 16) ^ (hash >>> 24)) & 0xff);
}

const HEX: readonly string[] = Array.from({ length: BUCKETS }, (_, index) => index.toString(16).padStart(2, "0"));

function hex(index: number): string {
  return HEX[index] as string;
}

function escape(name: string): string {
  return name.replace(UNSAFE_ALL, (unit) => `%${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function unescape(text: string): string {
  return text.replace(/%([0-9a-f]{4})/gu, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

function globEscape(text: string): string {
  return text.replace(/[*?[\]\\]/gu, String.raw`\$&`);
}
