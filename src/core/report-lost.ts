/** How the leases on a hold learn that it is over for them. */
import type { LossReason } from "../contract/loss.ts";
import type { HoldUser } from "./hold.ts";

/** Reports a loss to all leases on a hold: first every state, then the listeners, which may do anything. */
export function reportLost(leases: readonly HoldUser[], loss: LossReason): void {
  const all = leases.flatMap((lease) => lease.withInner());
  const marked = all.filter((lease) => lease.markLost(loss));
  for (const lease of all) lease.onLost?.(loss);
  for (const lease of marked) lease.abort();
}
