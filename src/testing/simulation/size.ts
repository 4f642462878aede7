/**
 * How much happens in a world. What a broken promise takes is mostly two processes and one fault in the right moment: many small
 * worlds find it with less work than few large ones. Some take a queue of three processes, some a fault on top of a fault:
 * so of twelve worlds eight are small, three are middling and one is large.
 */

export interface Size {
  readonly processes: number;
  /** Lines of work in each process. */
  readonly workers: number;
  /** How many of the locks they want, `job` among them: few workers meet only at few locks. */
  readonly locks: number;
  /** How long everything goes wrong. */
  readonly chaosTtls: number;
  /** How long all work where nothing does. */
  readonly peaceMs: number;
}

export const SIZES: Readonly<Record<"small" | "middle" | "large", Size>> = {
  small: { processes: 2, workers: 2, locks: 2, chaosTtls: 4, peaceMs: 200 },
  middle: { processes: 3, workers: 2, locks: 2, chaosTtls: 4, peaceMs: 200 },
  large: { processes: 3, workers: 3, locks: 4, chaosTtls: 10, peaceMs: 800 },
};

/** By the seed itself and not by its dice, so it is known without running the world. */
export function sizeOf(seed: number): Size {
  if (seed % 12 === 0) return SIZES.large;
  return seed % 3 === 0 ? SIZES.middle : SIZES.small;
}
