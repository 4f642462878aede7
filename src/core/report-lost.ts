/** Why a hold is lost, and how the leases on it learn that it is over for them. */
import type { Clock } from "../contract/clock.ts";
import type { LossReason } from "../contract/loss.ts";
import type { Hold } from "./hold.ts";
import type { HoldUser } from "./hold-neighbours.ts";

/** Reports a loss to all leases on a hold: first every state, then the listeners, which may do anything. */
export function reportLost(leases: readonly HoldUser[], loss: LossReason): void {
  const all = leases.flatMap((lease) => lease.withInner());
  for (const lease of all) lease.markLost(loss);
  for (const lease of all) lease.onLost?.(loss);
  for (const lease of all) lease.abort(loss);
}

/** Why a hold can no longer be trusted. */
export function whyEnded(hold: Hold, nowMs: number): LossReason {
  if (nowMs >= hold.endAtMs) return { kind: "max-hold" };
  if (nowMs < hold.trustedUntilMs) return { kind: "slept" };
  if (hold.options.renew === false) return { kind: "expired", renewal: "off" };
  if (hold.trouble !== undefined) return { kind: "expired", renewal: "failed", failures: hold.trouble.failures };
  return { kind: "expired", renewal: "late", lateMs: nowMs - hold.trustedUntilMs };
}

/** Its renewal had no answer. */
export function troubled(hold: Hold, cause: unknown): Hold {
  hold.trouble = { failures: (hold.trouble?.failures ?? 0) + 1, cause };
  return hold;
}

/** What the last renewal failed with, where that is why the lease is over. */
export function causeOf({ trouble }: Hold, { kind }: LossReason): unknown {
  return kind === "expired" ? trouble?.cause : undefined;
}

/** A hold whose time is over though no timer has noticed yet is in no one's way. */
export function loseExpired(holds: readonly Hold[], clock: Clock): void {
  const expired = holds.filter((hold) => !hold.trusted(clock.now()));
  for (const hold of expired) hold.lose(whyEnded(hold, clock.now()));
}

/** An end that no timer has noticed yet. Returns the instant that is now: after the listeners, if there was one. */
export function noticeEnd(hold: Hold, clock: Clock): number {
  const nowMs = clock.now();
  if (hold.state !== "held" || hold.trusted(nowMs)) return nowMs;
  // Only the hold says that it is lost: its users learn of it all together.
  hold.lose(whyEnded(hold, nowMs));
  return clock.now();
}

/** A hold that cannot be trusted any more. */
export interface Ended {
  readonly hold: Hold;
  readonly loss: LossReason;
}

/** Ends holds, one after the other. The listeners of one may have ended the next. */
export function lose(ended: readonly Ended[]): void {
  for (const { hold, loss } of ended) hold.lose(loss);
}
