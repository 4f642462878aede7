/**
 * A lease that ends in doubt while others go on with its hold: a re-entry, or one of several that share it. No release of its
 * own could say whether it was still held, so the store's next word on the hold does: a renewal, or the release by the
 * last one out.
 */
import type { ReleaseResult } from "./api.ts";
import type { Clock } from "../contract/clock.ts";
import type { Hold } from "./hold.ts";
import type { Watchdog } from "./watchdog.ts";
import { within } from "../contract/time-limit.ts";

const PATIENCE_MIN_MS = 100;
const PATIENCE_MAX_MS = 5000;
/** A worker thread confirms in silence: its holds are looked at. The store is not asked more often than that. */
const LOOK_MS = 50;

/** What becomes of a lease that is over while others go on with its hold: was it still ours? */
export function leftToOthers(hold: Hold, clock: Clock, watchdog: Watchdog): ReleaseResult | Promise<ReleaseResult> {
  if (hold.state !== "held") return "lost";
  return hold.inDoubt(clock.now()) ? settleDoubt(hold, clock, watchdog) : "released";
}

/** What becomes of the hold when the last of them is out: what a lease of it leaves behind is kept by then, or lost with it. */
export async function endOf(hold: Hold): Promise<ReleaseResult> {
  while (hold.state === "held") await hold.changed();
  return hold.state === "ending" ? await hold.released! : "lost";
}

/** The watchdog asks the store, unless it is being asked. `unknown`: it did not answer in time. */
async function settleDoubt(hold: Hold, clock: Clock, watchdog: Watchdog): Promise<ReleaseResult> {
  const patienceMs = Math.max(PATIENCE_MIN_MS, Math.min(PATIENCE_MAX_MS, hold.ttlMs / 3));
  const untilMs = clock.now() + patienceMs;
  // Asks, and then checks for a while: an answer that settles nothing, such as one older than the sleep, is not asked for without a pause.
  for (let asks = true; ; asks = !asks) {
    const nowMs = clock.now();
    const leftMs = untilMs - nowMs;
    if (hold.state === "ending") return (await within(clock, hold.released!, Math.max(0, leftMs))) ?? "unknown";
    if (!hold.trusted(nowMs)) return "lost";
    if (!hold.inDoubt(nowMs)) return "released";
    if (leftMs <= 0) return "unknown";
    if (asks) watchdog.confirm(hold);
    const lookMs = asks && hold.options.renew !== "thread" ? leftMs : Math.min(LOOK_MS, leftMs);
    // At least a millisecond: a timer that is a little early must not be set repeatedly for nothing.
    await within(clock, hold.changed(), Math.max(1, lookMs));
  }
}
