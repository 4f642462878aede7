/**
 * The contract between the core and a store. Read this first.
 *
 * - *lock*: a name. *mode*: `exclusive` or `shared`. *limit*: how many may hold at once (1 unless said).
 * - *claim*: one wish to hold a lock; it has an id of 128 random bits for its whole life.
 * - *holder*, *waiter*: whose claim is granted, or queued.
 * - *lease*: a granted claim while it lasts. *ttl*: how long a lease outlives a dead holder.
 * - *fence*: the lease's number; of two leases on one lock, the later has the greater fence.
 * - *outcome*: what the work under a lease came to, kept by the store after the lease, for those who want that instead of the lock.
 * - *wanted*: a claim queues for a lock that another claim holds.
 * - *backend*: a store that grants leases. *guard*: a check at the protected thing that refuses old fences.
 *
 * Every operation is idempotent by `claim.id`: a caller that lost a reply asks again with the same claim.
 * An answer is certain; a rejection means *unknown*, unless it is a {@link LockBackendError} with `fatal`.
 * The core checks every answer: see answer.ts.
 */
import type { Claim, Outcome } from "./claim.ts";
import type { Granted, Refused } from "./granted.ts";
import type { LossReason } from "./loss.ts";
import type { LockState, Snapshot } from "./snapshot.ts";

export type { Claim, HeldLock, KeptOutcome, LocalFacts, Meta, Mode, Outcome } from "./claim.ts";
export type { Granted, Refused } from "./granted.ts";
export type { Forced, Holding, LockState, Snapshot, Waiting } from "./snapshot.ts";

/**
 * What a claim was to the store when its release came: it held the lock, it only waited for it, or the store did not
 * know it. Giving up a place in the queue is not a release, so the two differ.
 */
export type Released = "held" | "queued" | "absent";

/** The answer to `next`, and what `held` was to the store. Absent: it cannot tell. */
export type Swapped = (Granted | Refused) & { readonly released?: Released | undefined };

/** `false` is a certain no: the store no longer holds the lock for this claim. `"unknown"` is neither yes nor no. */
export type Renewal =
  /** `from`: as in a {@link Vote}. */
  | {
      readonly held: true;
      readonly fromMs?: number | undefined;
      readonly from?: string | undefined;
      /** As in {@link Granted}. */
      readonly wanted?: boolean | undefined;
    }
  /** `reason`: as data, or a text of its own. */
  | { readonly held: false; readonly reason: LossReason | string }
  | { readonly held: "unknown"; readonly cause: unknown };

/** What a backend tells without being asked. Hints that save time: the core stays right when none arrives. */
export interface Listener {
  /** The lease is surely gone: ended by force, or its connection's life in the store ended. */
  lost(claimId: string, reason: LossReason | string): void;
  /**
   * Something happened (a reconnect, a fail-over) after which every lease should be renewed at once; with an id, news of
   * one lease that proves nothing by itself: only that one is renewed at once.
   */
  doubt(claimId?: string): void;
  /**
   * A claim queues for the lock that this claim holds. Sent by the attempt with which the queue begins: to all who share the
   * lock, and, where a limit lets several hold, to the oldest. What does not queue sends nothing. Grants and renewals say it too.
   */
  wanted?(claimId: string): void;
}

/** What only some stores can do. `true`, or why not, as a sentence for users. Absent: it was never said, so it cannot. */
export interface Abilities {
  /** `release(claim, outcome)`, claims that want outcomes, and `forget()`. */
  readonly outcomes?: true | string | undefined;
  /** `listener.wanted()`, and `wanted` in grants and renewals. */
  readonly wanted?: true | string | undefined;
  /** A renewal for another ttl than that of the attempt. */
  readonly otherTtl?: true | string | undefined;
  /** `steal()`. */
  readonly steal?: true | string | undefined;
  /** `query()` and `inspect()` show every claim that waits, with its id and what its process says with it: so deadlocks are found. */
  readonly waiters?: true | string | undefined;
  /** Where one holds at a time, grants reserve a run of fences, say `mayLinger`, and refusals show `lingerMs`. */
  readonly linger?: true | string | undefined;
}

