/** Randomness, handed in: so that a simulation with a seed replays exactly. */

/** Where random ids and pauses come from. */
export interface Chance {
  /** A claim id: 128 bits that cannot be guessed, base64url. */
  id(): string;
  /** At least 0, below 1. For jitter only, never for ids. */
  fraction(): number;
}

const ID_LENGTH = 22;
/** 18 bytes are 24 characters of base64url: each id takes the first 22 of them, 132 bits. */
const STEP_BYTES = 18;
const STEP_LENGTH = 24;
const pool = Buffer.allocUnsafe(STEP_BYTES * 256);
let text = "";
let used = 0;

export const systemChance: Chance = {
  id: () => {
    // One system call and one conversion make 256 ids: each for itself would cost more than the rest of an acquire.
    if (used === text.length) {
      // Loaded with the first id: it is a sixth of what `import "holdfast"` takes, and the global `crypto` is what tests replace.
      text = process.getBuiltinModule("node:crypto").randomFillSync(pool).toString("base64url");
      used = 0;
    }
    const from = used;
    used += STEP_LENGTH;
    return text.slice(from, from + ID_LENGTH);
  },
  fraction: () => Math.random(),
};

/** `ms` times a random factor from `least` to `most`, so that processes that began together do not stay together. */
export function jitter(ms: number, least: number, most: number, chance: Chance = systemChance): number {
  return ms * (least + (most - least) * chance.fraction());
}
