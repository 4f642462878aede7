/**
 * A member's seat in the quorum: who sits there, whether it answers, and what its clock says. A member that hangs is not
 * asked again and again: its connection would queue all of it.
 */
import type { Claim, Member, Vote } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { Errands } from "./pending-calls.ts";
import type { GroupTerms } from "./terms.ts";
import type { Silence } from "./votes.ts";

/** A member that does not answer is tried again this often. */
const PROBE_MS = 1000;

/** The member's wall clock minus our monotonic clock lies between these. */
export interface Offset {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Who wants a member's vote. */
export interface Asker {
  readonly claim: Claim;
  readonly ballot: bigint;
  /** False: it was decided without it. */
  readonly isWanted: boolean;
  /** Whatever comes: a vote, or that there is none, and why. */
  take(seat: Seat, vote: Vote | Silence): void;
}

export class Seat {
  readonly member: Member;
  readonly label: string;
  /** Its place among the seats. */
  readonly place: number;
  /** Which store answered here last. */
  id: string | undefined;
  offset: Offset | undefined;
  /** Why the member can never be one, found out before it was ever let in. */
  unfit: LockBackendError | undefined;
  readonly #clock: Clock;
  readonly #terms: GroupTerms;
  readonly #memberWaitMs: number;
  readonly #others: () => readonly Seat[];
  #joining: Promise<void> | undefined;
  #joined = false;
  /** Another store answered here before, or the same one before it restarted. */
  #moved = false;
  /** When the first question left that followed the last answer; `undefined`: nothing was asked since. */
  #waitingSinceMs: number | undefined;
  #probedMs = -Infinity;
  readonly #errands: Errands;

  constructor(
    member: Member,
    place: number,
    label: string,
    settings: { readonly clock: Clock; readonly terms: GroupTerms; readonly memberWaitMs: number },
    others: () => readonly Seat[],
  ) {
    this.member = member;
    this.place = place;
    this.label = label;
    this.#clock = settings.clock;
    this.#terms = settings.terms;
    this.#memberWaitMs = settings.memberWaitMs;
    this.#others = others;
    this.#errands = new Errands(member, this.#clock, (answer) => this.#count(answer));
    if (member.join === undefined) this.#joined = true;
  }

  /** True: it was there, and its connection is gone. */
  isDown(): boolean {
    if (this.member.isDown?.() !== true) return false;
    this.#doubt();
    return true;
  }

  /** True: something was asked long ago, and no answer has come since. */
  get hangs(): boolean {
    return this.#waitingSinceMs !== undefined && this.#clock.now() - this.#waitingSinceMs > this.#memberWaitMs;
  }

  /** True, now and then: it is time to see whether a member that hangs answers again. */
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
      return await this.#count(question(this.member));
    } catch (cause) {
      this.#doubt();
      throw cause;
    }
  }

  /** Asks for a vote, unless it is no longer wanted by the time the member has joined. No promise: this is the hot path. */
  poll(asker: Asker): void {
    if (this.#joined) this.#poll(asker);
    else void this.#joinAndPoll(asker);
  }

  /** Releases the claim, and tells what the member said. Goes on trying where the member cannot be reached. */
  release(claim: Claim, told: (was: boolean) => void): void {
    this.#waitingSinceMs ??= this.#clock.now();
    this.#errands.releases(claim);
    this.member.release(claim).then(
      (was) => {
        this.#waitingSinceMs = undefined;
        told(was === "held");
        this.#errands.released(claim);
      },
      () => {
        this.#waitingSinceMs = undefined;
        this.#errands.letGo(claim, false);
        this.#errands.released(claim);
      },
    );
  }

  /**
   * Sees to it that the claim holds nothing here, now or as soon as the member can be reached. Nobody waits for it.
   * `unsaid`: its ballot never became a lease.
   */
  letGo(claim: Claim, unsaid = false): void {
    this.#errands.letGo(claim, unsaid);
  }

  /** The locks of which the member may hold something that nobody wants. */
  get leftAt(): readonly string[] {
    return this.#errands.locks;
  }

  /** Resolves when all that was asked here is answered, and nothing is left: with a member that is gone, never. */
  settled(): Promise<void> {
    return this.#errands.settled();
  }

  /** Asks for nothing any more, and closes the member. */
  close(): Promise<void> {
    this.#errands.close();
    return this.member.close();
  }

  async #joinAndPoll(asker: Asker): Promise<void> {
    try {
      await this.#join();
      if (!asker.isWanted) throw new Error("the round was over before the member had joined");
    } catch (cause) {
      return asker.take(this, { vote: "unreachable", cause });
    }
    return this.#poll(asker);
  }

  #poll(asker: Asker): void {
    const sentAtMs = this.#clock.now();
    this.#waitingSinceMs ??= sentAtMs;
    this.#errands.votes(asker.claim);
    this.member.vote(asker.claim, asker.ballot).then(
      (vote) => {
        this.#waitingSinceMs = undefined;
        const { wallMs, from } = vote;
        if (from !== undefined && from !== this.id) this.#meet(from);
        if (wallMs !== undefined) this.offset = { fromMs: wallMs - this.#clock.now(), toMs: wallMs - sentAtMs };
        asker.take(this, vote);
        this.#errands.voted(asker.claim);
      },
      (cause: unknown) => {
        this.#waitingSinceMs = undefined;
        this.#doubt();
        asker.take(this, { vote: "unreachable", cause });
        this.#errands.voted(asker.claim);
      },
    );
  }

  /** Whoever answers there next may be another store. */
  #doubt(): void {
    if (this.member.join !== undefined) this.#joined = false;
  }

  /** Several questions may wait for one joining; but not for ever, as clients lose commands when connections break. */
  #join(): Promise<void> {
    if (this.#joining !== undefined) return this.#joining;
    let timer: Timer;
    const late = new Promise<never>((_, reject) => {
      const patienceMs = Math.max(PROBE_MS, this.#memberWaitMs);
      timer = this.#clock.setTimer(() => reject(new Error(`did not join in ${patienceMs} ms`)), patienceMs);
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
      const facts = await this.#count(this.member.join!(this.#terms));
      if (facts.id !== this.id) this.#meet(facts.id);
      if (this.unfit !== undefined) throw this.unfit;
      // Whoever has joined already was told of a shorter quarantine.
      if (this.#terms.learn(this.label, facts.quarantineMs)) for (const seat of this.#others()) seat.#doubt();
      this.#joined = this.#terms.quarantineMs === quarantineMs;
    } catch (cause) {
      if (this.id === undefined && cause instanceof LockBackendError && cause.fatal) this.unfit = cause;
      throw cause;
    }
  }

  /** Another store than before answers here. One that always was another member's too is an error of configuration. */
  #meet(id: string): void {
    this.#moved ||= this.id !== undefined;
    this.id = id;
    const twin = this.#others().find((other) => other !== this && other.id === id);
    if (twin === undefined || this.#moved || twin.#moved) return;
    const message = `it is the same store as ${twin.label}`;
    this.unfit = new LockBackendError(this.member.name, "", message, { fatal: true });
  }

  /** An answer to any question is a sign of life: earlier ones that were lost on the way must not count against it. */
  async #count<T>(answer: Promise<T>): Promise<T> {
    this.#waitingSinceMs ??= this.#clock.now();
    try {
      return await answer;
    } finally {
      this.#waitingSinceMs = undefined;
    }
  }
}
