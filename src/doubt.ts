/**
 * A lease that ends in doubt while others go on with its hold: a re-entry, or one of several that share it. No release of its
 * own could say whether it was still held, so that the store's next word on the hold does: a renewal, or the release by the
 * last one out.
 */
import type { ReleaseResult } from "./api.ts";
import type { Clock } from "./clock.ts";
import type { Hold } from "./hold.ts";
import { within } from "./within.ts";

const PATIENCE_MIN_MS = 100;
const PATIENCE_MAX_MS = 5000;
/** A worker thread confirms in silence: its holds are looked at. */
const LOOK_MS = 50;

/** `home.confirm` asks the store, unless it is being asked. `unknown`: it did not answer in time. */
export async function settleDoubt(
  hold: Hold,
  clock: Clock,
  home: { confirm(hold: Hold): void },
): Promise<ReleaseResult> {
  const patienceMs = Math.max(PATIENCE_MIN_MS, Math.min(PATIENCE_MAX_MS, hold.ttlMs / 3));
  const untilMs = clock.now() + patienceMs;
  for (;;) {
    const nowMs = clock.now();
    const leftMs = untilMs - nowMs;
    if (hold.state === "ending") return (await within(clock, hold.released!, Math.max(0, leftMs))) ?? "unknown";
    if (!hold.trusted(nowMs)) return "lost";
    if (!hold.inDoubt(nowMs)) return "released";
    if (leftMs <= 0) return "unknown";
    // What was under way may be older than the sleep: then it is asked again.
    home.confirm(hold);
    await within(clock, hold.changed(), hold.spec.renew === "thread" ? Math.min(LOOK_MS, leftMs) : leftMs);
  }
}
