/** Lock names as directory names: readable where possible, and never two names for one directory. */
import { createHash } from "node:crypto";

/** Leaves room for suffixes below the 255 bytes of a file name. */
const READABLE_MAX = 180;

/**
 * `invoice:42` → `_invoice%3a42`. Upper case is escaped, since some file systems ignore case; the first character
 * keeps `..`, `CON` and the like harmless. What would get too long becomes a digest: its name is in the lock's record.
 */
export function toDirectory(name: string): string {
  const bytes = Buffer.from(name, "utf8");
  // Half a surrogate pair has no UTF-8: two such names would become one.
  if (bytes.toString("utf8") !== name) return `~u${createHash("sha256").update(name, "utf16le").digest("hex")}`;
  let escaped = "_";
  for (const byte of bytes) {
    const plain = (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x5f;
    escaped += plain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`;
    if (escaped.length > READABLE_MAX) return `~${createHash("sha256").update(bytes).digest("hex")}`;
  }
  return escaped;
}

/** The name that a directory stands for; `undefined` for a digest, or for a directory that is not ours. */
export function fromDirectory(directory: string): string | undefined {
  if (!/^_(?:[-_a-z0-9]|%[0-9a-f]{2})*$/.test(directory)) return undefined;
  const name = Buffer.from(
    directory.slice(1).replace(/%([0-9a-f]{2})/g, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1",
  ).toString("utf8");
  return toDirectory(name) === directory ? name : undefined;
}

/** True for the directory of a lock or of its queue, as far as its name tells. */
export function isOurDirectory(directory: string): boolean {
  return /^~u?[0-9a-f]{64}$/.test(directory) || fromDirectory(directory) !== undefined;
}
