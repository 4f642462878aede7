/** What a store shows to those who ask who holds and who waits. */
import type { KeptOutcome, LocalFacts, Meta, Mode } from "./claim.ts";

/** A lease, as a store shows it. */
export interface Holding {
  readonly name: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly holder: string;
  /** The first fence of the lease's run. */
  readonly fence: bigint;
  readonly heldMs: number;
  /** Until the store lets go by itself. */
  readonly remainingMs: number;
  readonly meta: Meta;
  /** Of its claim. Absent: the store does not know it, or not yet. */
  readonly id?: string | undefined;
  /** Present: no process holds it any more, and the lock stays taken for the rest of a `minHold` or a `lockDelay`. */
  readonly remainder?: "minHold" | "lockDelay" | undefined;
  readonly local?: LocalFacts | undefined;
  /** Its process may keep it unused for this long, and lets go of it when it is wanted. Absent: it does not. */
  readonly lingerMs?: number | undefined;
}

/** A waiter, as a store shows it. */
export interface Waiting {
  readonly name: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly holder: string;
  readonly waitingMs: number;
  /** 1 is next. */
  readonly position: number;
  readonly meta: Meta;
  /** Of its claim. */
  readonly id?: string | undefined;
  /**
   * When it was queued, by the store: greater than that of whatever was queued before it, for this lock or another, as far as the store
   * can tell, and the same in every answer. What it counts is the store's own matter. Absent: the store does not know it.
   */
  readonly order?: bigint | undefined;
  readonly local?: LocalFacts | undefined;
}

/** A lease that was ended from outside, kept for a while so that people can see who did it and why. */
export interface Forced {
  readonly name: string;
  readonly fence: bigint;
  readonly by: string;
  readonly reason: string;
  readonly agoMs: number;
}

/** What a store shows: who holds, who waits, and which leases were ended by force. */
export interface Snapshot {
  readonly held: readonly Holding[];
  readonly pending: readonly Waiting[];
  readonly forced: readonly Forced[];
}

/** One lock, exactly. */
export interface LockState extends Snapshot {
  /** The store may have lost leases, and grants nothing for this long. */
  readonly quarantineMs?: number | undefined;
  readonly outcome?: KeptOutcome | undefined;
}
