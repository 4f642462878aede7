/** The race that every guard must win: writers with fences and pauses drawn at random, all at once. */
import { setTimeout as pause } from "node:timers/promises";

import fc from "fast-check";

import { FenceRejectedError } from "../../src/fence/index.ts";

export interface Writer {
  readonly fence: bigint;
  /** Milliseconds before each step of the write: as many as the write wants. */
  readonly pausesMs: readonly number[];
}

/** Close neighbours above 2^53, where doubles would take one for the other. */
const BASE = 2n ** 60n;

export const writers: fc.Arbitrary<Writer[]> = fc.array(
  fc.record({
    fence: fc.bigInt(BASE, BASE + 6n),
    pausesMs: fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 3, maxLength: 3 }),
  }),
  { minLength: 2, maxLength: 10 },
);

/** Runs all writers at once and resolves to the fences whose write was accepted. Any other failure is a failure. */
export async function race(
  all: readonly Writer[],
  write: (writer: Writer, index: number) => Promise<unknown>,
): Promise<bigint[]> {
  const accepted: bigint[] = [];
  await Promise.all(
    all.map(async (writer, index) => {
      await pause(writer.pausesMs[0]);
      try {
        await write(writer, index);
        accepted.push(writer.fence);
      } catch (error) {
        if (!(error instanceof FenceRejectedError)) throw error;
        if (error.current <= error.offered) throw new Error(`refused ${error.offered} for ${error.current}`);
      }
    }),
  );
  return accepted;
}

/** Whether fences never go down. */
export function rises(fences: readonly bigint[]): boolean {
  return fences.every((fence, index) => index === 0 || fence >= (fences[index - 1] ?? 0n));
}

export function greatest(fences: readonly bigint[]): bigint {
  return fences.reduce((a, b) => (a > b ? a : b), 0n);
}
