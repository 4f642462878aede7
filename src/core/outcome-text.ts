/**
 * What an outcome is in the store: a text whose first letter says what follows. `v`: the value, encoded. `n`: no value
 * (`undefined`). `x`: done, but the value could not be kept; why. `e`: the work failed; name, message and code as JSON.
 */
import type { KeptOutcome } from "../contract/claim.ts";
import { LockOutcomeError, messageOf } from "../contract/errors.ts";
import { clipped } from "../contract/foreign.ts";
import type { OnceCodec } from "./api.ts";

const VALUE_BYTES_MAX = 65_536;
const WORDS_MAX = 2000;

export const JSON_CODEC: OnceCodec<never> = {
  encode: (value: unknown) => JSON.stringify(value),
  decode: (text: string) => JSON.parse(text) as never,
};

/** The text, and the value as all get it: what its own caller has passes through the codec, too. */
export function encodeValue<T>(result: T, codec: OnceCodec<T>): { readonly text: string; readonly value: T } {
  if (result === undefined) return { text: "n", value: result };
  try {
    const encoded: unknown = codec.encode(result);
    if (typeof encoded !== "string") return { text: "xit cannot be written as text", value: result };
    const bytes = Buffer.from(encoded);
    const { length } = bytes;
    if (length > VALUE_BYTES_MAX) return { text: `xit is ${length} bytes long, of ${VALUE_BYTES_MAX}`, value: result };
    // As a store gives it back: half a surrogate pair is no UTF-8.
    const text = bytes.toString();
    return { text: `v${text}`, value: codec.decode(text) };
  } catch (error) {
    return { text: `x${clipped(messageOf(error), WORDS_MAX)}`, value: result };
  }
}

export function encodeFailure(error: unknown): string {
  return `e${JSON.stringify({ ...nameAndCode(error), message: clipped(messageOf(error), WORDS_MAX) })}`;
}

/** As far as they can be read: an error's properties may run user code, and the lease must end whatever that does. */
function nameAndCode(error: unknown): { readonly name?: string | undefined; readonly code?: string | undefined } {
  try {
    const { name, code } = (error instanceof Error ? error : {}) as {
      readonly name?: unknown;
      readonly code?: unknown;
    };
    return { name: word(name), code: word(code) };
  } catch {
    return {};
  }
}

function word(value: unknown): string | undefined {
  return typeof value === "string" ? clipped(value, 200) : undefined;
}

/** Reads what is kept: another process wrote it, perhaps of another version, so that it is checked. */
export function decodeOutcome<T>(
  lock: string,
  { value: text, fence }: KeptOutcome,
  codec: OnceCodec<T>,
): { readonly value: T } | { readonly error: Error } {
  const rest = text.slice(1);
  try {
    if (text.startsWith("v")) return { value: codec.decode(rest) };
    if (text === "n") return { value: undefined as T };
    if (text.startsWith("e")) return { error: readFailure(lock, fence, rest) };
  } catch (cause) {
    return { error: new LockOutcomeError(lock, fence, `its value cannot be read (${messageOf(cause)})`, { cause }) };
  }
  if (text.startsWith("x")) return { error: new LockOutcomeError(lock, fence, `its value was not kept: ${rest}`) };
  return { error: new LockOutcomeError(lock, fence, "its value was not written by once()") };
}

/** The error that the work failed with, as far as it was kept. */
function readFailure(lock: string, fence: bigint, json: string): Error {
  const { name, message, code } = JSON.parse(json) as Readonly<Record<string, unknown>>;
  const error = new Error(String(message), { cause: new LockOutcomeError(lock, fence, "it failed, and that is kept") });
  if (typeof name === "string")
    Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  if (typeof code === "string") Object.assign(error, { code });
  return error;
}
