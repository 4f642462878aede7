/** Why a hold is lost, and how the leases on it learn that it is over for them. */
import type { LossReason } from "../contract/loss.ts";
import type { Hold } from "./hold.ts";
import type { HoldUser } from "./hold-neighbours.ts";

/** Reports a loss to all leases on a hold: first every state, then the listeners, which may do anything. */
export function reportLost(leases: readonly HoldUser[], loss: LossReason): void {
  const all = leases.flatMap((lease) => lease.withInner());
  const marked = all.filter((lease) => lease.markLost(loss));
  for (const lease of all) lease.onLost?.(loss);
  for (const lease of marked) lease.abort();
}

/** Why a hold can no longer be trusted, after so many renewals in a row without an answer. */
export function whyEnded(hold: Hold, nowMs: number, failures: number): LossReason {
  if (nowMs >= hold.endAtMs) return { kind: "max-hold" };
  if (nowMs < hold.trustedUntilMs) return { kind: "slept" };
  if (hold.options.renew === false) return { kind: "expired", renewal: "off" };
  if (failures > 0) return { kind: "expired", renewal: "failed", failures };
  return { kind: "expired", renewal: "late", lateMs: nowMs - hold.trustedUntilMs };
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
