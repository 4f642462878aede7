/** Waits for a condition, never for a time: the limit only ends what has failed anyway. */
import assert from "node:assert/strict";
import { type Clock, systemClock } from "../contract/clock.ts";

export interface EventuallyOptions {
  /** When to give up. @default 120_000 */
  readonly patienceMs?: number | undefined;
  /** Time between two looks. @default 10 */
  readonly paceMs?: number | undefined;
  /** @default the system's */
  readonly clock?: Clock | undefined;
  /** Lets time pass. @default waits */
  readonly sleep?: ((ms: number) => Promise<void>) | undefined;
}

/** Calls `look` until it returns something, and resolves to that. `what` is for the error, such as "the lease is granted". */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined> | T | undefined,
  { patienceMs = 120_000, paceMs = 10, clock = systemClock, sleep = wait }: EventuallyOptions = {},
): Promise<T> {
  const deadlineMs = clock.now() + patienceMs;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (clock.now() >= deadlineMs) assert.fail(`did not happen within ${patienceMs} ms: ${what}`);
    await sleep(paceMs);
  }
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
