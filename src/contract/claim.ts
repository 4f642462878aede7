/** What is asked of a store: a claim, what its process shows of itself with it, and what its work came to. */

/** How a lock is held: alone, or together with others that share it. */
export type Mode = "exclusive" | "shared";

/** Free text shown to those who inspect the lock. */
export type Meta = Readonly<Record<string, string>>;

/** One wish to hold a lock, as a backend gets it. */
export interface Claim {
  /** 128 random bits, base64url (22 characters). */
  readonly id: string;
  readonly name: string;
  readonly mode: Mode;
  /** How many exclusive claims may hold at once. Always 1 in shared mode. */
  readonly limit: number;
  readonly ttlMs: number;
  /** The store keeps the lock this much longer than `ttlMs` when the holder ends uncleanly. */
  readonly lockDelayMs: number;
  /**
   * A release before this age leaves the lock taken until then, though it is not held. In a release, 0 leaves nothing behind, unless
   * the claim `resumes`: then the store's own record counts.
   */
  readonly minHoldMs: number;
  /** Who claims, for people: `host:pid`. */
  readonly holder: string;
  readonly meta: Meta;
  /** Its process may keep the lease unused for this long, ms, and lets go of it when it is wanted. Shown to those who are refused. Absent: it does not. */
  readonly lingerMs?: number | undefined;
  /** What goes on around the claim in its process. */
  readonly local?: LocalFacts | undefined;
  /** True: in a renewal, `meta` and `local` are not what the store knows, and are to be written. An attempt always writes them. */
  readonly changed?: boolean | undefined;
  /** False: a refused attempt leaves nothing in the store, also if the claim was queued before. True: it may queue the claim. */
  readonly queues: boolean;
  /** True: another process may have been granted this very claim, and it is to be found by its id. */
  readonly resumes?: boolean | undefined;
  /** True: renewed with this ttl, from this thread, until it is released, so that its time may hang together with others'. */
  readonly renewed?: boolean | undefined;
  /**
   * True: where the lock has an outcome, the answer is that outcome: nothing is granted and nothing queued, and a claim that
   * was queued leaves. Only for a backend that can do it.
   */
  readonly wantsOutcome?: boolean | undefined;
}

/**
 * What a process shows of its own queue for a lock. For people and for finding deadlocks: like `meta` it never decides who is
 * granted what, and it may be as old as a third of a ttl.
 */
export interface LocalFacts {
  /** How many requests of the process wait behind this claim. */
  readonly waiters: number;
  /** How many leases of the process share this one. 0 while the claim waits. */
  readonly users: number;
  /** The locks that are held by those who wait: by the claim's own request, and by those behind it. At most {@link HELD_LOCKS_MAX}. */
  readonly holds: readonly HeldLock[];
  /** True: they hold more than is listed. */
  readonly holdsMore: boolean;
}

/** A lease that a process holds while it waits: what a search for deadlocks needs. */
export interface HeldLock {
  readonly name: string;
  readonly fence: bigint;
  /** True: its waiter rejects itself rather than be part of a deadlock. */
  readonly yields?: true | undefined;
}

export const HELD_LOCKS_MAX = 16;

/** What a holder leaves behind with its release. */
export interface Outcome {
  /** A text of at most {@link OUTCOME_BYTES_MAX} bytes of UTF-8. The store does not look into it. */
  readonly value: string;
  /** For how long it is kept, by the store's clock: a second to a year. */
  readonly keepMs: number;
  /** The first of the lease under which the work was done: the outcome of a lease that is over is not kept. */
  readonly fence: bigint;
}

export const OUTCOME_BYTES_MAX = 66_000;
export const OUTCOME_KEEP_MIN_MS = 1000;
export const OUTCOME_KEEP_MAX_MS: number = 366 * 86_400_000;

/** An outcome in the store. */
export interface KeptOutcome {
  readonly value: string;
  /** Of the lease under which the work was done: the first fence of its run. */
  readonly fence: bigint;
  readonly holder: string;
  readonly ageMs: number;
  readonly remainingMs: number;
}
