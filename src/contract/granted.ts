/** What a store answers to a claim: yes, or no. */
import type { KeptOutcome } from "./claim.ts";
import type { Holding } from "./snapshot.ts";

/** A store's yes to a claim: the lease. */
export interface Granted {
  readonly granted: true;
  readonly fence: bigint;
  /** How many fences, from `fence` on, belong to this lease: successive local holders take one each. At least 1. */
  readonly run: number;
  /**
   * Trust counts from this instant of the local monotonic clock: read before the request that brought the grant
   * left, or before which the claim was certainly not granted. Absent: the caller's own reading before it asked.
   */
  readonly fromMs?: number | undefined;
  /** The ttl that the store gave, where it cannot give the one asked for. */
  readonly ttlMs?: number | undefined;
  /** True: a claim queued for the lock when it was granted. A hint, as {@link Listener.wanted} is. */
  readonly wanted?: boolean | undefined;
  /** True: the lease may be kept for a while after its work, because the store says when it is wanted. */
  readonly mayLinger?: boolean | undefined;
  /**
   * True: the client may have sent the question more than once, because its connection broke. A copy may reach the store at any time, also
   * when the lease is over, and take the lock anew for the same claim: the core compares fences when it renews.
   */
  readonly sentTwice?: boolean | undefined;
}

/** A store's no to a claim: who is in the way. */
export interface Refused {
  readonly granted: false;
  /** Who is in the way, as far as the store said: for messages, never for decisions. */
  readonly heldBy: readonly Holding[];
  /** The store may have lost leases, and grants nothing for this long: until those are over. For messages. */
  readonly quarantineMs?: number | undefined;
  /** Place in the store's queue; 1 is next. For messages: it may be a moment old. Absent when the claim is not queued. */
  readonly position?: number | undefined;
  /** Ask again after this long if no news came. Absent: the core's own pace. */
  readonly retryMs?: number | undefined;
  /** Present, for a claim that wants it: the lock's work was done, and this came of it. */
  readonly outcome?: KeptOutcome | undefined;
  /** As in {@link Granted}. */
  readonly sentTwice?: boolean | undefined;
}
