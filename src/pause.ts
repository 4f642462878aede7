/** A pause that any of some signals ends early. It keeps the process alive: somebody counts on what comes after it. */
import type { Clock } from "./clock.ts";
import { onAbort } from "./on-abort.ts";

export async function pause(clock: Clock, ms: number, signals: readonly (AbortSignal | undefined)[]): Promise<void> {
  const stop: (() => void)[] = [];
  try {
    await new Promise<void>((resolve) => {
      const timer = clock.setTimer(resolve, ms, true);
      stop.push(() => clock.clearTimer(timer));
      for (const signal of signals) stop.push(onAbort(signal, () => resolve()));
    });
  } finally {
    for (const end of stop) end();
  }
}
