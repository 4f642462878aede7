/** Randomness, handed in: so that a simulation with a seed replays exactly. */
import { randomFillSync } from "node:crypto";

export interface Chance {
  /** A claim id: 128 bits that nobody can guess, base64url. */
  id(): string;
  /** At least 0, below 1. For jitter only, never for ids. */
  fraction(): number;
}

const ID_BYTES = 16;
const pool = Buffer.allocUnsafe(ID_BYTES * 256);
let used = pool.length;

export const systemChance: Chance = {
  id: () => {
    // One system call fills 256 ids: asking the kernel for each would cost more than the rest of an acquire.
    if (used === pool.length) {
      randomFillSync(pool);
      used = 0;
    }
    used += ID_BYTES;
    return pool.toString("base64url", used - ID_BYTES, used);
  },
  fraction: () => Math.random(),
};
