/**
 * What is kept of a response: status, body and the headers that are safe to send again. It is read with care, because another process, perhaps
 * of another version, wrote it.
 */
import { isUtf8 } from "node:buffer";
import type { OnceCodec } from "../../core/api.ts";

/** A response, as its handler made it. */
export interface Made {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** `undefined`: it is a stream, and was not read. */
  readonly body: Uint8Array | undefined;
}

export interface Kept extends Made {
  readonly fingerprint: string;
}

const VERSION = 1;
/** As core's once() has it: what is longer is done without a value. */
const TEXT_BYTES_MAX = 65_536;
const TOKEN = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;
/** What HTTP allows in a value: no line breaks, which would be headers of their own. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Of one connection or of one moment; cookies belong to one user; and lengths are counted again. */
const NOT_KEPT: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authentication-info",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "set-cookie",
  "set-cookie2",
  "content-length",
  "date",
  "idempotency-replayed",
]);

export type Headers = Readonly<Record<string, unknown>>;

/** The headers that the handler has set, of those that may be kept. `before`: what was there when it began. */
export function safeHeaders(now: Headers, before: Headers): readonly (readonly [string, string])[] {
  const lower = (headers: Headers): Map<string, string> =>
    new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), textOf(value)]));
  const [headers, earlier] = [lower(now), lower(before)];
  const perConnection = new Set((headers.get("connection") ?? "").toLowerCase().split(/[\s,]+/));
  return [...headers].filter(
    ([name, value]) =>
      isSafe(name, value) && !perConnection.has(name) && (earlier.get(name) !== value || name === "content-type"),
  );
}

function isSafe(name: string, value: string): boolean {
  return TOKEN.test(name) && VALUE.test(value) && !NOT_KEPT.has(name);
}

function textOf(value: unknown): string {
  return Array.isArray(value) ? value.map(String).join(", ") : String(value);
}

/** Says "not now" rather than what came of the request: a later one may come to something else. */
export function isTransient({ status, headers }: Made): boolean {
  return (
    status >= 500 ||
    [401, 407, 408, 409, 421, 423, 425, 429].includes(status) ||
    (status >= 400 && headers.some(([name]) => name === "retry-after"))
  );
}

export const CODEC: OnceCodec<Kept> = {
  encode: (kept) => {
    const text = write(kept, kept.body);
    return Buffer.byteLength(text) > TEXT_BYTES_MAX ? write(kept, undefined) : text;
  },
  decode: (text) => {
    const kept = read(JSON.parse(text));
    if (kept === undefined) throw new Error("it was not written by idempotent(), or by another version of it");
    return kept;
  },
};

function write({ fingerprint, status, headers }: Kept, body: Uint8Array | undefined): string {
  const rest = { v: VERSION, fingerprint, status, headers: body === undefined ? [] : headers };
  if (body === undefined) return JSON.stringify(rest);
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return JSON.stringify(
    isUtf8(bytes) ? { ...rest, text: bytes.toString() } : { ...rest, base64: bytes.toString("base64") },
  );
}

function read(value: unknown): Kept | undefined {
  const { v, fingerprint, status, headers, text, base64 } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (v !== VERSION || typeof fingerprint !== "string" || !isStatus(status) || !areHeaders(headers)) return undefined;
  if (typeof text === "string") return { fingerprint, status, headers, body: Buffer.from(text) };
  if (typeof base64 === "string") return { fingerprint, status, headers, body: Buffer.from(base64, "base64") };
  return text === undefined && base64 === undefined ? { fingerprint, status, headers, body: undefined } : undefined;
}

function isStatus(status: unknown): status is number {
  return Number.isInteger(status) && (status as number) >= 200 && (status as number) <= 599;
}

function areHeaders(headers: unknown): headers is readonly (readonly [string, string])[] {
  return (
    Array.isArray(headers) &&
    headers.every(
      (pair: unknown) =>
        Array.isArray(pair) &&
        pair.length === 2 &&
        pair.every((part) => typeof part === "string") &&
        isSafe(pair[0] as string, pair[1] as string),
    )
  );
}

/** A replay as any framework sends it. These statuses have no body, and no length. */
export function replayHeaders({ status, headers, body }: Kept): readonly (readonly [string, string])[] {
  const length: [string, string][] =
    status === 204 || status === 205 || status === 304 ? [] : [["content-length", String(body?.length ?? 0)]];
  return [...headers, ...length, ["idempotency-replayed", "true"]];
}
