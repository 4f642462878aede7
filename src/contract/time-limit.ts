/** A promise with a time limit: `undefined` when it has not settled by then, or when `ended` aborts. The timer is always taken away again. */
import type { Clock } from "./clock.ts";
import { onAbort } from "./on-abort.ts";

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
