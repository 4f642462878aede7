/**
 * The header that carries fences over HTTP: `Fencing-Token: invoice%3A42=17`.
 *
 * Names are percent-encoded, fences are decimal; several are separated by commas.
 */
import { checkFenced, type Fenced, parseFence } from "./fenced.ts";

/** Named as the literature does, since the other end may know nothing of this library. */
export const FENCE_HEADER = "fencing-token";

/** More than any request needs, and little enough to parse without harm. */
const MAX_HEADER_LENGTH = 16_384;

export function writeFenceHeader(fences: readonly Fenced[]): string {
  return fences
    .map(checkFenced)
    .map(({ name, fence }) => `${encodeURIComponent(name)}=${fence}`)
    .join(", ");
}

/** Reads the header: a fence per name. `undefined`: malformed, or the same name twice. */
export function readFenceHeader(text: string): ReadonlyMap<string, bigint> | undefined {
  if (text.length > MAX_HEADER_LENGTH) return undefined;
  const fences = new Map<string, bigint>();
  for (const item of text.split(",")) {
    const [encoded, decimal, ...rest] = item.trim().split("=");
    const name = decode(encoded ?? "");
    const fence = parseFence(decimal);
    if (name === undefined || fence === undefined || rest.length > 0 || fences.has(name)) return undefined;
    fences.set(name, fence);
  }
  return fences;
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
