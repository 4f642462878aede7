/** What the store answers about claims, checked here before it is believed; and how names are written. */
import type { Forced, Granted, Holding, KeptOutcome, Refused, Waiting } from "../../contract/backend.ts";
import { OUTCOME_BYTES_MAX, OUTCOME_KEEP_MAX_MS } from "../../contract/claim.ts";
import { clipped, HOLDER_MAX, REASON_MAX } from "../../contract/foreign.ts";
import { unexpected } from "./errors.ts";
import { parseJson, toWho } from "./who.ts";

/** A grant, without the instant from which it is trusted. */
export type Run = Omit<Granted, "fromMs">;

const GRANTED = /^granted (\d{1,19}) (\d{1,7})( w)?$/u;
const QUEUED = /^queued (\d{1,19}) (\d{1,15})$/u;
const FENCE = /^\d{1,19}$/u;
export const FENCE_MAX: bigint = 2n ** 63n - 1n;

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

/** The same for any texts. */
export function toTextArray(items: readonly (string | null)[]): string {
  return `{${items.map((item) => (item === null ? "null" : `"${item.replaceAll(/["\\]/gu, String.raw`\$&`)}"`)).join(",")}}`;
}

export function toRun(answer: unknown): Run | undefined {
  const [, first, run, wanted] = (typeof answer === "string" ? GRANTED.exec(answer) : null) ?? [];
  const fence = toFence(first);
  if (fence === undefined || Number(run) < 1) return undefined;
  // The process learns when it is wanted: by a message, or it asks (wanted-news.ts).
  return { granted: true, fence, run: Number(run), mayLinger: true, ...(wanted !== undefined && { wanted: true }) };
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
const OUTCOME = "outcome ";

/** The answer to a claim that wanted an outcome, and can have it. */
export function toDone(name: string, answer: string): Refused | undefined {
  if (!answer.startsWith(OUTCOME)) return undefined;
  const outcome = toOutcome(toFields(answer.slice(OUTCOME.length)));
  if (outcome === undefined) throw unexpected(name);
  return { granted: false, heldBy: [], outcome };
}

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
export function toCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? Math.max(0, Math.floor(value)) : undefined;
}

/** `undefined`: it is not one, so it is not believed. */
export function toHolding(name: string, value: unknown): Holding | undefined {
  const { shared, most, fence, held, left, detail, remainder, id } = (value ?? {}) as Fields;
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
    ...(typeof id === "string" && { id }),
    ...((remainder === "minHold" || remainder === "lockDelay") && { remainder }),
    ...toWho(detail),
  };
}

export function toWaiting(name: string, value: Fields): Waiting | undefined {
  const [waitingMs, position, limit] = [toCount(value["waiting"]), toCount(value["place"]), toCount(value["most"])];
  if (waitingMs === undefined || position === undefined || limit === undefined) return undefined;
  const mode = value["shared"] === true ? "shared" : "exclusive";
  const { id, since } = value;
  const { lingerMs: _, ...who } = toWho(value["detail"]);
  return {
    name,
    mode,
    limit,
    waitingMs,
    position,
    ...(typeof since === "string" && /^\d{1,19}$/u.test(since) && { order: BigInt(since) }),
    ...(typeof id === "string" && { id }),
    ...who,
  };
}

export function toForced(name: string, value: Fields): Forced | undefined {
  const [fence, agoMs] = [toFence(value["fence"]), toCount(value["ago"])];
  return fence === undefined || agoMs === undefined ? undefined : { name, fence, agoMs, ...toForce(value["who"]) };
}

/** `undefined`: its time is over, or it is none of ours. */
export function toOutcome(value: Fields | undefined): KeptOutcome | undefined {
  const [ageMs, remainingMs, fence] = [toCount(value?.age), toCount(value?.left), toFence(value?.fence)];
  const hex = value?.value;
  if (ageMs === undefined || remainingMs === undefined || fence === undefined || typeof hex !== "string")
    return undefined;
  if (remainingMs === 0 || ageMs + remainingMs > OUTCOME_KEEP_MAX_MS + 2) return undefined;
  const text = hex.length > 2 * OUTCOME_BYTES_MAX ? undefined : toName(hex);
  return text === undefined
    ? undefined
    : { value: text, fence, holder: toWho(value?.detail).holder, ageMs, remainingMs };
}

/** Who ended a lease by force, and why. */
export function toForce(who: unknown): { by: string; reason: string } {
  const { by, reason } = (typeof who === "string" ? toFields(who) : undefined) ?? {};
  return {
    by: typeof by === "string" ? clipped(by, HOLDER_MAX) : "unknown",
    reason: typeof reason === "string" ? clipped(reason, REASON_MAX) : "no reason given",
  };
}

/** A text from its bytes in hex. */
export function toName(hex: unknown): string | undefined {
  return typeof hex === "string" && /^(?:[0-9a-f]{2})*$/u.test(hex)
    ? Buffer.from(hex, "hex").toString("utf8")
    : undefined;
}
