/**
 * A hold: one lease of the store, kept alive by the keeper and lent to local leases: one after the other, or, in
 * shared mode, to several at once. It knows until when it may be trusted (see "Trust" in docs/concepts.md).
 */
import type { Grant } from "./acquire.ts";
import type { Bell } from "./alarm.ts";
import type { Claim, Holding } from "./backend.ts";
import type { Clock } from "./clock.ts";
import type { Lease } from "./api.ts";
import type { Cohort } from "./cohort.ts";
import { driftMs } from "./drift.ts";
import { added, remove } from "./short-list.ts";
import type { Spec } from "./spec.ts";

/** A wall clock this far ahead of the monotonic one means that the machine slept. */
const SLEPT_MS = 2000;

/** What a hold tells the leases that it is lent to. */
export interface Borrower extends Lease {
  lose(reason: string): void;
  stop(reason: unknown): void;
}

/** Who lends the hold, and has to know when it ends. */
export interface HoldHome {
  lose(hold: Hold, reason: string): void;
  forceEnd(hold: Hold, reason: string): Promise<void>;
}

export class Hold implements Bell {
  readonly home: HoldHome;
  readonly claim: Claim;
  readonly spec: Spec;
  readonly firstFence: bigint;
  readonly run: number;
  readonly ttlMs: number;
  readonly grantedAtMs: number;
  /** Those it is lent to now. An array: it is nearly always one, and a Set would be the costliest thing in an acquire. */
  borrowers: Borrower[] = [];
  /** `ending`: its release began, so that nothing may renew it any more. */
  state: "held" | "ending" | "lost" = "held";
  lostBecause = "";
  /** How many local leases it has been lent to. */
  lent = 0;

  /** Its place among all that the desk keeps. */
  deskPlace = -1;

  // The keeper's own notes.
  cohort: Cohort | undefined;
  cohortPlace = -1;
  atMs = 0;
  place = -1;
  /** What to do when the store does not answer its release in time. */
  late: (() => void) | undefined;

  readonly #clock: Clock;
  readonly #endAtMs: number;
  #fromMs: number;
  #wallLeadMs: number;
  #thread: (() => number) | undefined;

  constructor(home: HoldHome, clock: Clock, claim: Claim, spec: Spec, { granted, sent }: Grant) {
    this.home = home;
    this.#clock = clock;
    this.claim = claim;
    this.spec = spec;
    this.firstFence = granted.fence;
    this.run = granted.run;
    this.ttlMs = granted.ttlMs ?? claim.ttlMs;
    this.#fromMs = granted.fromMs ?? sent.atMs;
    this.grantedAtMs = clock.now();
    this.#endAtMs = this.#fromMs + spec.maxHoldMs;
    this.#wallLeadMs = sent.wallLeadMs;
  }

  lend(borrower: Borrower): void {
    this.borrowers = added(this.borrowers, borrower);
  }

  takeBack(borrower: Borrower): void {
    remove(this.borrowers, borrower);
  }

  /** The fence for the next local lease. Shared leases have one in common. */
  nextFence(): bigint {
    const before = this.lent++;
    // The first lease, mostly the only one, needs no arithmetic.
    return before === 0 || this.claim.mode === "shared" ? this.firstFence : this.firstFence + BigInt(before);
  }

  /** The instant at which belief ends: before the store can give the lock away, by 1 % of the ttl + 2 ms for drifting clocks. */
  get trustedUntilMs(): number {
    const fromMs = this.#thread === undefined ? this.#fromMs : Math.max(this.#fromMs, this.#thread());
    return Math.min(fromMs + this.ttlMs - driftMs(this.ttlMs), this.#endAtMs);
  }

  /** Trust counts from here: when the request that last confirmed the lease left. */
  get fromMs(): number {
    return this.#fromMs;
  }

  /** No renewal goes out from here on: the holder has had its `maxHold`. */
  get endAtMs(): number {
    return this.#endAtMs;
  }

  trusted(nowMs: number): boolean {
    return this.state !== "lost" && nowMs < this.trustedUntilMs;
  }

  /** True when the machine seems to have slept since the last confirmation: the monotonic clock may have stood still. */
  inDoubt(nowMs: number): boolean {
    return this.#clock.wall() - nowMs - this.#wallLeadMs > SLEPT_MS;
  }

  /** Held at that instant, for sure: trusted, and no sleep since the last confirmation that could have outlasted it. */
  isSure(nowMs: number): boolean {
    return this.trusted(nowMs) && !this.inDoubt(nowMs);
  }

  /** A wall clock that ran ahead by more than the whole ttl: without a renewal to confirm it, such a lease is over. */
  sleptThrough(nowMs: number): boolean {
    return this.#clock.wall() - nowMs - this.#wallLeadMs > this.ttlMs;
  }

  /** Moves the trusted instant forward, counted from when the renewal left; never back. */
  confirm(fromMs: number, sentAtMs: number, wallLeadMs: number): void {
    if (fromMs > this.#fromMs) this.#fromMs = fromMs;
    // An older proof, sent before this renewal was asked for, says nothing about a sleep in between.
    if (fromMs >= sentAtMs) this.#wallLeadMs = wallLeadMs;
  }

  /** As the store would show it, for messages. */
  describe(nowMs: number): Holding {
    const { name, mode, limit, holder, meta } = this.claim;
    const remainingMs = Math.max(0, this.trustedUntilMs - nowMs);
    return { name, mode, limit, holder, fence: this.firstFence, heldMs: nowMs - this.grantedAtMs, remainingMs, meta };
  }

  /** Lets a worker thread's confirmations count too. */
  follow(latestFromMs: () => number): void {
    this.#thread = latestFromMs;
  }
}
