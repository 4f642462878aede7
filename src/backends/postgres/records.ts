/** Claims as the store keeps them, and its answers about them: written here, and checked here before they are believed. */
import type { Claim, Forced, Holding, Meta, Refused, Waiting } from "../../contract/backend.ts";
import { clipped, HOLDER_MAX, META_BYTES_MAX, REASON_MAX } from "../../contract/foreign.ts";
import { unexpected } from "./errors.ts";

/** The fences of a grant: the first, and how many there are. */
export interface Run {
  readonly fence: bigint;
  readonly run: number;
}

const GRANTED = /^granted (\d{1,19}) (\d{1,7})$/u;
const QUEUED = /^queued (\d{1,19}) (\d{1,15})$/u;
const FENCE = /^\d{1,19}$/u;
const FENCE_MAX = 2n ** 63n - 1n;

/** A name as a literal of the type bytea: any string is a name, and text in Postgres holds no NUL. */
export function toBytes(name: string): string {
  return `\\x${Buffer.from(name, "utf8").toString("hex")}`;
}

/** Literals of arrays. Their items need no quotes but those of a backslash: ids are base64url, names are hex. */
export function toBytesArray(names: readonly string[]): string {
  return `{${names.map((name) => `"\\${toBytes(name)}"`).join(",")}}`;
}

export function toArray(items: readonly (string | bigint)[]): string {
  return `{${items.join(",")}}`;
}

/** ASCII only, so that databases of every encoding can keep it. */
export function toAscii(value: unknown): string {
  return JSON.stringify(value).replaceAll(/[^ -~]/gu, (char) =>
    // A character may be two units.
    Array.from({ length: char.length }, (_, i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, "0")}`).join(""),
  );
}

/** Who claims, for people. */
export function toDetail({ holder, meta }: Claim): string {
  return toAscii([clipped(holder, HOLDER_MAX), meta]);
}

export function toRun(answer: unknown): Run | undefined {
  const [, fence, run] = (typeof answer === "string" ? GRANTED.exec(answer) : null) ?? [];
  const first = toFence(fence);
  return first === undefined || Number(run) < 1 ? undefined : { fence: first, run: Number(run) };
}

function toFence(text: unknown): bigint | undefined {
  if (typeof text !== "string" || !FENCE.test(text)) return undefined;
  const fence = BigInt(text);
  return fence > 0n && fence <= FENCE_MAX ? fence : undefined;
}

/** What an answer says to a claim that is still queued. */
export interface Learned {
  /** The lock's last fence: each later grant has a greater one. */
  readonly last: bigint;
  /** After how long it is worth asking again; 0: at the usual pace. */
  readonly againMs: number;
}

export function toLearned(answer: unknown): Learned | undefined {
  const [, last, again] = (typeof answer === "string" ? QUEUED.exec(answer) : null) ?? [];
  return last === undefined ? undefined : { last: BigInt(last), againMs: Number(again) };
}

export interface Refusal {
  readonly refused: Refused;
  /** Absent: the claim is not queued. */
  readonly learned: Learned | undefined;
  /** The server's clock, µs since 1970. */
  readonly wallUs: bigint;
}

const REFUSED = "refused ";

export function toRefusal(name: string, answer: string): Refusal {
  const fields = answer.startsWith(REFUSED) ? toFields(answer.slice(REFUSED.length)) : undefined;
  const place = toCount(fields?.place);
  const youngMs = toCount(fields?.young);
  const aheadMs = toCount(fields?.ahead) ?? 0;
  const { last, now } = fields ?? {};
  if (place === undefined || youngMs === undefined || typeof last !== "string" || !FENCE.test(last))
    throw unexpected(name);
  if (typeof now !== "string" || !FENCE.test(now)) throw unexpected(name);
  const held: readonly unknown[] = Array.isArray(fields?.held) ? fields.held : [];
  const heldBy = held.flatMap((holding) => toHolding(name, holding) ?? []);
  const retryMs = Math.max(youngMs, aheadMs);
  const refused: Refused = {
    granted: false,
    heldBy,
    ...(youngMs > 0 ? { quarantineMs: youngMs } : {}),
    ...(place > 0 ? { position: place } : {}),
    ...(retryMs > 0 ? { retryMs } : {}),
  };
  const learned = place > 0 ? { last: BigInt(last), againMs: retryMs } : undefined;
  return { refused, learned, wallUs: BigInt(now) };
}

export interface Fields {
  readonly [field: string]: unknown;
}

export function toFields(json: string): Fields | undefined {
  const value = parseJson(json);
  return typeof value === "object" && value !== null ? (value as Fields) : undefined;
}

/** A negative number counts as 0: the end of a lease may have passed. */
function toCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? Math.max(0, Math.floor(value)) : undefined;
}

/** `undefined`: it is not one, so it is not believed. */
export function toHolding(name: string, value: unknown): Holding | undefined {
  const { shared, most, fence, held, left, detail } = (value ?? {}) as Fields;
  const first = toFence(fence);
  const [heldMs, remainingMs, limit] = [toCount(held), toCount(left), toCount(most)];
  if (first === undefined || heldMs === undefined || remainingMs === undefined || limit === undefined) return undefined;
  return {
    name,
    mode: shared === true ? "shared" : "exclusive",
    limit,
    fence: first,
    heldMs,
    remainingMs,
    ...toWho(detail),
  };
}

export function toWaiting(name: string, value: Fields): Waiting | undefined {
  const [waitingMs, position, limit] = [toCount(value["waiting"]), toCount(value["place"]), toCount(value["most"])];
  if (waitingMs === undefined || position === undefined || limit === undefined) return undefined;
  const mode = value["shared"] === true ? "shared" : "exclusive";
  return { name, mode, limit, waitingMs, position, ...toWho(value["detail"]) };
}

export function toForced(name: string, value: Fields): Forced | undefined {
  const [fence, agoMs] = [toFence(value["fence"]), toCount(value["ago"])];
  return fence === undefined || agoMs === undefined ? undefined : { name, fence, agoMs, ...toForce(value["who"]) };
}

/** Who ended a lease by force, and why. */
export function toForce(who: unknown): { by: string; reason: string } {
  const { by, reason } = (typeof who === "string" ? toFields(who) : undefined) ?? {};
  return {
    by: typeof by === "string" ? clipped(by, HOLDER_MAX) : "unknown",
    reason: typeof reason === "string" ? clipped(reason, REASON_MAX) : "no reason given",
  };
}

function toWho(detail: unknown): { holder: string; meta: Meta } {
  const who = typeof detail === "string" ? parseJson(detail) : undefined;
  const [holder, meta]: unknown[] = Array.isArray(who) ? who : [];
  return { holder: typeof holder === "string" ? clipped(holder, HOLDER_MAX) : "unknown", meta: toMeta(meta) };
}

/** A meta that is too long is not shown at all: a part of it would look like the whole. */
function toMeta(value: unknown): Meta {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
  const entries = Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const length = entries.reduce((sum, [field, text]) => sum + field.length + text.length, 0);
  return length > META_BYTES_MAX ? {} : Object.fromEntries(entries);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The name of a lock from its bytes in hex. */
export function toName(hex: unknown): string | undefined {
  return typeof hex === "string" && /^(?:[0-9a-f]{2})*$/u.test(hex)
    ? Buffer.from(hex, "hex").toString("utf8")
    : undefined;
}
