/**
 * One round: all members are asked at once for one ballot, under an id that no other round has, and the votes are
 * counted as they come. Won as soon as a majority granted it and trust remains; lost as soon as no majority can. A later
 * vote is kept if the round was won, and withdrawn if not.
 */
import type { Claim, Vote } from "../../contract/backend.ts";
import type { Timer } from "../../contract/clock.ts";
import { driftMs } from "../../contract/answer.ts";
import type { MemberVote } from "../../contract/errors.ts";
import { clocksOff } from "./clock-offsets.ts";
import { describe } from "./errors.ts";
import type { MemberLink, VoteReceiver } from "./member-link.ts";
import type { Settings } from "./options.ts";
import { majorityOf, type NoVote } from "./votes.ts";

const HANGS: NoVote = { vote: "slow", detail: "has not answered earlier requests" };
const ELSEWHERE: NoVote = { vote: "slow", detail: "was asked by another process" };
const DOWN: NoVote = { vote: "unreachable", cause: "its connection is down" };

export class Round implements VoteReceiver {
  /** The claim as the members know it, with the longest ttl that they were asked for. */
  claim: Claim;
  readonly ballot: bigint;
  readonly sentAtMs: number;
  /** Resolves once it is won or lost. */
  readonly over: Promise<Round>;
  /** How long that took. */
  tookMs = 0;
  /** A majority granted it, but too late to be trusted. */
  lapsed = false;
  readonly #links: readonly MemberLink[];
  readonly #settings: Settings;
  /** By the links' indexes. */
  readonly #votes: (Vote | NoVote | undefined)[];
  readonly #asked: boolean[];
  #state: "open" | "won" | "lost" = "open";
  /** The ballot never became a lease: no fence of this round can have been used. */
  #neverLeased: boolean;
  readonly #ended: (round: Round) => void;
  #settle!: (round: Round) => void;
  #timer: Timer;

