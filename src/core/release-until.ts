/** A release that is asked for until the store has answered, and what every part that talks to the store needs for that. */
import type { Backend, Claim, Released } from "../contract/backend.ts";
import type { Clock, SleepDetector } from "../contract/clock.ts";
import { isA, LockBackendError } from "../contract/errors.ts";
import { type Chance, jitter } from "../contract/random.ts";
import { within } from "../contract/time-limit.ts";

/** A release that the store does not answer is asked for again after this long at most. */
export const SILENCE_MS = 2000;
const PAUSE_MIN_MS = 20;
const PAUSE_MAX_MS = 1000;

/** What every part that talks to the store needs. */
export interface Runtime {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly sleep: SleepDetector;
  /** Aborts when nothing is asked any more. Absent: it is asked until all is answered. */
  readonly ended?: AbortSignal;
}

/** Releases a claim, asking again until the store has answered or `untilMs` has passed, when it has let go by itself; no longer than there are locks. */
export async function releaseUntil(
  { backend, clock, chance, ended }: Runtime,
  claim: Claim,
  untilMs: number,
  ask: () => Promise<Released | undefined> = () => backend.release(claim),
): Promise<Released | undefined> {
  const isOver = (): boolean => ended?.aborted === true;
  for (let round = 0; !isOver(); round++) {
    try {
      // One that hangs is asked for again, ever more slowly: its connection may be queueing all of it.
      const patienceMs = Math.min(SILENCE_MS * 2 ** Math.min(round, 10), Math.max(0, untilMs - clock.now()));
      const was = await within(clock, ask(), patienceMs, ended);
      if (was !== undefined) return was;
    } catch (cause) {
      if (isA(LockBackendError, cause) && cause.fatal) return undefined;
    }
    const pauseMs = jitter(Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** Math.min(round, 10)), 0.5, 1, chance);
    if (isOver() || clock.now() + pauseMs >= untilMs) return undefined;
    await new Promise<void>((resolve) => clock.setTimer(resolve, pauseMs));
  }
  return undefined;
}
