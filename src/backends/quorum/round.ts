/**
 * One round: all members are asked at once for one ballot, under an id that no other round has, and the votes are
 * counted as they come. Won as soon as a majority granted it and trust remains; lost as soon as none can. Whatever
 * comes later is kept if the round was won, and taken back if not.
 */
import type { Claim, Vote } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import type { MemberVote } from "../../contract/errors.ts";
import type { Settings } from "./options.ts";
import { clocksOff } from "./clock-offsets.ts";
import type { Asker, Seat } from "./member-link.ts";
import { describe, type Silence } from "./votes.ts";

/** Belief ends this much before the ttl does, for clocks that run at different rates. */
export function driftMs(ttlMs: number): number {
  return ttlMs / 100 + 2;
}

const HANGS: Silence = { vote: "slow", detail: "has not answered earlier questions" };
const ELSEWHERE: Silence = { vote: "slow", detail: "was asked by another process" };
const DOWN: Silence = { vote: "unreachable", cause: "its connection is down" };

export class Round implements Asker {
  /** The claim as the members know it. */
  readonly claim: Claim;
  readonly ballot: bigint;
  readonly sentAtMs: number;
  /** Resolves once it is won or lost. */
  readonly over: Promise<Round>;
  /** How long that took. */
  tookMs = 0;
  /** A majority granted it, but too late to be trusted. */
  lapsed = false;
  readonly #seats: readonly Seat[];
  readonly #settings: Settings;
  /** By the seats' places. */
  readonly #votes: (Vote | Silence | undefined)[];
  readonly #asked: boolean[];
  #state: "open" | "won" | "lost" = "open";
  /** No member was asked for this id before, and no fence of this round can have been seen by anybody. */
  #unsaid: boolean;
  readonly #ended: (round: Round) => void;
  #settle!: (round: Round) => void;
  #timer: Timer;

