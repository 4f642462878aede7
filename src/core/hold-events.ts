/** What subscribers of `holdfast:hold` hear of a lease: its beginning, its loss and its end. */
import type { Mode } from "../contract/backend.ts";
import type { Clock } from "../contract/clock.ts";
import type { LockLostError } from "../contract/errors.ts";
import { holdChannel, type HoldEvent, lostChannel } from "../contract/events.ts";
import { describeLoss, type LossReason } from "../contract/loss.ts";
import type { ReleaseResult } from "./api.ts";

interface Beginning {
  readonly name: string;
  readonly mode: Mode;
  readonly fence: bigint;
}

/** `hold`: that of the lease. */
export function beginning(
  backend: string,
  { name, mode, fence }: Beginning,
  { ttlMs, firstFence, lent }: { readonly ttlMs: number; readonly firstFence: bigint; readonly lent: number },
): HoldEvent {
  // Those who share one have its fence in common.
  const localHandOver = mode === "shared" ? lent > 1 : fence !== firstFence;
  return { backend, name, mode, fence, ttlMs, localHandOver };
}

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

export function publishLost(backend: string, name: string, fence: bigint, loss: LossReason): void {
  if (lostChannel.hasSubscribers) lostChannel.publish({ backend, name, fence, reason: describeLoss(loss), loss });
}
