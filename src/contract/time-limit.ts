/** A promise with a time limit: `undefined` when it has not settled by then. The timer is always taken away again. */
import type { Clock } from "./clock.ts";

export async function within<T>(clock: Clock, promise: Promise<T>, ms: number): Promise<T | undefined> {
  if (ms === Infinity) return await promise;
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
