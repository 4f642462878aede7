/**
 * What one member must still answer: votes and releases under way, and what it must let go of, now or as soon as it can be
 * reached. Nobody waits for it but close().
 */
import type { Claim, Member } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";

const CLEAN_MIN_MS = 50;
const CLEAN_MAX_MS = 1000;
/** More than this is not kept: the member lets go by itself after the ttl. */
const LEFTOVERS_MAX = 1000;

interface Leftover {
  readonly claim: Claim;
  /** True: nobody has seen its fence, and the member may forget that too. */
  readonly unsaid: boolean;
  /** Then the member has let go by itself. */
  readonly untilMs: number;
}

export class Errands {
  readonly #member: Member;
  readonly #clock: Clock;
  /** Hears of every question that is asked here. */
  readonly #asked: <T>(answer: Promise<T>) => Promise<T>;
  readonly #voting = new Set<Claim>();
  readonly #releasing = new Set<Claim>();
  readonly #leftovers = new Map<string, Leftover>();
  #cleaner: Timer;
  #cleanPauseMs = CLEAN_MIN_MS;
  #quiet: (() => void) | undefined;
  #closed = false;

  constructor(member: Member, clock: Clock, asked: <T>(answer: Promise<T>) => Promise<T>) {
    this.#member = member;
    this.#clock = clock;
    this.#asked = asked;
  }

  votes(claim: Claim): void {
    this.#voting.add(claim);
  }

  /** The vote was heard by whoever asked for it, and taken back if nobody wants it. */
  voted(claim: Claim): void {
    this.#voting.delete(claim);
    this.#look();
  }

  releases(claim: Claim): void {
    this.#releasing.add(claim);
  }

  released(claim: Claim): void {
    this.#releasing.delete(claim);
    this.#look();
  }

  /** Sees to it that the claim holds nothing here. `unsaid`: its ballot never became a lease. */
  letGo(claim: Claim, unsaid: boolean): void {
    if (this.#closed) return;
    const nowMs = this.#clock.now();
    for (const [id, { untilMs }] of this.#leftovers) {
      if (untilMs > nowMs && this.#leftovers.size < LEFTOVERS_MAX) break;
      this.#leftovers.delete(id);
    }
    const leftover: Leftover = { claim, unsaid, untilMs: nowMs + claim.ttlMs + claim.lockDelayMs };
    this.#leftovers.set(claim.id, leftover);
    void this.#clean(leftover);
  }

  /** The locks of which the member may hold something that nobody wants. */
  get locks(): readonly string[] {
    const claims = [...this.#voting, ...this.#releasing, ...[...this.#leftovers.values()].map(({ claim }) => claim)];
    return claims.map(({ name }) => name);
  }

  /** Resolves when all is answered and nothing is left here: with a member that is gone, never. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#quiet = resolve;
      this.#look();
    });
  }

  close(): void {
    this.#closed = true;
    this.#clock.clearTimer(this.#cleaner);
    this.#leftovers.clear();
  }

  async #clean(leftover: Leftover): Promise<void> {
    const { claim, unsaid } = leftover;
    try {
      // A release needs no terms, and must not wait behind a joining.
      await this.#asked(
        unsaid && this.#member.withdraw !== undefined ? this.#member.withdraw(claim) : this.#member.release(claim),
      );
      if (this.#leftovers.get(claim.id) === leftover) this.#leftovers.delete(claim.id);
      this.#cleanPauseMs = CLEAN_MIN_MS;
    } catch {
      if (this.#clock.now() >= leftover.untilMs) this.#leftovers.delete(claim.id);
      this.#cleanLater();
    }
    this.#look();
  }

  /** One timer for all that is left here, at a growing pace. */
  #cleanLater(): void {
    if (this.#cleaner !== undefined || this.#closed || this.#leftovers.size === 0) return;
    this.#cleaner = this.#clock.setTimer(() => {
      this.#cleaner = undefined;
      for (const leftover of this.#leftovers.values()) void this.#clean(leftover);
    }, this.#cleanPauseMs);
    this.#cleanPauseMs = Math.min(CLEAN_MAX_MS, this.#cleanPauseMs * 2);
  }

  #look(): void {
    if (this.#quiet === undefined) return;
    if (this.#voting.size + this.#releasing.size + this.#leftovers.size === 0) this.#quiet();
  }
}
