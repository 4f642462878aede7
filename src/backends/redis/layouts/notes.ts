/** What our clients note beside a lock of a foreign layout: who claims, and who ended a lease by force. Read as the text of others is. */
import type { Claim, Forced, Meta } from "../../../contract/backend.ts";
import { clipped, HOLDER_MAX, META_BYTES_MAX, REASON_MAX } from "../../../contract/foreign.ts";

/** How long it is shown that a lease was ended by force. */
export const FORCED_MS = 3_600_000;
/** Shown for a key that never expires: a number must be finite. */
export const NEVER_MS: number = 100 * 365 * 86_400_000;

/** What a claim says of itself, as it is stored. */
export function whoText({ holder, meta }: Claim): string {
  return JSON.stringify([clipped(holder, HOLDER_MAX), meta]);
}

export function toWho(text: string): { readonly holder: string; readonly meta: Meta } {
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