  /**
   * `ended` is called as soon as it is won or lost, perhaps before this returns. After `before`, which was won, it is another
   * round of the same holder, who raises the ballot of what it has. With `wonAs`, another process has won it under that id.
   */
  constructor(
    seats: readonly Seat[],
    settings: Settings,
    claim: Claim,
    ballot: bigint,
    ended: (round: Round) => void,
    before?: Round,
    wonAs?: string,
  ) {
    this.#seats = seats;
    this.#settings = settings;
    this.#ended = ended;
    this.#votes = seats.map(() => undefined);
    this.#asked = seats.map((seat) => before?.hasAsked(seat) ?? false);
    // A round that is lost must leave nothing taken: so minHold is asked for only by whoever has won without it.
    const minHoldMs = before === undefined ? 0 : claim.minHoldMs;
    this.claim = { ...claim, minHoldMs, id: wonAs ?? before?.claim.id ?? roundId(claim.id, settings.chance.id()) };
    this.#unsaid = before === undefined && wonAs === undefined;
    this.ballot = ballot;
    this.over = new Promise((resolve) => (this.#settle = resolve));
    this.sentAtMs = settings.clock.now();
    if (wonAs !== undefined) {
      this.#state = "won";
      this.#asked.fill(true);
      this.#votes.fill(ELSEWHERE);
      return;
    }
    this.#askAll();
    this.#timer = settings.clock.setTimer(() => this.#late(), settings.memberWaitMs, true);
    this.#count();
  }

  get trustedUntilMs(): number {
    return this.sentAtMs + this.claim.ttlMs - driftMs(this.claim.ttlMs);
  }

  get isWon(): boolean {
    return this.#state === "won";
  }

  get isWanted(): boolean {
    return this.#state !== "lost";
  }

  vote(seat: Seat): Vote | Silence | undefined {
    return this.#votes[seat.place];
  }

  votes(): readonly (Vote | Silence)[] {
    return this.#votes.filter((vote) => vote !== undefined);
  }

  /** How many wait for the lock, as far as members told. */
  waiters(): number {
    let most = 0;
    for (const vote of this.#votes) {
      if (vote !== undefined && "waiters" in vote && vote.waiters !== undefined && vote.waiters > most)
        most = vote.waiters;
    }
    return most;
  }

  /** Every member's vote for people, in the members' order. */
  report(): readonly MemberVote[] {
    return this.#seats.map((seat) => describe(seat.label, this.vote(seat)));
  }

  /** True: the member has, or may have, granted this round. */
  hasAsked(seat: Seat): boolean {
    return this.#asked[seat.place]!;
  }

  /** Asks a member again that is missing: only ever while the majority is intact. */
  refill(seat: Seat): void {
    this.#votes[seat.place] = undefined;
    this.#ask(seat);
  }

  /** Nobody wants the round any more: every member lets go of it, also those whose vote was lost on the way. */
  withdraw(): void {
    // Whoever hears of its end comes back here.
    if (this.#state === "open") return this.#end(false);
    this.#state = "lost";
    for (const seat of this.#seats) if (this.hasAsked(seat)) this.#takeBack(seat);
    return undefined;
  }

  take(seat: Seat, vote: Vote | Silence): void {
    this.#votes[seat.place] = vote;
    if (this.#state === "open") return this.#count();
    // It was released already, but perhaps before the vote arrived there.
    if (this.#state === "lost" && vote.vote === "granted") this.#takeBack(seat);
    return undefined;
  }

  /** Whose connection is down is left out, because questions would only pile up there; unless the others are too few. */
  #askAll(): void {
    let up = 0;
    for (const seat of this.#seats) if (!seat.isDown()) up++;
    const enough = up >= majorityOf(this.#seats.length);
    for (const seat of this.#seats) {
      if (enough && up < this.#seats.length && seat.isDown()) this.#votes[seat.place] = DOWN;
      else this.#ask(seat);
    }
  }

  #ask(seat: Seat): void {
    // Not waited for; but if it answers after all, its vote counts.
    if (seat.hangs) {
      this.#votes[seat.place] = HANGS;
      if (!seat.mayProbe()) return;
    }
    this.#asked[seat.place] = true;
    seat.poll(this);
  }

  /** The event loop may have been late, and not the members: what has come in meanwhile is looked at first. */
  #late(): void {
    this.#timer = this.#settings.clock.setTimer(
      () => {
        for (const seat of this.#seats) {
          this.#votes[seat.place] ??= { vote: "slow", detail: `did not answer in ${this.#settings.memberWaitMs} ms` };
        }
        this.#count();
      },
      1,
      true,
    );
  }

  #count(): void {
    const { clock, maxClockOffsetMs } = this.#settings;
    const majority = majorityOf(this.#seats.length);
    let granted = 0;
    let open = 0;
    for (const vote of this.#votes) {
      if (vote === undefined) open++;
      else if (vote.vote === "granted") granted++;
    }
    if (granted + open < majority) return this.#end(false);
    if (granted < majority) return;
    granted -= this.#leaveOutTwins();
    for (const seat of clocksOff(this.#seats, maxClockOffsetMs, clock)) {
      if (this.vote(seat)?.vote !== "granted") continue;
      this.#votes[seat.place] = { vote: "clock-off", detail: "its clock is too far from the others'" };
      granted--;
    }
    if (granted >= majority) {
      this.lapsed = clock.now() >= this.trustedUntilMs;
      return this.#end(!this.lapsed);
    }
    if (granted + open < majority) this.#end(false);
  }

  /** Servers are counted, not names: one that two names lead to has one vote. Returns how many were left out. */
  #leaveOutTwins(): number {
    let twins = 0;
    for (const seat of this.#seats) {
      const from = this.#grantedBy(seat);
      const twin = from === undefined ? undefined : this.#seats.find((other) => this.#grantedBy(other) === from);
      if (twin === undefined || twin === seat) continue;
      this.#votes[seat.place] = { vote: "twin", detail: `it leads to the same server as ${twin.label}` };
      twins++;
    }
    return twins;
  }

  #grantedBy(seat: Seat): string | undefined {
    const vote = this.vote(seat);
    return vote?.vote === "granted" ? vote.from : undefined;
  }

  #end(won: boolean): void {
    const { clock } = this.#settings;
    this.#state = won ? "won" : "lost";
    if (won) this.#unsaid = false;
    this.tookMs = clock.now() - this.sentAtMs;
    clock.clearTimer(this.#timer);
    this.#ended(this);
    if (won) return this.#settle(this);
    // Whoever answers at this very moment is still heard in what is said about it.
    return queueMicrotask(() => this.#settle(this));
  }

  #takeBack(seat: Seat): void {
    // A round that was not won must leave nothing taken, whatever its minHold.
    seat.letGo({ ...this.claim, minHoldMs: 0 }, this.#unsaid);
  }
}

const NONCE_LENGTH = 11;

/** 64 bits of its own behind the claim's id, so that another process can find by that id what this one has won. */
function roundId(claimId: string, nonce: string): string {
  return claimId + nonce.slice(0, NONCE_LENGTH);
}

export function majorityOf(members: number): number {
  return Math.floor(members / 2) + 1;
}

/** Resolves after `ms`, or when `promise` settles. */
export async function within(clock: Clock, promise: Promise<unknown>, ms: number): Promise<void> {
  let timer: Timer;
  const late = new Promise<void>((resolve) => (timer = clock.setTimer(resolve, ms, true)));
  await Promise.race([promise.catch(() => undefined), late]);
  clock.clearTimer(timer);
}
