/**
 * One round: all members are asked at once for one ballot, under an id that no other round has, and the votes are
 * counted as they come. Won as soon as a majority granted it and trust remains; lost as soon as none can. Whatever
 * comes later is kept if the round was won, and taken back if not.
 */
import type { Claim, Vote } from "../backend.ts";
import type { Clock, Timer } from "../clock.ts";
import type { MemberVote } from "../errors.ts";
import type { Settings } from "./options.ts";
import { clocksOff, type Seat } from "./seat.ts";
import { describe, type Silence } from "./votes.ts";

/** Belief ends this much before the ttl does, for clocks that run at different rates. */
export function driftMs(ttlMs: number): number {
  return ttlMs / 100 + 2;
}

export class Round {
  /** The claim as the members know it. */
  readonly claim: Claim;
  readonly ballot: bigint;
  readonly sentAtMs: number;
  /** Settles once: true when won. */
  readonly won: Promise<boolean>;
  /** How long that took. */
  tookMs = 0;
  /** A majority granted it, but too late to be trusted. */
  lapsed = false;
  readonly #seats: readonly Seat[];
  readonly #settings: Settings;
  readonly #votes = new Map<Seat, Vote | Silence>();
  readonly #asked: Set<Seat>;
  #state: "open" | "won" | "lost" = "open";
  #settle!: (won: boolean) => void;
  #timer: Timer;

  /** After `before`, which was won: another round of the same holder, who raises the ballot of what it has. */
  constructor(seats: readonly Seat[], settings: Settings, claim: Claim, ballot: bigint, before?: Round) {
    this.#seats = seats;
    this.#settings = settings;
    this.#asked = new Set(before?.asked());
    this.claim = { ...claim, id: before?.claim.id ?? settings.chance.id() };
    this.ballot = ballot;
    this.won = new Promise((resolve) => (this.#settle = resolve));
    this.sentAtMs = settings.clock.now();
    for (const seat of seats) this.#ask(seat);
    this.#timer = settings.clock.setTimer(() => this.#late(), settings.memberWaitMs, true);
    this.#count();
  }

  get trustedUntilMs(): number {
    return this.sentAtMs + this.claim.ttlMs - driftMs(this.claim.ttlMs);
  }

  get isWon(): boolean {
    return this.#state === "won";
  }

  vote(seat: Seat): Vote | Silence | undefined {
    return this.#votes.get(seat);
  }

  votes(): readonly (Vote | Silence)[] {
    return [...this.#votes.values()];
  }

  /** Every member's vote for people, in the members' order. */
  report(): readonly MemberVote[] {
    return this.#seats.map((seat) => describe(seat.label, this.#votes.get(seat)));
  }

  /** Members that have, or may have, granted this round: whoever was asked. */
  asked(): readonly Seat[] {
    return this.#seats.filter((seat) => this.#asked.has(seat));
  }

  /** Asks a member again that is missing: only ever while the majority is intact. */
  refill(seat: Seat): void {
    this.#votes.delete(seat);
    this.#ask(seat);
  }

  /** Nobody wants the round any more: every member lets go of it, also those whose vote was lost on the way. */
  withdraw(): void {
    if (this.#state === "open") this.#end(false);
    this.#state = "lost";
    for (const seat of this.#asked) this.#takeBack(seat);
  }

  #ask(seat: Seat): void {
    // Not waited for; but if it answers after all, its vote counts.
    if (seat.hangs) this.#votes.set(seat, { vote: "slow", detail: "has not answered earlier questions" });
    if (!seat.mayAsk()) return;
    this.#asked.add(seat);
    seat
      .vote(this.claim, this.ballot, () => this.#state !== "lost")
      .then(
        (vote) => this.#take(seat, vote),
        (cause: unknown) => this.#take(seat, { vote: "unreachable", cause }),
      );
  }

  #take(seat: Seat, vote: Vote | Silence): void {
    this.#votes.set(seat, vote);
    if (this.#state === "open") return this.#count();
    // It was released already, but perhaps before the vote arrived there.
    if (this.#state === "lost" && vote.vote === "granted") this.#takeBack(seat);
  }

  /** The event loop may have been late, and not the members: what has come in meanwhile is looked at first. */
  #late(): void {
    this.#timer = this.#settings.clock.setTimer(
      () => {
        for (const seat of this.#seats) {
          if (!this.#votes.has(seat))
            this.#votes.set(seat, { vote: "slow", detail: `did not answer in ${this.#settings.memberWaitMs} ms` });
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
    for (const vote of this.#votes.values()) if (vote.vote === "granted") granted++;
    const open = this.#seats.length - this.#votes.size;
    if (granted + open < majority) return this.#end(false);
    if (granted < majority) return;
    for (const seat of clocksOff(this.#seats, maxClockOffsetMs, clock)) {
      if (this.#votes.get(seat)?.vote !== "granted") continue;
      this.#votes.set(seat, { vote: "clock-off", detail: "its clock is too far from the others'" });
      granted--;
    }
    if (granted >= majority) {
      this.lapsed = clock.now() >= this.trustedUntilMs;
      return this.#end(!this.lapsed);
    }
    if (granted + open < majority) this.#end(false);
  }

  #end(won: boolean): void {
    const { clock } = this.#settings;
    this.#state = won ? "won" : "lost";
    this.tookMs = clock.now() - this.sentAtMs;
    clock.clearTimer(this.#timer);
    this.#settle(won);
  }

  #takeBack(seat: Seat): void {
    // A round that was not won must leave nothing taken, whatever its minHold.
    seat.letGo({ ...this.claim, minHoldMs: 0 });
  }
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
