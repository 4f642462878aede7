/**
 * A hold: one lease of the store, renewed by the watchdog and lent to local leases: one after the other, or, in shared
 * mode, to several at once. It knows until when it may be trusted (see "Trust" in docs/concepts.md), and it has one state:
 * held, then ending (its release began) or lost. Whether it may be believed, lent, entered or renewed is a question to that
 * state, so that nothing can be released and still be believed.
 */
import type { Deadline } from "../contract/deadlines.ts";
import type { ReleaseResult } from "./api.ts";
import { driftMs } from "../contract/answer.ts";
import type { Backend, Claim, Meta, Outcome } from "../contract/backend.ts";
import type { AwakePeriod, SentAt, SleepDetector } from "../contract/clock.ts";
import type { LossReason } from "../contract/loss.ts";
import { ContextAbort } from "./context.ts";
import type { CheckedOptions } from "./options.ts";
import type { Grant } from "./grant.ts";
import type { HoldFront, HoldGroup, HoldUser, Idle, Trouble } from "./hold-neighbours.ts";
import { remove } from "./list.ts";
import { expectWanted, Newsworthy } from "./news.ts";
import { isSame, withUsers } from "./shown.ts";

export class Hold extends Newsworthy implements Deadline {
  claim: Claim;
  readonly options: CheckedOptions;
  readonly firstFence: bigint;
  readonly run: number;
  /** For how long each renewal is. Only {@link retime} changes it. */
  ttlMs: number;
  /** The store keeps it for at most this long after any renewal that was asked for so far. */
  longestTtlMs: number;
  readonly grantedAtMs: number;
  /** Those it is lent to now. An array: it is nearly always one, and a Set would be the costliest thing in an acquire. */
  leases: HoldUser[] = [];
  /** How many local leases it has been lent to. */
  lent = 0;
  /** What became of it in the store, once it is `ending`. */
  released: Promise<ReleaseResult> | undefined;
  /** What its lease shows to people now: that of the last user. */
  meta: Meta;
  /** What the store is to keep with its release. */
  outcome: Outcome | undefined;
  /** The store says when it is wanted, and there is a fence for who has it next. */
  readonly #mayLinger: boolean;
  /** The note of linger.ts. */
  idle: Idle<Hold> | undefined;

  // The watchdog's own notes: where it is among the holds, and what became of its last renewals.
  group: HoldGroup<Hold> | undefined;
  groupIndex = -1;
  atMs = 0;
  heapIndex = -1;
  trouble: Trouble | undefined;

  /** No renewal goes out from here on: the holder has had its `maxHold`. */
  readonly endAtMs: number;
  /** A question for its claim may arrive late, and take the lock anew when this lease is over: that the claim holds proves nothing then. */
  readonly echoes: boolean;
  readonly #front: HoldFront<Hold>;
  readonly #sleep: SleepDetector;
  #state: "held" | "ending" | "lost" = "held";
  /** A lease of it wants to know when it is wanted. */
  #tellsWanted = false;
  #fromMs: number;
  #untilMs: number;
  /** When the question left that last confirmed it. */
  #period: AwakePeriod;
  #thread: (() => number) | undefined;

  constructor(front: HoldFront<Hold>, sleep: SleepDetector, claim: Claim, options: CheckedOptions, grant: Grant) {
    const { granted, sent, heardAtMs, trustedUntilMs, echoes } = grant;
    super(granted.wanted === true);
    this.#front = front;
    this.#sleep = sleep;
    this.claim = claim;
    this.meta = claim.meta;
    this.options = options;
    this.firstFence = granted.fence;
    this.run = granted.run;
    this.#mayLinger = granted.mayLinger === true && granted.run > 1;
    this.longestTtlMs = this.ttlMs = granted.ttlMs ?? claim.ttlMs;
    this.#fromMs = granted.fromMs ?? sent.atMs;
    this.#untilMs = trustedUntilMs;
    this.grantedAtMs = heardAtMs;
    this.endAtMs = heardAtMs + options.maxHoldMs;
    this.#period = sent.period;
    this.echoes = echoes;
  }

  get state(): "held" | "ending" | "lost" {
    return this.#state;
  }

