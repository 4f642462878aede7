/**
 * The link to one member: which store answers there, whether it answers, and its clock. A member that hangs is asked only now
 * and then: otherwise its connection would queue all requests.
 */
import type { Claim, Member, Vote } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import { LockBackendError } from "../../contract/errors.ts";
import type { Offset } from "./clock-offsets.ts";
import type { GroupTerms } from "./member-terms.ts";
import { PendingCalls } from "./pending-calls.ts";
import type { NoVote } from "./votes.ts";

/** How often a member that does not answer is tried again. */
const PROBE_MS = 1000;

/** What asks for a member's vote: a round. */
export interface VoteReceiver {
  readonly claim: Claim;
  readonly ballot: bigint;
  /** False: it was decided without this vote. */
  readonly isWanted: boolean;
  /** A vote, or why there is none. */
  receive(link: MemberLink, vote: Vote | NoVote): void;
}

export class MemberLink {
  readonly member: Member;
  readonly label: string;
  /** Its index among the links. */
  readonly index: number;
  /** Which store answered here last. */
  id: string | undefined;
  offset: Offset | undefined;
  /** Why the store cannot be a member, found before it ever joined. */
  unfit: LockBackendError | undefined;
  readonly #clock: Clock;
  readonly #terms: GroupTerms;
  readonly #memberWaitMs: number;
  readonly #others: () => readonly MemberLink[];
  #joining: Promise<void> | undefined;
  #joined = false;
  /** Another store answered here before, or the same one before a restart. */
  #moved = false;
  /** When the first request after the last answer left; `undefined`: none was sent since. */
  #waitingSinceMs: number | undefined;
  #probedMs = -Infinity;
  readonly #pending: PendingCalls;

  constructor(
    member: Member,
    index: number,
    label: string,
    settings: { readonly clock: Clock; readonly terms: GroupTerms; readonly memberWaitMs: number },
    others: () => readonly MemberLink[],
  ) {
    this.member = member;
    this.index = index;
    this.label = label;
    this.#clock = settings.clock;
    this.#terms = settings.terms;
    this.#memberWaitMs = settings.memberWaitMs;
    this.#others = others;
    this.#pending = new PendingCalls(member, this.#clock, (answer) => this.#track(answer));
    if (member.join === undefined) this.#joined = true;
  }

  /** True: it was connected before, and its connection is gone. */
  isDown(): boolean {
    if (this.member.isDown?.() !== true) return false;
    this.#mustJoin();
    return true;
  }

  /** True: a request was sent long ago, and no answer has come since. */
  get hangs(): boolean {
    return this.#waitingSinceMs !== undefined && this.#clock.now() - this.#waitingSinceMs > this.#memberWaitMs;
  }

