/**
 * What one member must still answer: votes and releases under way, and claims to clean up, now or as soon as it can be
 * reached. Only close() waits for it.
 */
import type { Claim, Member } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";

const CLEAN_MIN_MS = 50;
const CLEAN_MAX_MS = 1000;
/** More than this is not kept: the lease expires at the member after its ttl. */
const LEFTOVERS_MAX = 1000;

interface Leftover {
  readonly claim: Claim;
  /** True: its fence was never used, and the member may forget the ballot too. */
  readonly neverLeased: boolean;
  /** Then it has expired at the member. */
  readonly untilMs: number;
}

export class PendingCalls {
  readonly #member: Member;
  readonly #clock: Clock;
  /** Called with every request that is sent here. */
  readonly #track: <T>(answer: Promise<T>) => Promise<T>;
  readonly #voting = new Set<Claim>();
  readonly #releasing = new Set<Claim>();
  readonly #leftovers = new Map<string, Leftover>();
  #cleaner: Timer;
  #cleanPauseMs = CLEAN_MIN_MS;
  #onSettled: (() => void) | undefined;
  #closed = false;

  constructor(member: Member, clock: Clock, track: <T>(answer: Promise<T>) => Promise<T>) {
    this.#member = member;
    this.#clock = clock;
    this.#track = track;
  }

  voteStarted(claim: Claim): void {
    this.#voting.add(claim);
  }

  /** The round got the vote, and withdrew it if it is not wanted. */
  voteEnded(claim: Claim): void {
    this.#voting.delete(claim);
    this.#checkSettled();
  }

  releaseStarted(claim: Claim): void {
    this.#releasing.add(claim);
  }

  releaseEnded(claim: Claim): void {
    this.#releasing.delete(claim);
    this.#checkSettled();
  }

  /** Releases the claim in the background. `neverLeased`: its ballot never became a lease. */
  cleanUp(claim: Claim, neverLeased: boolean): void {
    if (this.#closed) return;
    const nowMs = this.#clock.now();
    for (const [id, { untilMs }] of this.#leftovers) {
      if (untilMs > nowMs && this.#leftovers.size < LEFTOVERS_MAX) break;
      this.#leftovers.delete(id);
    }
    const leftover: Leftover = { claim, neverLeased, untilMs: nowMs + claim.ttlMs + claim.lockDelayMs };
    this.#leftovers.set(claim.id, leftover);
    void this.#clean(leftover);
  }

  /** The locks of which the member may still hold a claim that is not wanted. */
  get locks(): readonly string[] {
    const claims = [...this.#voting, ...this.#releasing, ...[...this.#leftovers.values()].map(({ claim }) => claim)];
    return claims.map(({ name }) => name);
  }

  /** Resolves when every call is answered and no cleanup is left: never, if the member is gone. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#onSettled = resolve;
      this.#checkSettled();
    });
  }

  close(): void {
    this.#closed = true;
    this.#clock.clearTimer(this.#cleaner);
    this.#leftovers.clear();
  }

  async #clean(leftover: Leftover): Promise<void> {
    const { claim, neverLeased } = leftover;
    try {
      // A release needs no terms, and must not wait for a join.
      await this.#track(
        neverLeased && this.#member.withdraw !== undefined ? this.#member.withdraw(claim) : this.#member.release(claim),
      );
      if (this.#leftovers.get(claim.id) === leftover) this.#leftovers.delete(claim.id);
      this.#cleanPauseMs = CLEAN_MIN_MS;
    } catch {
      if (this.#clock.now() >= leftover.untilMs) this.#leftovers.delete(claim.id);
      this.#cleanLater();
    }
    this.#checkSettled();
  }

  /** One timer for all leftovers, with a growing pause. */
  #cleanLater(): void {
    if (this.#cleaner !== undefined || this.#closed || this.#leftovers.size === 0) return;
    this.#cleaner = this.#clock.setTimer(() => {
      this.#cleaner = undefined;
      for (const leftover of this.#leftovers.values()) void this.#clean(leftover);
    }, this.#cleanPauseMs);
    this.#cleanPauseMs = Math.min(CLEAN_MAX_MS, this.#cleanPauseMs * 2);
  }

  #checkSettled(): void {
    if (this.#onSettled === undefined) return;
    if (this.#voting.size + this.#releasing.size + this.#leftovers.size === 0) this.#onSettled();
  }
}
