/** A limit for everything that a server may never answer. */
import type { Clock } from "../../../contract/clock.ts";
import { formatMs } from "../../../contract/duration.ts";

/** Rejects after `ms`, and calls `late` then. The answer that may still come is dropped. */
export function within<T>(clock: Clock, ms: number, asked: PromiseLike<T>, late?: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    // Unref'd: what waits for the answer keeps the process alive, or nothing does.
    const timer = clock.setTimer(() => {
      reject(new Error(`no answer within ${formatMs(ms)}`));
      late?.();
    }, ms);
    asked.then(
      (answer) => {
        clock.clearTimer(timer);
        resolve(answer);
      },
      (error: unknown) => {
        clock.clearTimer(timer);
        reject(error as Error);
      },
    );
  });
}
