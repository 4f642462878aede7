/** Releasing what got no answer: the same release is asked for again, and what that means is concluded with care. */
import type { Claim } from "./backend.ts";
import type { Clock } from "./clock.ts";
import { LockBackendError } from "./errors.ts";
import type { Hold } from "./hold.ts";
import type { Surroundings } from "./surroundings.ts";

const PAUSE_MIN_MS = 20;
const PAUSE_MAX_MS = 1000;
const PATIENCE_MAX_MS = 5000;

/** Releases a claim, asking again until the store has answered or `untilMs` has passed, when it has let go by itself. */
export async function releaseUntil(around: Surroundings, claim: Claim, untilMs: number): Promise<boolean | undefined> {
  const { backend, clock, chance } = around;
  for (let round = 0; ; round++) {
    try {
      return (await backend.release(claim)) === "held";
    } catch (cause) {
      if (cause instanceof LockBackendError && cause.fatal) return undefined;
      const pauseMs = Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** Math.min(round, 10)) * (0.5 + 0.5 * chance.fraction());
      if (clock.now() + pauseMs >= untilMs) return undefined;
      await new Promise<void>((resolve) => clock.setTimer(resolve, pauseMs));
    }
  }
}

/**
 * Releases a hold whose first release got no answer: the reply was lost, or the request was.
 *
 * `true`: it was ours until now. `false`: it had ended before. `undefined`: the store could not be asked in time, or its
 * answer proves nothing; the asking goes on behind the caller's back until the store has let go by itself.
 */
export function releaseAgain(around: Surroundings, hold: Hold): Promise<boolean | undefined> {
  const { clock } = around;
  const { claim, trustedUntilMs } = hold;
  const untilMs = trustedUntilMs + claim.ttlMs / 50 + 4 + claim.lockDelayMs;
  const repeated = releaseUntil(around, claim, untilMs).then((known) => {
    // Absent though surely held until now: nobody else could have removed it, so that our first release did.
    if (known === false) return hold.isSure(clock.now()) ? true : undefined;
    return known;
  });
  const patienceMs = Math.min(PATIENCE_MAX_MS, claim.ttlMs / 3, trustedUntilMs - clock.now());
  return within(clock, repeated, Math.max(0, patienceMs));
}

async function within<T>(clock: Clock, promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: unknown;
  const late = new Promise<undefined>((resolve) => {
    timer = clock.setTimer(() => resolve(undefined), ms, true);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clock.clearTimer(timer);
  }
}
