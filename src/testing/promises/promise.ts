/** A promise of the conformance suite: a sentence, and the check that fails when it is broken. */
import type { Abilities } from "../../contract/backend.ts";
import { type ConformanceContext, TooSlowError, Trial } from "../trial.ts";

/** The last try has a ttl that is this much longer: a machine that is kept waiting for longer shows nothing. */
const STRETCH_MOST = 128;

export interface ConformancePromise {
  /** The promise, as a sentence about the backend: what a test should be called. */
  readonly promise: string;
  /** Rejects, with an `AssertionError` that says how, when the backend breaks the promise. */
  readonly check: (context: ConformanceContext) => Promise<void>;
  /** Only for a backend that can do this. Absent: it is for all. */
  readonly ability?: keyof Abilities | undefined;
}

/**
 * Makes a promise whose check closes what it opened, demands that nothing is left behind, whatever it was about, and starts again
 * when the machine was too slow for it.
 */
export function promise(
  sentence: string,
  body: (trial: Trial) => Promise<void>,
  ability?: keyof Abilities,
): ConformancePromise {
  const attempt = async (context: ConformanceContext, stretch: number): Promise<void> => {
    const trial = new Trial(context, stretch);
    try {
      try {
        await body(trial);
      } finally {
        await trial.endClaims();
      }
      await trial.nothingIsLeft();
    } finally {
      await trial.close();
    }
  };
  return {
    promise: sentence,
    ability,
    check: async (context) => {
      for (let stretch = 1; stretch < STRETCH_MOST; stretch *= 2) {
        try {
          return await attempt(context, stretch);
        } catch (error) {
          if (!(error instanceof TooSlowError)) throw error;
        }
      }
      await attempt(context, STRETCH_MOST);
    },
  };
}
