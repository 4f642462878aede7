/** The timers of the platform on a clock of the test's own, for code that does not take one. */
import { FakeClock } from "../../../src/testing/fake-clock.ts";

/** Meanwhile `setTimeout` and `clearTimeout` are the clock's. */
export async function onClock(work: (clock: FakeClock) => Promise<void>): Promise<void> {
  const clock = new FakeClock();
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  const later = (fire: () => void, ms: number): object => {
    const timer = { of: clock.setTimer(fire, ms), ref: () => timer, unref: () => timer };
    return timer;
  };
  globalThis.setTimeout = later as never;
  globalThis.clearTimeout = ((timer: { of: never } | undefined) => clock.clearTimer(timer?.of)) as never;
  try {
    await work(clock);
  } finally {
    globalThis.setTimeout = set;
    globalThis.clearTimeout = clear;
  }
}
