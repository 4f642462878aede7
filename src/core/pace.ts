/** Whether, and after which pause, a claim that was refused or had no answer is asked for again, where no news comes. */
import type { Claim, Refused } from "../contract/backend.ts";
import { isA, LockBackendError } from "../contract/errors.ts";
import { type Chance, jitter } from "../contract/random.ts";

const POLL_MIN_MS = 20;
const POLL_MAX_MS = 1000;

/** `refused`: the store's last word, which may name a pause. Absent: it could not be asked. */
export function pauseMs(round: number, { ttlMs }: Claim, refused: Refused | undefined, chance: Chance): number {
  const retryMs = refused?.retryMs;
  // At least a millisecond: a store that is asked without a pause is asked without end.
  if (retryMs !== undefined && retryMs > 0) return Math.max(1, retryMs);
  const capMs = Math.min(POLL_MAX_MS, Math.max(1, ttlMs / 3));
  return jitter(Math.min(capMs, POLL_MIN_MS * 2 ** Math.min(round, 10)), 0.5, 1, chance);
}

/** Asking again cannot help. */
export function isFinal(cause: unknown): boolean {
  return isA(TypeError, cause) || (isA(LockBackendError, cause) && cause.fatal);
}