  /** Its release begins, or it is lost. A lease ends once: `false` where it had ended before. */
  end(how: "ending" | "lost"): boolean {
    if (this.#state !== "held") return false;
    this.#state = how;
    // Nothing is kept of a lease that is lost, though the store may have it yet.
    if (how === "lost") this.outcome = undefined;
    this.tell();
    return true;
  }

  /** It is kept when no lease uses it. */
  get lingers(): boolean {
    return this.#mayLinger && this.claim.lingerMs !== undefined;
  }

  get isIdle(): boolean {
    return this.idle?.untilMs !== undefined;
  }

  /** Where it lingers, it goes back to the store now. */
  letGo(): void {
    if (this.isIdle && this.#state === "held") this.#front.endIdle(this);
  }

  /** It cannot be trusted any more. Its leases learn of it; the queue goes on without it. */
  lose(loss: LossReason): void {
    this.#front.lose(this, loss);
  }

  /** One more uses it. The fence for that lease: shared leases have one in common. */
  lend(lease: HoldUser): bigint {
    if (this.idle !== undefined) this.idle.untilMs = undefined;
    // push() makes room for sixteen more in an empty list.
    if (this.leases.length === 0) this.leases = [lease];
    else this.leases.push(lease);
    const before = this.lent++;
    // The first lease, mostly the only one, needs no arithmetic.
    return before === 0 || this.claim.mode === "shared" ? this.firstFence : this.firstFence + BigInt(before);
  }

  /** The fence is one of its run. */
  hasFence(fence: bigint): boolean {
    return fence >= this.firstFence && fence < this.firstFence + BigInt(this.run);
  }

  /** The lease is over since `nowMs`. `undefined`: others go on with the hold. */
  takeBack(lease: HoldUser, nowMs: number): ReleaseResult | Promise<ReleaseResult> | undefined {
    remove(this.leases, lease);
    if (this.leases.length === 0) return this.#front.over(this, nowMs);
    this.tell();
    return undefined;
  }

  /** A lease of it wants to know from now on that a claim queues for it, or a request of this process. */
  expectWanted(backend: Backend): AbortController {
    const wanted = new ContextAbort();
    if (!this.#tellsWanted) expectWanted(backend, this.claim);
    this.#tellsWanted = true;
    if (this.isWanted || this.#front.isAwaited) wanted.abort();
    return wanted;
  }

  /** A claim, or a request of this process, queues for it. In a turn of its own: listeners may do anything. */
  hearWanted(): void {
    if (!this.#tellsWanted) return;
    queueMicrotask(() => {
      for (const lease of this.leases.slice()) lease.tellWanted();
    });
  }

  /** The claim as it goes out in a renewal, with what it shows to people now. `isAwaited`: a request of this process waits, perhaps for it. */
  toRenew(isAwaited = true): Claim {
    const { meta, local } = this.claim;
    // Where nothing here renews it, what it says of those behind it could not be taken back, and would be believed.
    const behind = isAwaited && this.options.renew === true ? this.#front.behind(this) : undefined;
    const now = withUsers(behind, this.leases.length);
    if (meta !== this.meta || !isSame(local, now)) {
      this.claim = { ...this.claim, meta: this.meta, local: now, changed: true };
    }
    return this.claim;
  }

  /** The store knows what this claim shows. */
  shown(claim: Claim): void {
    if (this.claim === claim) this.claim = { ...claim, changed: undefined };
  }

  /** The instant at which belief ends: before the store can give the lock away, by 1 % of the ttl + 2 ms for drifting clocks. */
  get trustedUntilMs(): number {
    if (this.#thread !== undefined) this.#trustFrom(this.#thread());
    return Math.min(this.#untilMs, this.endAtMs);
  }

  /** Trust counts from here: when the request that last confirmed the lease left. */
  get fromMs(): number {
    if (this.#thread !== undefined) this.#trustFrom(this.#thread());
    return this.#fromMs;
  }

  /** Never back. */
  #trustFrom(fromMs: number): void {
    if (fromMs <= this.#fromMs) return;
    this.#fromMs = fromMs;
    this.#untilMs = fromMs + this.ttlMs - driftMs(this.ttlMs);
  }

  /** Held, and its time has not passed. */
  trusted(nowMs: number): boolean {
    return this.#state === "held" && this.#hasTime(nowMs);
  }

  /**
   * True when the machine may have slept since the last confirmation: the monotonic clock may have stood still.
   * Only a renewal can settle that. One that is never renewed is not in doubt: the sleep is taken off its time.
   */
  inDoubt(nowMs: number): boolean {
    if (this.options.renew === false) return false;
    const period = this.#sleep.look(nowMs);
    // A worker thread proves that it was held at an instant.
    return period !== this.#period && (this.#thread === undefined || this.#thread() <= period.seenAtMs);
  }

  /**
   * A yes to its renewal may be about another lease: after a sleep, or after its end by force, a late question may have brought that.
   * `period`: that of now. It is looked at once for thousands of holds.
   */
  mayDiffer(period: AwakePeriod): boolean {
    return this.echoes || period !== this.#period;
  }

  /** Held at that instant, for sure: trusted, and no sleep since the last confirmation that could have outlasted it. */
  isSure(nowMs: number): boolean {
    return this.trusted(nowMs) && !this.inDoubt(nowMs);
  }

  /** The store cannot have let go by itself yet, whatever has become of the hold here. Says nothing about belief. */
  isUnexpired(nowMs: number, inDoubt: boolean = this.inDoubt(nowMs)): boolean {
    return !inDoubt && this.#hasTime(nowMs);
  }

  /** How much of its time is left, counting the sleep of the machine where no renewal can settle that. */
  remainingMs(nowMs: number): number {
    const sleptMs = this.options.renew === false ? this.#sleep.sleptMs(this.#period, nowMs) : 0;
    return this.trustedUntilMs - nowMs - sleptMs;
  }

  #hasTime(nowMs: number): boolean {
    return this.remainingMs(nowMs) > 0;
  }

  /**
   * Moves the trusted instant forward, counted from when the renewal left; never back. A question from before the ttl was
   * changed says nothing: the next one does.
   */
  confirm(asked: Claim, fromMs: number, sent: SentAt): void {
    if (asked.ttlMs !== this.claim.ttlMs) return;
    this.#trustFrom(fromMs);
    // An older proof, sent before this renewal was asked for, says nothing about a sleep in between.
    if (fromMs >= sent.atMs && fromMs === this.#fromMs) this.#period = sent.period;
    this.tell();
  }

  /** The store is asked to renew it for this ttl: from here on it may keep it for so long, whatever becomes of the answer. */
  expectTtl(ttlMs: number): void {
    this.longestTtlMs = Math.max(this.longestTtlMs, ttlMs);
  }

  /** Its renewals are for less than one that was asked for: the next one may leave it less time than there is now. */
  get isShortened(): boolean {
    return this.ttlMs < this.longestTtlMs;
  }

  /** The store has renewed it for the ttl of `asked`. The next renewals are for `ttlMs`. */
  retime(asked: Claim, ttlMs: number, fromMs: number, sent: SentAt): void {
    const lastsMs = asked.ttlMs === this.claim.ttlMs ? this.ttlMs : asked.ttlMs;
    const untilMs = fromMs + lastsMs - driftMs(lastsMs);
    // Only then it is known whether the machine has slept since.
    const isOfNow = fromMs >= sent.atMs;
    // Read before it is left: what the thread has confirmed was for the ttl until now.
    const isMore = fromMs >= this.fromMs || (isOfNow && untilMs > this.#untilMs);
    this.#thread = undefined;
    if (isMore) {
      this.#fromMs = fromMs;
      this.#untilMs = untilMs;
      if (isOfNow) this.#period = sent.period;
    }
    if (ttlMs !== this.claim.ttlMs) {
      this.ttlMs = ttlMs;
      this.claim = { ...this.claim, ttlMs };
    }
    this.tell();
  }

  /** Calls `read`, which may ask whether it is in doubt, without leaving a trace. */
  unseen<T>(read: () => T): T {
    return this.#sleep.unseen(read);
  }

  /** Lets a worker thread's confirmations count too. */
  follow(latest: () => number): void {
    this.#thread = latest;
  }
}
