/** What every part that talks to the store needs: the store itself, time, and chance. */
import type { Backend } from "../contract/backend.ts";
import type { Chance } from "../contract/random.ts";
import type { Clock } from "../contract/clock.ts";
import type { SleepDetector } from "./sleep.ts";

export interface Runtime {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly sleep: SleepDetector;
  /** Aborts when nothing is asked any more. Absent: it is asked until all is answered. */
  readonly ended?: AbortSignal;
}

/** To await a promise calls no method of it. */
async function awaited<T>(answer: Promise<T>): Promise<T> {
  return await answer;
}

/** Asks the store. A backend that throws instead of rejecting has failed in the same way: our own state must not care. */
export function asked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    // What is no promise is an answer all the same; a promise comes back as it is, unless it has methods of its own.
    const answer = Promise.resolve(ask());
    return Object.hasOwn(answer, "then") || Object.hasOwn(answer, "catch") ? awaited(answer) : answer;
  } catch (error) {
    return Promise.reject(error as Error);
  }
}
