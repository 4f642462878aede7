/** Chance with a seed: the same seed gives the same ids and the same dice, run after run. */
import type { Chance } from "../contract/random.ts";

export interface SeededChance extends Chance {
  /** True in this share of the cases. */
  happens(probability: number): boolean;
  /** At least `least`, below `most`. */
  between(least: number, most: number): number;
  /** One of the choices. */
  pick<T>(choices: readonly T[]): T;
}

/** Makes dice from a seed. Never for real ids: the seed reveals them all. */
export function seeded(seed: number): SeededChance {
  // mulberry32: 32 bits of state, passes the statistical tests that matter for dice.
  let state = seed | 0;
  const fraction = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    fraction,
    id: () => {
      const bytes = Buffer.alloc(16);
      for (let at = 0; at < 16; at += 4) bytes.writeUInt32BE(Math.floor(fraction() * 2 ** 32), at);
      return bytes.toString("base64url");
    },
    happens: (probability) => fraction() < probability,
    between: (least, most) => least + fraction() * (most - least),
    pick: (choices) => {
      const choice = choices[Math.floor(fraction() * choices.length)];
      if (choice === undefined) throw new TypeError("Expected `choices` not to be empty");
      return choice;
    },
  };
}
