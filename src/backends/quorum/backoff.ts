/**
 * When a refused claim retries. Members send hints, but hints get lost or are forged: so this is a random delay that doubles
 * with every refusal, and after hints that proved false the claim waits longer. While the lock is held, retries are slow.
 * While it is free and several claims want it, they retry at random times, spread the wider the more claims there are (as
 * far as members know) or the more often their votes were split.
 */
import type { Vote } from "../../contract/backend.ts";
import { type Chance, jitter } from "../../contract/random.ts";
import { majorityOf, type NoVote } from "./votes.ts";

const HELD_MIN_MS = 25;
const HELD_MAX_MS = 1000;
const SPLIT_MIN_MS = 2;
const SPLIT_MAX_MS = 500;
const DOUBLINGS_MAX = 8;

export class Backoff {
  /** Refusals because the lock was held. */
  #held = 0;
  /** Split votes, less the refusals by a holder since: a winner ends a split. */
  #split = 0;
  /** ReleaseHints in a row after which the same holder was still there. */
  #falseHints = 0;
  #hinted = false;
  /** There was a hint. The first is that of listening itself, because the release may have come before: it says nothing of those that follow. */
  #listens = false;
  #holder = -1n;
  #tookMs = 0;
  #waiters = 0;

  /** From the last round: how long it took, and how many others wait. */
  learn(tookMs: number, waiters: number): void {
    this.#tookMs = tookMs;
    this.#waiters = waiters;
  }

  get waiters(): number {
    return this.#waiters;
  }

  /** After a lost round: when to retry if no hint comes. */
  afterDefeat(votes: readonly (Vote | NoVote)[], members: number, ttlMs: number, chance: Chance): number {
    const freeMs = freeInMs(votes, members);
    const hinted = this.#hinted;
    this.#hinted = false;
    if (freeMs === 0) {
      this.#split = Math.min(this.#split + 1, DOUBLINGS_MAX);
      return this.#spreadMs(chance);
    }
    this.#split = Math.max(0, this.#split - 1);
    const holder = holderOf(votes);
    const stays = holder === this.#holder;
    this.#holder = holder;
    this.#falseHints = hinted && stays ? Math.min(this.#falseHints + 1, DOUBLINGS_MAX) : 0;
    const heldMs = Math.min(HELD_MAX_MS, ttlMs / 3, HELD_MIN_MS * 2 ** this.#held);
    this.#held = Math.min(this.#held + 1, DOUBLINGS_MAX);
    return Math.min(jitter(heldMs, 0.5, 1, chance), freeMs + this.#spreadMs(chance));
  }

  /** The lock is said to be free, and all waiters know it: how long to wait, so they do not all retry at once. */
  afterHint(chance: Chance): number {
    this.#hinted = this.#listens;
    this.#listens = true;
    const slowMs = this.#falseHints === 0 ? 0 : Math.min(HELD_MAX_MS, HELD_MIN_MS * 2 ** this.#falseHints);
    return slowMs + this.#spreadMs(chance);
  }

  /** After a release, where others wait: how long to let them go first. */
  yieldMs(): number {
    return 1 + this.#windowMs() + this.#tookMs;
  }

  #spreadMs(chance: Chance): number {
    return 1 + jitter(this.#windowMs(), 0, 1, chance);
  }

  /** So long that one claim's round is mostly over before the next one's begins. */
  #windowMs(): number {
    const claims = Math.max(2 ** this.#split, this.#waiters + 1);
    return Math.min(SPLIT_MAX_MS, Math.max(SPLIT_MIN_MS, 2 * this.#tookMs) * claims);
  }
}

/** The lease that blocks the claim, by its fence. */
function holderOf(votes: readonly (Vote | NoVote)[]): bigint {
  let greatest = -1n;
  for (const vote of votes) if (vote.vote === "held" && vote.fence > greatest) greatest = vote.fence;
  return greatest;
}

/**
 * How long until a majority is free again if no lease is released or renewed; 0 where it is free now, but votes were split.
 * A member that cannot vote is not free: with two of five hung, one that is held blocks every claim.
 */
export function freeInMs(votes: readonly (Vote | NoVote)[], members: number): number {
  const held = votes.filter((vote) => vote.vote === "held");
  const silent = votes.filter(({ vote }) => vote !== "held" && vote !== "granted" && vote !== "low").length;
  // A member that does not know how long says 0.
  const waits = held.map(({ remainingMs }) => (remainingMs > 0 ? remainingMs : Infinity)).toSorted((a, b) => a - b);
  const needed = majorityOf(members) - (members - silent - waits.length);
  return needed <= 0 ? 0 : (waits[needed - 1] ?? Infinity);
}
