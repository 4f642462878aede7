/** A pause that any of some signals ends early. It keeps the process alive: its user counts on what comes after it. */
import type { Clock } from "../contract/clock.ts";
import { onAbort } from "../contract/on-abort.ts";

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
