/**
 * Ballots: the fences that a client proposes to the members.
 *
 * A ballot stands for a block of {@link RUN} fences and is the last of them. All ballots are the last of an aligned block,
 * so a member that grants only greater ballots than before also keeps the fences of different blocks apart, without knowing
 * about blocks: one vote reserves a run of fences for successive local holders.
 */
import type { Clock } from "../../contract/clock.ts";

/** How many fences a ballot reserves: a power of two. */
export const RUN = 64;
const BLOCK = BigInt(RUN);
/** A fence further ahead of our clock than this belongs to one lock, and is not taken for the time of day. */
const LEARN_MAX_US = 60_000_000;

/** The block's first fence. */
export function firstFence(ballot: bigint): bigint {
  return ballot - (ballot % BLOCK);
}

/** The ballot whose block contains `fence`. */
export function ballotOf(fence: bigint): bigint {
  return firstFence(fence) + BLOCK - 1n;
}

/** The least ballot whose whole block is above `fence`. */
export function ballotAbove(fence: bigint): bigint {
  return ballotOf(fence + BLOCK);
}

/**
 * Proposes ballots: the time of day in µs, so fences keep rising when members lose their data. Its clock never goes back, and
 * follows the fastest clock in the group, as far as refusals show it: otherwise the first proposal of a slow one would
 * always be too low.
 */
export class Proposer {
  readonly #clock: Clock;
  /** The wall clock minus the monotonic one; it only grows. */
  #offsetMs: number;
  #aheadUs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#offsetMs = clock.wall() - clock.now();
  }

  next(): bigint {
    return ballotOf(BigInt(Math.floor(this.#us() + this.#aheadUs)));
  }

  /** A member has answered with this fence. */
  learn(fence: bigint): void {
    const aheadUs = Number(fence) + 1 - this.#us();
    if (aheadUs > this.#aheadUs && aheadUs <= LEARN_MAX_US) this.#aheadUs = aheadUs;
  }

  /**
   * Monotonic time, set forward when the wall clock is ahead of it: after a sleep. Not for less than a millisecond, because the
   * wall clock has no finer steps: it would stand still in between, and the next proposal would be as low as the last.
   */
  #us(): number {
    const nowMs = this.#clock.now();
    const aheadMs = this.#clock.wall() - nowMs - this.#offsetMs;
    if (aheadMs > 1) this.#offsetMs += aheadMs;
    return (this.#offsetMs + nowMs) * 1000;
  }
}
