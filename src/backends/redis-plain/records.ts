/** Reads what the scripts show of a lock's key: a lease of ours, or the value of another library, of which only the beginning comes. */
import type { Claim, Forced, Holding, Meta } from "../../contract/backend.ts";
import { clipped, HOLDER_MAX, META_BYTES_MAX, REASON_MAX } from "../../contract/foreign.ts";

/** Shown for a key that never expires: a number must be finite. */
const NEVER_MS = 100 * 365 * 86_400_000;
const OURS = /^(ours|kept):(\d{1,19}):(\d{1,15}):(\d{1,15}):(\d{1,15}):(.*)$/su;
const OTHER = /^other:(\d{1,10}):([01]):(.{0,4})$/su;

/** What a claim says of itself, as it is stored. */
export function whoText({ holder, meta }: Claim): string {
  return JSON.stringify([clipped(holder, HOLDER_MAX), meta]);
}

/** Whose a key is. */
export interface Shown {
  readonly holding: Holding;
  /** False: the value is neither one of ours nor like those of other lock libraries. */
  readonly isLikely: boolean;
}

/** `leftMs`: -1 if the key never expires. `undefined`: it is free. */
export function toShown(name: string, nowMs: number, leftMs: number, text: string): Shown | undefined {
  if (text === "") return undefined;
  const remainingMs = leftMs < 0 ? NEVER_MS : leftMs;
  const rest = { name, mode: "exclusive", limit: 1, remainingMs } as const;
  const [, whose, fence, since, , delay, who] = OURS.exec(text) ?? [];
  if (fence !== undefined) {
    const { holder, meta } = toWho(who ?? "");
    const isOver = leftMs >= 0 && leftMs <= Number(delay);
    const remainder: Holding["remainder"] = whose === "kept" ? "minHold" : isOver ? "lockDelay" : undefined;
    const heldMs = Math.max(0, nowMs - Number(since));
    const holding: Holding = { ...rest, holder, fence: BigInt(fence), heldMs, meta, ...(remainder && { remainder }) };
    return { holding, isLikely: true };
  }
  const [, length = "?", likely, start = ""] = OTHER.exec(text) ?? [];
  const never = leftMs < 0 ? ", never expires" : "";
  const holder = `another library (value ${start}…, ${length} bytes${never})`;
  // It has no fence, and when it began is not known.
  return { holding: { ...rest, holder, fence: 0n, heldMs: 0, meta: {} }, isLikely: likely === "1" };
}

function toWho(text: string): { readonly holder: string; readonly meta: Meta } {
  const [holder, meta]: unknown[] = parsed(text, []);
  const entries = typeof meta === "object" && meta !== null ? Object.entries(meta) : [];
  const isMeta = entries.every(([, value]) => typeof value === "string") && text.length <= 2 * META_BYTES_MAX;
  return {
    holder: typeof holder === "string" ? clipped(holder, HOLDER_MAX) : "unknown",
    meta: isMeta ? (Object.fromEntries(entries) as Meta) : {},
  };
}

/** Who ended a lease by force, and why. */
export function toForce(text: string): { readonly by: string; readonly reason: string } | undefined {
  const [by, reason]: unknown[] = parsed(text, []);
  if (typeof by !== "string" || typeof reason !== "string") return undefined;
  return { by: clipped(by, HOLDER_MAX), reason: clipped(reason, REASON_MAX) };
}

export function forceText(by: string, reason: string): string {
  return JSON.stringify([clipped(by, HOLDER_MAX), clipped(reason, REASON_MAX)]);
}

/** From `<when> <fence> <why>`. */
export function toForced(name: string, nowMs: number, text: string): readonly Forced[] {
  const [, at, fence, why] = /^(\d{1,15}) (\d{1,19}) (.*)$/su.exec(text) ?? [];
  const force = toForce(why ?? "");
  if (fence === undefined || force === undefined) return [];
  return [{ name, fence: BigInt(fence), ...force, agoMs: Math.max(0, nowMs - Number(at)) }];
}

function parsed(text: string, otherwise: unknown[]): unknown[] {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : otherwise;
  } catch {
    return otherwise;
  }
}
