/**
 * How a record stands in its file: JSON that begins with a checksum of the rest. What was cut off, changed by hand or by a
 * broken disk, or never ours, is told from what we wrote. It is no signature: whoever may write here may forge.
 */
import { crc32 } from "node:zlib";

const HEAD_LENGTH = headOf("").length;

/** The text of a record. */
export function seal(record: object): string {
  const rest = `${JSON.stringify(record).slice(1)}\n`;
  return headOf(rest) + rest;
}

/** What was sealed; `undefined` for everything else. */
export function unseal(text: string): unknown {
  const rest = text.slice(HEAD_LENGTH);
  return text.startsWith(headOf(rest)) ? parseJson(`{${rest}`) : undefined;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function headOf(rest: string): string {
  return `{"sum":"${crc32(rest).toString(16).padStart(8, "0")}",`;
}
