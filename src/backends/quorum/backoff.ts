/**
 * When a refused claim should try again. Members send hints, but hints get lost, or are forged: so this is a random delay
 * that doubles with every defeat, and hints after which the same holder is still there are believed ever more slowly. A lock
 * that somebody holds is asked for at a walking pace. Where the lock is free and several want it, they come at random
 * moments that lie the further apart the more they are, as far as members tell, or the more often their votes were split.
 */
import type { Vote } from "../../contract/backend.ts";
import type { Chance } from "../../contract/random.ts";
import { majorityOf } from "./round.ts";
import type { Silence } from "./votes.ts";

const HELD_MIN_MS = 25;
const HELD_MAX_MS = 1000;
const SPLIT_MIN_MS = 2;
const SPLIT_MAX_MS = 500;
const DOUBLINGS_MAX = 8;

export class Pace {
  /** Refusals because somebody held the lock. */
  #held = 0;
  /** Split votes, less the refusals by a holder since: whoever won has ended a split. */
  #split = 0;
  /** Hints in a row after which the same holder was still there. */
  #falseHints = 0;
  #hinted = false;
  #holder = -1n;
  #tookMs = 0;
  #waiters = 0;

  /** What the last round taught: how long it took, and how many others wait. */
  note(tookMs: number, waiters: number): void {
    this.#tookMs = tookMs;
    this.#waiters = waiters;
  }

  get waiters(): number {
    return this.#waiters;
  }

  /** After a lost round: when to try again if no hint comes. */
  afterDefeat(votes: readonly (Vote | Silence)[], members: number, ttlMs: number, chance: Chance): number {
    const freeMs = freeInMs(votes, members);
    const hinted = this.#hinted;
    this.#hinted = false;
    if (freeMs === 0) {
      this.#split = Math.min(this.#split + 1, DOUBLINGS_MAX);
      return this.#untilTurn(chance);
    }
    this.#split = Math.max(0, this.#split - 1);
    const holder = holderOf(votes);
    const stays = holder === this.#holder;
    this.#holder = holder;
    this.#falseHints = hinted && stays ? Math.min(this.#falseHints + 1, DOUBLINGS_MAX) : 0;
    const walkMs = Math.min(HELD_MAX_MS, ttlMs / 3, HELD_MIN_MS * 2 ** this.#held);
    this.#held = Math.min(this.#held + 1, DOUBLINGS_MAX);
    return Math.min(walkMs * (0.5 + 0.5 * chance.fraction()), freeMs + this.#untilTurn(chance));
  }

  /** The lock is said to be free, and all who wait know it: how long to hold back, so that not all come at once. */
  afterHint(chance: Chance): number {
    this.#hinted = true;
    const slowMs = this.#falseHints === 0 ? 0 : Math.min(HELD_MAX_MS, HELD_MIN_MS * 2 ** this.#falseHints);
    return slowMs + this.#untilTurn(chance);
  }

  /** After a release, where others wait: how long to leave them alone. */
  courtesyMs(): number {
    return 1 + this.#windowMs() + this.#tookMs;
  }

  #untilTurn(chance: Chance): number {
    return 1 + this.#windowMs() * chance.fraction();
  }

  /** So long that one claimant's round is mostly over before the next one's begins. */
  #windowMs(): number {
    const claimants = Math.max(2 ** this.#split, this.#waiters + 1);
    return Math.min(SPLIT_MAX_MS, Math.max(SPLIT_MIN_MS, 2 * this.#tookMs) * claimants);
  }
}

/** The lease that is in the way, by its fence. */
function holderOf(votes: readonly (Vote | Silence)[]): bigint {
  let greatest = -1n;
  for (const vote of votes) if (vote.vote === "held" && vote.fence > greatest) greatest = vote.fence;
  return greatest;
}

/**
 * How long until a majority is free again if nobody releases or renews; 0 where it is free now, but votes were split. Whoever
 * cannot vote is not free: with two of five hung, one that is held is in the way of all.
 */
export function freeInMs(votes: readonly (Vote | Silence)[], members: number): number {
  const held = votes.filter((vote) => vote.vote === "held");
  const silent = votes.filter(({ vote }) => vote !== "held" && vote !== "granted" && vote !== "low").length;
  // A member that does not know how long says 0.
  const waits = held.map(({ remainingMs }) => (remainingMs > 0 ? remainingMs : Infinity)).toSorted((a, b) => a - b);
  const needed = majorityOf(members) - (members - silent - waits.length);
  return needed <= 0 ? 0 : (waits[needed - 1] ?? Infinity);
}
