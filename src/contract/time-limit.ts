/** A promise with a time limit: `undefined` when it has not settled by then, or when `ended` aborts. The timer is always taken away again. */
import type { Clock } from "./clock.ts";
import { onAbort } from "./on-abort.ts";

const PORTIONS = 5;

export async function within<T>(
  clock: Clock,
  promise: Promise<T>,
  ms: number,
  ended?: AbortSignal,
): Promise<T | undefined> {
  if (ms === Infinity) return await promise;
  let stop = (): void => {};
  const late = new Promise<undefined>((resolve) => {
    const timer = clock.setTimer(() => resolve(undefined), ms, true);
    const unlisten = onAbort(ended, () => resolve(undefined));
    stop = () => {
      clock.clearTimer(timer);
      unlisten();
    };
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    stop();
  }
}

/**
 * As {@link within}, in portions: time in which this process itself stood still (a blocked event loop, SIGSTOP) counts for one of
 * them at most. Timers come before messages then, and what has long arrived would not be heard. Whenever `progress` has changed,
 * the time starts again.
 */
export async function withinAwake(
  clock: Clock,
  done: Promise<true>,
  ms: number,
  progress: () => unknown = () => undefined,
): Promise<boolean> {
  let seen = progress();
  for (let left = PORTIONS; left > 0; left--) {
    if (await within(clock, done, ms / PORTIONS)) return true;
    const now = progress();
    if (now !== seen) left = PORTIONS + 1;
    seen = now;
  }
  return false;
}