/** What grants leases over one kind of store. `createLocks()` takes one; docs/testing.md says how to write one. */
export interface Backend {
  readonly name: string;

  /** True: a lease ends with the process that took it, whatever its ttl: with its session, or its memory. */
  readonly ephemeral?: boolean | undefined;

  /** What it can do of that which only some stores can. */
  readonly can?: Abilities | undefined;

  /** Takes the lock if the claim may hold it now, in one atomic step. Never waits. May queue the claim. */
  attempt(claim: Claim): Promise<Granted | Refused>;

  /**
   * Waits for news of a queued claim: the grant itself, or `undefined` for "attempt again".
   * Settles soon after `signal` aborts (with `undefined`), and removes nothing from the store: release() does.
   */
  watch?(claim: Claim, signal: AbortSignal): Promise<Granted | undefined>;

  /**
   * Renews each claim for its own ttl; answers in the order asked. One bad claim never harms another. The ttl may be another than
   * before, where the backend {@link Abilities can} do that; a renewal never makes a lease end sooner than it would have. `fences`: those with
   * which the claims were granted, in their order, where it is in doubt whether these are still the same leases. A claim that
   * holds its lock with another fence is not renewed, and the answer is no: its lease was over in between, and an attempt that
   * was long on its way has taken the lock again.
   */
  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]>;

  /**
   * Ends the claim, held or queued, and says what it was. `"absent"` and `"queued"` are certain answers like any other: a
   * backend whose client may have sent the release twice (its connection broke on the way) rejects instead. After a rejection
   * the core asks again; both then count as released, if the lease was trusted when its work settled and has been since.
   *
   * `outcome`: kept in the same atomic step, and only if the claim holds by the lease with its fence: one that was over, and that a late
   * attempt has taken again, ends without it, and the answer is `"absent"`. When it is kept every claim that waits for an outcome has
   * news. Asked again, it is `"held"` for as long as that outcome is kept. The last fence of the lock is kept at least as long.
   */
  release(claim: Claim, outcome?: Outcome): Promise<Released>;

  /** Releases `held` and attempts `next` in one atomic step and one round trip. Absent: the core does one after the other. */
  swap?(held: Claim, next: Claim): Promise<Swapped>;

  /** Holders and waiters of all locks whose name starts with `prefix`. */
  query(prefix: string): Promise<Snapshot>;

  /** All that the store knows of one lock. It changes nothing. */
  inspect(name: string): Promise<LockState>;

  /**
   * Ends the lease whose run contains `fence`, whichever process holds it, and tells its holder at once where it can.
   * `false`: no such lease, so a successor is never hit.
   */
  forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean>;

  /**
   * Ends all leases of the lock by force and grants it to the claim, before all who wait, in one atomic step: as forceRelease()
   * by the claim's holder. A claim that holds the lock keeps it, and ends nothing. It never queues. After a rejection the core
   * asks with attempt(), so that a steal is not done twice.
   */
  steal?(claim: Claim, reason: string): Promise<Granted | Refused>;

  /** Removes the kept outcome of the lease whose run begins with `fence`, and nothing else. `false`: there is none. */
  forget?(name: string, fence: bigint): Promise<boolean>;

  /** Called once by the core, before anything else. */
  listen?(listener: Listener): void;

  /**
   * The holder wants to know from now on when its lease is wanted. Until then the backend need not watch for it; what began
   * before is in the answer to the next renewal. Absent: nothing has to be prepared.
   */
  expectWanted?(claim: Claim): void;

  /**
   * How a worker thread can renew this backend's claims: it imports `module`, calls its
   * `openRenewer(data)` and gets a {@link Renewer}. Absent: `renew: "thread"` is refused.
   */
  readonly renewer?: { readonly module: string; readonly data: unknown } | undefined;

  /**
   * Ends what waits here and closes what the backend opened. Settles when all that it still had under way in the store is
   * answered, in bounded time; rejects with a {@link LockBackendError} that says what may be left there.
   */
  close(): Promise<void>;
}

