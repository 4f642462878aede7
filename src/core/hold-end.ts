/** What subscribers of `holdfast:hold` hear of the end of a lease. */
import type { Clock } from "../contract/clock.ts";
import type { LockLostError } from "../contract/errors.ts";
import { holdChannel, type HoldEvent } from "../contract/events.ts";
import type { LossReason } from "../contract/loss.ts";
import type { ReleaseResult } from "./api.ts";

interface Ending {
  readonly lost: LockLostError | undefined;
  lossFor(loss: LossReason): LockLostError;
}

export async function publishEnd(
  event: HoldEvent,
  lease: Ending,
  given: ReleaseResult | Promise<ReleaseResult>,
  clock: Clock,
  grantedAtMs: number,
): Promise<ReleaseResult> {
  // Where the backend's answer is a mistake, the lease is over all the same.
  const result = await Promise.resolve(given).catch(() => "unknown" as const);
  const lost = result === "lost" ? lease.lossFor({ kind: "gone" }) : lease.lost;
  event.end = lost === undefined ? result : "lost";
  event.heldMs = clock.now() - grantedAtMs;
  if (lost !== undefined) {
    event.error = lost;
    holdChannel.error.publish(event);
  }
  holdChannel.end.publish(event);
  return await given;
}
