/**
 * Keys and channels.
 *
 *   <prefix>:{<bucket>}:<name>    a lock, one hash
 *   <prefix>:{<bucket>}           the marker of a cluster node's incarnation, one per bucket
 *   <prefix>:{marker}             the marker of a server's incarnation, without a cluster
 *   <prefix>:inbox:<process>      the channel on which a process receives its grants
 *   <prefix>:{<bucket>}:<name>    as a channel: a voted lease of that lock was released
 *
 * The hash tag is one of 256 buckets and not the name: a cluster's markers must be in the same slots as their locks, and must exist
 * before the locks do. The name comes last and needs no escaping.
 */

const BUCKETS = 256;
/** How many keys are remembered: each is needed at least twice, and most locks are used again. */
const KNOWN_MAX = 8192;

/** `%`, and a lone surrogate, which has no form of its own in UTF-8: both are written as hex. */
const UNSAFE = /[%\uD800-\uDFFF]/u;
const UNSAFE_ALL = /[%\uD800-\uDFFF]/gu;

export interface Names {
  lock(name: string): string;
  /** The lock's name, or `undefined` if the key is not one of ours. */
  nameOf(key: string): string | undefined;
  marker(lockKey: string): string;
  /** The marker as a script's second key. In a cluster a slot that is being moved would refuse two keys, so only if `needed`. */
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

/** FNV-1a over UTF-16 units: any hash works, if all processes use the same. */
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

const SLOTS = 16_384;

/** The slot of a key in a Redis Cluster: CRC16 (XMODEM) of its hash tag, or of the whole key where it has none. */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc % SLOTS;
}