  /**
   * `ended` is called as soon as it is won or lost, perhaps before this returns. With `before`, a round that was won, this is
   * another round of the same holder, with a greater ballot. With `wonAs`, another process has won it under that id.
   */
  constructor(
    links: readonly MemberLink[],
    settings: Settings,
    claim: Claim,
    ballot: bigint,
    ended: (round: Round) => void,
    before?: Round,
    wonAs?: string,
  ) {
    this.#links = links;
    this.#settings = settings;
    this.#ended = ended;
    this.#votes = links.map(() => undefined);
    this.#asked = links.map((link) => before?.hasAsked(link) ?? false);
    // A lost round must leave nothing held: so minHold is requested only in a second round, after a first one was won.
    const minHoldMs = before === undefined ? 0 : claim.minHoldMs;
    this.claim = { ...claim, minHoldMs, id: wonAs ?? before?.claim.id ?? roundId(claim.id, settings.chance.id()) };
    this.#neverLeased = before === undefined && wonAs === undefined;
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

  vote(link: MemberLink): Vote | NoVote | undefined {
    return this.#votes[link.index];
  }

  votes(): readonly (Vote | NoVote)[] {
    return this.#votes.filter((vote) => vote !== undefined);
  }

  /** How many wait for the lock, as far as members know. */
  waiters(): number {
    let most = 0;
    for (const vote of this.#votes) {
      if (vote !== undefined && "waiters" in vote && vote.waiters !== undefined && vote.waiters > most)
        most = vote.waiters;
    }
    return most;
  }

  /** Every member's vote, for people, in the members' order. */
  report(): readonly MemberVote[] {
    return this.#links.map((link) => describe(link.label, this.vote(link)));
  }

  /** True: the member has, or may have, granted this round. */
  hasAsked(link: MemberLink): boolean {
    return this.#asked[link.index]!;
  }

  /**
   * The claim for a renewal with this ttl, this meta and these facts. What is asked of a member later, or taken back there, goes by
   * the longest ttl: none ends a lease sooner because a shorter one was asked for since.
   */
  renewed(claim: Claim): Claim {
    const { id, minHoldMs, ttlMs, lockDelayMs } = this.claim;
    if (claim.ttlMs === ttlMs && claim.lockDelayMs === lockDelayMs && claim.changed !== true) return this.claim;
    const { meta, local } = claim.changed === true ? claim : this.claim;
    this.claim = {
      ...this.claim,
      ttlMs: Math.max(ttlMs, claim.ttlMs),
      lockDelayMs: Math.max(lockDelayMs, claim.lockDelayMs),
      meta,
      local,
    };
    return { ...claim, id, minHoldMs };
  }

  /** Asks a missing member again: only while the majority is intact. */
  askAgain(link: MemberLink): void {
    this.#votes[link.index] = undefined;
    this.#ask(link);
  }

  /** The round is not wanted any more: releases it at every member, also where the vote was lost on the way. */
  withdraw(): void {
    // The listener of its end calls this again.
    if (this.#state === "open") return this.#end(false);
    this.#state = "lost";
    for (const link of this.#links) if (this.hasAsked(link)) this.#takeBack(link);
    return undefined;
  }

  receive(link: MemberLink, vote: Vote | NoVote): void {
    this.#votes[link.index] = vote;
    if (this.#state === "open") return this.#count();
    // It was released already, but perhaps before the vote request arrived there.
    if (this.#state === "lost" && vote.vote === "granted") this.#takeBack(link);
    return undefined;
  }

  /** Leaves out members whose connection is down, because requests would only pile up there; unless the others are too few. */
  #askAll(): void {
    let up = 0;
    for (const link of this.#links) if (!link.isDown()) up++;
    const enough = up >= majorityOf(this.#links.length);
    for (const link of this.#links) {
      if (enough && up < this.#links.length && link.isDown()) this.#votes[link.index] = DOWN;
      else this.#ask(link);
    }
  }

  #ask(link: MemberLink): void {
    // The round does not wait for it; but if it answers after all, its vote counts.
    if (link.hangs) {
      this.#votes[link.index] = HANGS;
      if (!link.mayProbe()) return;
    }
    this.#asked[link.index] = true;
    link.requestVote(this);
  }

  /** The event loop may have been late, not the members: answers that have arrived are read first. */
  #late(): void {
    this.#timer = this.#settings.clock.setTimer(
      () => {
        for (const link of this.#links) {
          this.#votes[link.index] ??= { vote: "slow", detail: `did not answer in ${this.#settings.memberWaitMs} ms` };
        }
        this.#count();
      },
      1,
      true,
    );
  }

  #count(): void {
    const { clock, maxClockOffsetMs } = this.#settings;
    const majority = majorityOf(this.#links.length);
    let granted = 0;
    let open = 0;
    for (const vote of this.#votes) {
      if (vote === undefined) open++;
      else if (vote.vote === "granted") granted++;
    }
    if (granted + open < majority) return this.#end(false);
    if (granted < majority) return;
    granted -= this.#leaveOutTwins();
    for (const link of clocksOff(this.#links, maxClockOffsetMs, clock)) {
      if (this.vote(link)?.vote !== "granted") continue;
      this.#votes[link.index] = { vote: "clock-off", detail: "its clock is too far from the others'" };
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
    for (const link of this.#links) {
      const from = this.#grantedBy(link);
      const twin = from === undefined ? undefined : this.#links.find((other) => this.#grantedBy(other) === from);
      if (twin === undefined || twin === link) continue;
      this.#votes[link.index] = { vote: "twin", detail: `it leads to the same server as ${twin.label}` };
      twins++;
    }
    return twins;
  }

  #grantedBy(link: MemberLink): string | undefined {
    const vote = this.vote(link);
    return vote?.vote === "granted" ? vote.from : undefined;
  }

  #end(won: boolean): void {
    const { clock } = this.#settings;
    this.#state = won ? "won" : "lost";
    if (won) this.#neverLeased = false;
    this.tookMs = clock.now() - this.sentAtMs;
    clock.clearTimer(this.#timer);
    this.#ended(this);
    if (won) return this.#settle(this);
    // An answer that arrives in this turn still appears in the report.
    return queueMicrotask(() => this.#settle(this));
  }

  #takeBack(link: MemberLink): void {
    // A round that was not won must leave nothing held, whatever its minHold.
    link.cleanUp({ ...this.claim, minHoldMs: 0, resumes: false }, this.#neverLeased);
  }
}

const NONCE_LENGTH = 11;

/** The claim's own id, out of the one that members know. */
export function claimId(id: string): string {
  return id.slice(0, Math.max(0, id.length - NONCE_LENGTH));
}

/** 64 bits of its own after the claim's id, so another process can find by that id what this one has won. */
function roundId(claimId: string, nonce: string): string {
  return claimId + nonce.slice(0, NONCE_LENGTH);
}