/** The part of a backend that a renewing worker thread needs. */
export interface Renewer {
  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]>;
  close(): Promise<void>;
}

/**
 * A quorum member's answer to a ballot: a fence that the claimant proposes. `from` tells which store it was: two answers
 * with one `from` count once, whatever name led there. Absent: the store is one of a kind.
 */
export type Vote =
  /** `waiters`: how many listen for this lock's release, as far as the member knows; a hint, here and below. */
  | {
      readonly vote: "granted";
      readonly from?: string | undefined;
      readonly waiters?: number | undefined;
      readonly wallMs?: number | undefined;
    }
  /** Another claim holds the member. */
  | {
      readonly vote: "held";
      readonly from?: string | undefined;
      readonly by: string;
      readonly fence: bigint;
      readonly heldMs?: number | undefined;
      readonly remainingMs: number;
      readonly lingerMs?: number | undefined;
      readonly waiters?: number | undefined;
      readonly wallMs?: number | undefined;
    }
  /** The ballot is not above `fence`, the greatest that the member has granted. */
  | {
      readonly vote: "low";
      readonly from?: string | undefined;
      readonly fence: bigint;
      readonly wallMs?: number | undefined;
    }
  /** The member lost its data (restart, flush, fail-over) and abstains for `forMs`. */
  | {
      readonly vote: "recovering";
      readonly from?: string | undefined;
      readonly forMs: number;
      readonly wallMs?: number | undefined;
    };

/** A backend that can take a proposed fence: what a quorum is made of. Its attempt() may also be used alone. */
export interface Member extends Backend {
  /** Grants `ballot` to the claim if the lock is free and the ballot is above every fence granted before. Never queues. */
  vote(claim: Claim, ballot: bigint): Promise<Vote>;

  /**
   * Takes back a vote for a ballot that never became a lease: as release(), and the member also forgets that it granted
   * that ballot, where it granted none since. Absent: release() does, and the ballot is spent.
   */
  withdraw?(claim: Claim): Promise<Released>;

  /**
   * The voted lease whose claim's id begins with `id`: how another process finds what it knows by a part of the id only.
   * Absent: leases of this member cannot be found that way.
   */
  recall?(name: string, id: string): Promise<Recalled | undefined>;

  /**
   * Called by a quorum before the first vote, and again after the member could not be reached. Tells the group's terms
   * and learns who the member is. Rejects with a fatal `LockBackendError` where the store cannot be a member: a replica,
   * a cluster node, one that evicts. Absent: the store never forgets, and is one of a kind.
   */
  join?(terms: MemberTerms): Promise<MemberFacts>;

  /**
   * Calls `wake` when the lock may have become free: a voted lease was released or broken. A hint, to one waiter or to
   * all; lose it and all still works. Returns what stops it.
   */
  freed?(name: string, wake: () => void): () => void;

  /** Tells the holder of the lock, through {@link Listener.wanted}, that a claim waits for it: votes never queue. A hint. */
  want?(name: string): Promise<void>;

  /** True: the store was reached before and its connection is gone, so that a question would only wait for the next one. */
  isDown?(): boolean;

  /** Ends the quarantine: an operator knows that this member lost no lease (`holdfast doctor --init`). */
  endQuarantine?(): Promise<void>;
}

/** A voted lease as the member knows it. */
export interface Recalled {
  readonly id: string;
  readonly ballot: bigint;
}

/** What the group asks of each of its members. */
export interface MemberTerms {
  /** How long a member that forgot its leases abstains, by its own clock. 0: it is durable, and never forgets. */
  readonly quarantineMs: number;
  /** True: a store that may evict leases is let in all the same. */
  readonly allowEviction: boolean;
}

export interface MemberFacts {
  /** Two members with the same id are one store. */
  readonly id: string;
  /** The longest quarantine that was asked of it before, ms. Absent: none was. */
  readonly quarantineMs?: number | undefined;
}
