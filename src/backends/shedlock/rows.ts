/**
 * A row of ShedLock's table as we write and read it. `locked_by` says who: of others the host; of ours the holder, a minHold that counts, and the
 * claim's id, by which two claims are never one, and another process finds its claim. `locked_at` is the lease's fence: no claim gets the lock
 * before `lock_until` of the lease before, which is later.
 */
import type { Claim, Forced, Holding } from "../../contract/backend.ts";
import { clipped, HOLDER_MAX, REASON_MAX } from "../../contract/foreign.ts";

/** Behind the holder: a minHold, and the id with a mark if the lease ended before that. */
const OURS = /^(.*?)(?: \+\d+)? (~?)([\w-]{22})$/su;
/** How `locked_by` of a lease begins that was ended by force. Nothing in it needs quotes in a statement. */
export const FORCED = "ended by force: ";
const BY_FORCE = /^ended by force: (\S+) (.*) !(?:[\w-]{22})?$/su;
const FENCE = /^\d{1,19}$/u;

export function lockedBy({ holder, id, minHoldMs }: Claim): string {
  // Text in Postgres holds no NUL.
  const who = clipped(holder.replaceAll("\0", ""), HOLDER_MAX);
  return minHoldMs > 0 ? `${who} +${Math.ceil(minHoldMs)} ${id}` : `${who} ${id}`;
}

export interface Row {
  readonly name?: unknown;
  readonly by?: unknown;
  readonly fence?: unknown;
  readonly held?: unknown;
  readonly left?: unknown;
}

/** Who ended a lease by force, as `locked_by` says it: within its 255 characters, also for people who read the table. */
export function forcedBy(by: string, reason: string): string {
  const [who, why] = [by.replaceAll(/\s/gu, "_"), reason.replaceAll("\0", "")];
  return `${FORCED}${clipped(who === "" ? "unknown" : who, 80)} ${clipped(why, 120)}`;
}

export function toForce(by: unknown): { readonly by: string; readonly reason: string } | undefined {
  const [, who, reason] = (typeof by === "string" ? BY_FORCE.exec(by) : null) ?? [];
  return who === undefined || reason === undefined
    ? undefined
    : { by: clipped(who, HOLDER_MAX), reason: clipped(reason, REASON_MAX) };
}

/** A lease that was ended by force, while no other claim has taken the lock. */
export function toForced({ name, by, fence, left }: Row): Forced | undefined {
  const [force, first] = [toForce(by), toFence(fence)];
  if (force === undefined || first === undefined || typeof name !== "string") return undefined;
  return { name, fence: first, ...force, agoMs: toMs(typeof left === "number" ? -left : 0) };
}

/** `undefined`: it is not one, so it is not believed. */
export function toHolding({ name, by, fence, held, left }: Row): Holding | undefined {
  const first = toFence(fence);
  if (typeof name !== "string" || typeof by !== "string" || first === undefined) return undefined;
  if (typeof left !== "number" || left <= 0) return undefined;
  const [, holder = by, mark, id] = OURS.exec(by) ?? [];
  return {
    name,
    mode: "exclusive",
    limit: 1,
    holder: clipped(holder, HOLDER_MAX),
    fence: first,
    heldMs: toMs(held),
    remainingMs: toMs(left),
    meta: {},
    ...(id !== undefined && { id }),
    ...(mark === "~" && { remainder: "minHold" }),
  };
}

export function toFence(value: unknown): bigint | undefined {
  if (typeof value !== "string" || !FENCE.test(value)) return undefined;
  const fence = BigInt(value);
  return fence > 0n && fence < 2n ** 63n ? fence : undefined;
}

/** A negative number counts as 0: the end of a lease may have passed. */
function toMs(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? Math.max(0, Math.floor(value)) : 0;
}

export function toRow(answer: string | null | undefined): Row | undefined {
  if (typeof answer !== "string") return undefined;
  try {
    const row: unknown = JSON.parse(answer);
    return typeof row === "object" && row !== null ? row : undefined;
  } catch {
    return undefined;
  }
}
