/**
 * When a refused claim should try again. Members send hints, but hints get lost: so this is a random delay that doubles
 * with every defeat. A lock that somebody holds is asked for at a walking pace; votes that were split between claimants
 * who all came at once are repeated soon, at random moments that lie further apart each time.
 */
import type { Vote } from "../backend.ts";
import type { Chance } from "../chance.ts";
import { majorityOf } from "./round.ts";
import type { Silence } from "./votes.ts";

const HELD_MIN_MS = 25;
const HELD_MAX_MS = 1000;
const SPLIT_MIN_MS = 2;
const SPLIT_MAX_MS = 250;
const DOUBLINGS_MAX = 8;

export class Pace {
  #held = 0;
  #split = 0;

  /** After a lost round that took `tookMs`. */
  afterDefeat(
    votes: readonly (Vote | Silence)[],
    members: number,
    tookMs: number,
    ttlMs: number,
    chance: Chance,
  ): number {
    const freeMs = freeInMs(votes, members);
    if (freeMs === 0) {
      this.#split = Math.min(this.#split + 1, DOUBLINGS_MAX);
      // Far enough apart that one claimant's round is over before the next one's begins.
      const spreadMs = Math.min(SPLIT_MAX_MS, Math.max(SPLIT_MIN_MS, 2 * tookMs) * 2 ** this.#split);
      return 1 + spreadMs * chance.fraction();
    }
    const walkMs = Math.min(HELD_MAX_MS, ttlMs / 3, HELD_MIN_MS * 2 ** this.#held);
    this.#held = Math.min(this.#held + 1, DOUBLINGS_MAX);
    return Math.min(walkMs * (0.5 + 0.5 * chance.fraction()), freeMs + this.spreadMs(tookMs, chance));
  }

  /** A hint went to others too, perhaps: how long to hold back, so that not all come at once. */
  spreadMs(tookMs: number, chance: Chance): number {
    return Math.min(SPLIT_MAX_MS, Math.max(SPLIT_MIN_MS, 2 * tookMs) * 2 ** this.#split) * chance.fraction();
  }
}

/** How long until a majority is free again if nobody releases or renews; 0 where it is free now, but votes were split. */
export function freeInMs(votes: readonly (Vote | Silence)[], members: number): number {
  const held = votes.filter((vote) => vote.vote === "held");
  // A member that does not know how long says 0.
  const waits = held.map(({ remainingMs }) => (remainingMs > 0 ? remainingMs : Infinity)).toSorted((a, b) => a - b);
  const needed = majorityOf(members) - (members - waits.length);
  return needed <= 0 ? 0 : (waits[needed - 1] ?? Infinity);
}