  /** True now and then: it is time to check whether a member that hangs answers again. */
  mayProbe(): boolean {
    const nowMs = this.#clock.now();
    if (nowMs - this.#probedMs < PROBE_MS) return false;
    this.#probedMs = nowMs;
    return true;
  }

  /** Asks the member, after it has joined. */
  async ask<T>(question: (member: Member) => Promise<T>): Promise<T> {
    if (!this.#joined) await this.#join();
    try {
      return await this.#track(question(this.member));
    } catch (cause) {
      this.#mustJoin();
      throw cause;
    }
  }

  /** Asks for a vote, unless it is not wanted any more when the member has joined. No promise: this is the hot path. */
  requestVote(receiver: VoteReceiver): void {
    if (this.#joined) this.#requestVote(receiver);
    else void this.#joinAndRequestVote(receiver);
  }

  /** Releases the claim, and passes on what the member answered. Retries while the member cannot be reached. */
  release(claim: Claim, answered: (was: boolean) => void): void {
    this.#waitingSinceMs ??= this.#clock.now();
    this.#pending.releaseStarted(claim);
    this.member.release(claim).then(
      (was) => {
        this.#waitingSinceMs = undefined;
        answered(was === "held");
        this.#pending.releaseEnded(claim);
      },
      () => {
        this.#waitingSinceMs = undefined;
        this.#pending.cleanUp(claim, false);
        this.#pending.releaseEnded(claim);
      },
    );
  }

  /**
   * Releases the claim in the background, now or as soon as the member can be reached. `neverLeased`: its ballot never became
   * a lease.
   */
  cleanUp(claim: Claim, neverLeased: boolean): void {
    this.#pending.cleanUp(claim, neverLeased);
  }

  /** The locks of which the member may still hold a claim that is not wanted. */
  get pendingLocks(): readonly string[] {
    return this.#pending.locks;
  }

  /** Resolves when every request is answered and no cleanup is left: never, if the member is gone. */
  settled(): Promise<void> {
    return this.#pending.settled();
  }

  /** Stops all cleanup, and closes the member. */
  close(): Promise<void> {
    this.#pending.close();
    return this.member.close();
  }

  async #joinAndRequestVote(receiver: VoteReceiver): Promise<void> {
    try {
      await this.#join();
      if (!receiver.isWanted) throw new Error("the round was over before the member had joined");
    } catch (cause) {
      return receiver.receive(this, { vote: "unreachable", cause });
    }
    return this.#requestVote(receiver);
  }

  #requestVote(receiver: VoteReceiver): void {
    const sentAtMs = this.#clock.now();
    this.#waitingSinceMs ??= sentAtMs;
    // A renewal for another ttl may give the round another claim before the answer comes.
    const { claim, ballot } = receiver;
    this.#pending.voteStarted(claim);
    this.member.vote(claim, ballot).then(
      (vote) => {
        this.#waitingSinceMs = undefined;
        const { wallMs, from } = vote;
        if (from !== undefined && from !== this.id) this.#identify(from);
        if (wallMs !== undefined) this.offset = { fromMs: wallMs - this.#clock.now(), toMs: wallMs - sentAtMs };
        receiver.receive(this, vote);
        this.#pending.voteEnded(claim);
      },
      (cause: unknown) => {
        this.#waitingSinceMs = undefined;
        this.#mustJoin();
        receiver.receive(this, { vote: "unreachable", cause });
        this.#pending.voteEnded(claim);
      },
    );
  }

  /** The next answer there may come from another store. */
  #mustJoin(): void {
    if (this.member.join !== undefined) this.#joined = false;
  }

  /** Several requests may wait for one join; but only for a time, as clients lose commands when connections break. */
  #join(): Promise<void> {
    if (this.#joining !== undefined) return this.#joining;
    let timer: Timer;
    // Not within(): this timer must not keep the process alive.
    const late = new Promise<never>((_, reject) => {
      const maxMs = Math.max(PROBE_MS, this.#memberWaitMs);
      timer = this.#clock.setTimer(() => reject(new Error(`did not join in ${maxMs} ms`)), maxMs);
    });
    const joining = Promise.race([this.#tryJoin(), late]).finally(() => {
      this.#clock.clearTimer(timer);
      this.#joining = undefined;
    });
    this.#joining = joining;
    return joining;
  }

  async #tryJoin(): Promise<void> {
    try {
      const { quarantineMs } = this.#terms;
      const facts = await this.#track(this.member.join!(this.#terms));
      if (facts.id !== this.id) this.#identify(facts.id);
      if (this.unfit !== undefined) throw this.unfit;
      // Members that have joined already got a shorter quarantine: they must join again.
      if (this.#terms.learn(this.label, facts.quarantineMs)) for (const link of this.#others()) link.#mustJoin();
      this.#joined = this.#terms.quarantineMs === quarantineMs;
    } catch (cause) {
      if (this.id === undefined && cause instanceof LockBackendError && cause.fatal) this.unfit = cause;
      throw cause;
    }
  }

  /** Another store than before answers here. If two links led to it from the start, the configuration is wrong. */
  #identify(id: string): void {
    this.#moved ||= this.id !== undefined;
    this.id = id;
    const twin = this.#others().find((other) => other !== this && other.id === id);
    if (twin === undefined || this.#moved || twin.#moved) return;
    const message = `it is the same store as ${twin.label}`;
    this.unfit = new LockBackendError(this.member.name, "", message, { fatal: true });
  }

  /** An answer to any request shows that the member is alive: earlier lost requests must not count against it. */
  async #track<T>(answer: Promise<T>): Promise<T> {
    this.#waitingSinceMs ??= this.#clock.now();
    try {
      return await answer;
    } finally {
      this.#waitingSinceMs = undefined;
    }
  }
}
