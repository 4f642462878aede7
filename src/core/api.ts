/** What a user sees: locks, leases and options, as types. The work is done next door. */
import type { Forced, Holding, Meta, Mode, Waiting } from "../contract/backend.ts";
import type { Chance } from "../contract/random.ts";
import type { Clock } from "../contract/clock.ts";
import type { Duration } from "../contract/duration.ts";
import type { Contention, ContentionOptions } from "./contention-api.ts";

export interface LockOptions {
  /** How long the lock outlives a dead holder: 100 ms to 24 h. @default "30s" */
  readonly ttl?: Duration | undefined;
  /** `shared` holders hold together; `exclusive` ones alone. @default "exclusive" */
  readonly mode?: Mode | undefined;
  /** How many exclusive holders there may be at once; all claimants of a lock must agree. @default 1 */
  readonly limit?: number | undefined;
  /** `true`: kept alive until released. `false`: ends after one ttl. `"thread"`: kept alive from a worker thread. @default true */
  readonly renew?: boolean | "thread" | undefined;
  /** Renewal stops at this age, so that a hung holder cannot keep the lock. @default none */
  readonly maxHold?: Duration | undefined;
  /** Released earlier, the lock still stays taken until this age. @default none */
  readonly minHold?: Duration | undefined;
  /** After an unclean end the lock stays taken for this long. @default none */
  readonly lockDelay?: Duration | undefined;
  /** The process keeps a released lock for this long, for its next claim, or until another process waits for it: see docs/concepts.md. @default none */
  readonly linger?: Duration | undefined;
  /** Shown to those who inspect the lock: reason, version, trace. @default {} */
  readonly meta?: Meta | undefined;
}

/** Options of run() and acquire(). */
export interface AcquireOptions extends LockOptions {
  /** How long to wait in the queue. `Infinity` is allowed, 0 tries once. @default "10s" */
  readonly wait?: Duration | undefined;
  /** Stops the waiting; once acquired, it no longer matters. */
  readonly signal?: AbortSignal | undefined;
  /**
   * What to do when it waits in a deadlock. `"report"`: tell subscribers, and say it in the {@link LockTimeoutError}. `"reject"`: that,
   * and the one that was queued last rejects with {@link LockDeadlockError}. See docs/deadlocks.md. @default "report"
   */
  readonly deadlock?: "report" | "reject" | undefined;
}

/** How a value is written for others, and read again. */
export interface OnceCodec<T> {
  encode(value: T): string;
  decode(text: string): T;
}

export interface OnceOptions<T> extends Omit<AcquireOptions, "mode" | "limit" | "linger"> {
  /** For how long the value is kept, by the store's clock: 1 s to a year. */
  readonly keep: Duration;
  /** For how long a failure is kept: name, message and code, and all get that error. @default not at all */
  readonly keepFailure?: Duration | undefined;
  /** At most 64 KiB of text. What it cannot write is done without a value for others. @default JSON */
  readonly codec?: OnceCodec<T> | undefined;
}

export interface OnceResult<T> {
  readonly value: T;
  /** True: another call did the work. */
  readonly replayed: boolean;
  /** Of the lease under which it was done. */
  readonly fence: bigint;
  /** When it was done, by this machine's clock. */
  readonly at: Date;
}

export interface OutcomeOptions<T> extends QueryOptions {
  /** That of the once(). @default JSON */
  readonly codec?: OnceCodec<T> | undefined;
}

/** What became of the work of a once(). `none`: nothing is kept, and the lock is free. `running`: the lock is held, or kept by a `minHold`. */
export type OutcomeState<T> =
  | { readonly state: "none" }
  | { readonly state: "running"; readonly fence: bigint; readonly holder: string; readonly heldMs: number }
  | (KeptState & { readonly state: "done"; readonly value: T })
  /** `error`: what the work failed with, or why its value cannot be had: a LockOutcomeError. */
  | (KeptState & { readonly state: "failed"; readonly error: Error });

interface KeptState {
  readonly fence: bigint;
  readonly holder: string;
  /** When it was done, by this machine's clock. */
  readonly at: Date;
  /** For how long it is still kept. */
  readonly remainingMs: number;
}

export interface ForgetOptions {
  /** The fence of the outcome, so that a newer one cannot be hit. */
  readonly fence: bigint;
}

export interface TryOptions extends LockOptions {
  /** Gives up asking; once acquired, it no longer matters. */
  readonly signal?: AbortSignal | undefined;
  /**
   * How long to wait for the store: for all of its answers, where there are several locks. @default 5 s for each answer, or the
   * ttl where that is shorter and no thread has to start
   */
  readonly timeout?: Duration | undefined;
}

export type TryRunResult<T> =
  | { readonly ran: true; readonly value: T }
  /** The lock was not free: who held it, as far as the store said, or for how long a quarantine lasts. */
  | { readonly ran: false; readonly heldBy: readonly Holding[]; readonly quarantineMs?: number | undefined };

export interface QueryOptions {
  /** Gives up asking. */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait for the store's answer. `Infinity` is allowed. @default "10s" */
  readonly timeout?: Duration | undefined;
}

/**
 * A lease, as query() and inspect() show it. Of this process's own leases the counts are exact; of others they are what their
 * process last wrote into the store: at most a third of a ttl old, and as it was granted where no renewal from its main thread writes it.
 */
export interface LockHolder extends Omit<Holding, "local"> {
  /** When it was granted: milliseconds since 1970, by this machine's clock. */
  readonly sinceMs: number;
  /** How many functions or leases of its process share it. */
  readonly processHolders: number;
  /** How many of its process wait behind it, besides those in `pending`. */
  readonly processWaiters: number;
  /** True: no function or lease uses it now. It is known of this process's own only; of others, `lingerMs` says that it may be so. */
  readonly lingering?: true | undefined;
}

/** One that waits. Of this process each is listed; of another one, those that are in the store's queue. */
export interface LockWaiter extends Omit<Waiting, "local" | "order"> {
  /** Since when it waits: milliseconds since 1970, by this machine's clock. */
  readonly sinceMs: number;
  /** How many of its process wait behind it, besides those in `pending`. */
  readonly processWaiters: number;
}

/** What the store knew when it was asked. As JSON, fences are strings. */
export interface LocksSnapshot {
  readonly held: readonly LockHolder[];
  readonly pending: readonly LockWaiter[];
  readonly forced: readonly Forced[];
  toJSON(): unknown;
}

/** One lock. */
export interface LockSnapshot extends LocksSnapshot {
  readonly name: string;
  /** How many may hold it at once. Absent: it is neither held nor waited for. */
  readonly limit?: number | undefined;
  /** The store may have lost leases, and grants nothing for this long. */
  readonly quarantineMs?: number | undefined;
  /** What once() keeps of the lock's work. The value itself is not shown. */
  readonly outcome?: OutcomeFacts | undefined;
}

export interface OutcomeFacts {
  /** Of the lease under which the work was done. */
  readonly fence: bigint;
  readonly holder: string;
  readonly ageMs: number;
  /** For how long it is still kept. */
  readonly remainingMs: number;
  readonly bytes: number;
}

export interface ElectOptions extends Omit<LockOptions, "linger"> {
  /** Ends the candidacy. A leader steps down after its work has settled. */
  readonly signal?: AbortSignal | undefined;
}

/** Defaults for all calls of these locks, and the name that others see. */
export interface LocksOptions extends AcquireOptions {
  /** Who holds, for people. @default "<hostname>:<pid>" */
  readonly holder?: string | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
  /** For tests. @default the system's randomness */
  readonly chance?: Chance | undefined;
}

/** `released`: it was ours until then. `lost`: it had ended before. `unknown`: the store could not be asked in time. */
export type ReleaseResult = "released" | "lost" | "unknown";

/** A lease over several locks, all or none: held while all of them are. */
export interface GroupLease extends AsyncDisposable {
  /** The lock's name; of several locks, all names joined by ", ". */
  readonly name: string;
  /** One fence per name. */
  readonly fences: ReadonlyMap<string, bigint>;
  /** The fence of one of its locks: each guard wants its own. Throws a `TypeError` for another name. */
  fenceOf(name: string): bigint;
  /** Aborts, with a {@link LockLostError} as reason, before the store gives the lock to anyone else. */
  readonly signal: AbortSignal;
  /**
   * A hint: aborts once when a claim of another process, or a request of this one that does not fit beside it, queues for the lock. So a
   * polite holder can finish early. It may come late, or, where a store cannot tell, only for this process's own requests.
   */
  readonly wanted: AbortSignal;
  /** Milliseconds of trust left, by the monotonic clock; 0 when the lease has ended or is in doubt. */
  remaining(): number;
  /** Throws {@link LockLostError} unless the lease is surely held now. Right even when timers are late. */
  assertHeld(): void;
  /**
   * Renews it now, and resolves to {@link remaining} when the store has said yes; asks again until trust ends. With a `ttl`, the
   * lease and its renewals are for that one from now on: a shorter one counts from the next renewal, so that nothing is taken away.
   * Rejects with {@link LockLostError} when the lease is released or lost. It does not move the end of `maxHold`.
   */
  extend(ttl?: Duration): Promise<number>;
  /** Ends the lease. Safe to call twice. Rejects only if a custom backend gives an invalid answer. */
  release(): Promise<ReleaseResult>;
  /** Its name and fences, the fences as strings. */
  toJSON(): unknown;
}

/** A lease over one lock. */
export interface Lease extends GroupLease {
  /** Give it to whatever you write to, and let that refuse smaller ones. */
  readonly fence: bigint;
}

/** One name, or several: all or none. */
export type LockNames = string | readonly string[];

/** What one gets for a name, or for several. */
export type LeaseOf<N extends LockNames> = N extends string ? Lease : GroupLease;

/** What the function given to run() and its like gets: a lease that is released for it. */
export type Work<T, N extends LockNames = string> = (lease: LeaseOf<N>) => T | Promise<T>;

export interface CloseOptions {
  /** How long to wait for running functions after their signals were aborted. @default Infinity */
  readonly grace?: Duration | undefined;
  /** After `grace`, release even under a function that still runs. @default false */
  readonly force?: boolean | undefined;
}

export interface CloseOnSignalsOptions {
  /** @default ["SIGTERM", "SIGINT"] */
  readonly signals?: readonly NodeJS.Signals[] | undefined;
  /** How long to wait for running functions after their signals were aborted. @default "10s" */
  readonly grace?: Duration | undefined;
}

export interface ForceReleaseOptions {
  /** The fence of the lease to end, so that its successor cannot be hit. */
  readonly fence: bigint;
  /** Kept in the store for those who ask. */
  readonly reason: string;
  /** Who does it, for people: kept with the reason. @default the `holder` of these locks */
  readonly by?: string | undefined;
}

/** The locks of one store. A process opens them once, by `connect()` or `createLocks()`, and closes them at its end. */
export interface Locks extends AsyncDisposable {
  /** Runs `work` while holding the lock. Rejects with {@link LockTimeoutError}, with {@link LockLostError}, or as `work` does. */
  run<T, N extends LockNames = string>(name: N, work: Work<T, N>): Promise<T>;
  run<T, N extends LockNames = string>(name: N, options: AcquireOptions, work: Work<T, N>): Promise<T>;
  /** Runs `work` if the lock is free now, and says who holds it if not. Rejects as run() does, but not because the lock is busy. */
  tryRun<T, N extends LockNames = string>(name: N, work: Work<T, N>): Promise<TryRunResult<T>>;
  tryRun<T, N extends LockNames = string>(name: N, options: TryOptions, work: Work<T, N>): Promise<TryRunResult<T>>;
  /**
   * Of all callers everywhere one runs `work`; the others wait, and get its value. For as long as `keep` says all get that value
   * without running. A failure is not kept, unless `keepFailure` says so: then the next caller runs. A crash between the end of the work
   * and its release repeats the work: close that window with a guard, or with an idempotency key. Where the work is done, and the store has
   * not said that its value is kept, it rejects with {@link LockLostError}; `result` is the value.
   */
  once<T>(name: string, options: OnceOptions<T>, work: Work<T>): Promise<OnceResult<T>>;
  /** What became of the work of a once(): none, running, done or failed. Old when it arrives. */
  outcome<T = unknown>(name: string, options?: OutcomeOptions<T>): Promise<OutcomeState<T>>;
  /** Removes the kept outcome with that fence, so that the next once() runs. Never ends a lease. `false`: there is none. */
  forget(name: string, options: ForgetOptions): Promise<boolean>;
  /** Waits for the lock. Rejects with {@link LockTimeoutError}, or with `signal.reason`. */
  acquire<N extends LockNames = string>(name: N, options?: AcquireOptions): Promise<LeaseOf<N>>;
  /** Takes the lock if it is free now, else resolves to `null`. */
  tryAcquire<N extends LockNames = string>(name: N, options?: TryOptions): Promise<LeaseOf<N> | null>;
  /** Campaigns for leadership, and runs `work` while elected. Resolves when `signal` aborts or the locks are closed. */
  elect(name: string, work: Work<unknown>): Promise<void>;
  elect(name: string, options: ElectOptions, work: Work<unknown>): Promise<void>;
  /** Holders and waiters of all locks whose name starts with `prefix`. */
  query(prefix?: string, options?: QueryOptions): Promise<LocksSnapshot>;
  /** One lock, by its exact name: holders, waiters in order, leases that were ended by force, and what once() keeps. */
  inspect(name: string, options?: QueryOptions): Promise<LockSnapshot>;
  /**
   * Whether anything is in the way of a claim: a lease of any process, what is left of its `minHold` or `lockDelay`, or a store in
   * quarantine. Old when it arrives: for people and dashboards. To take a free lock, use tryAcquire().
   */
  isHeld(name: string, options?: QueryOptions): Promise<boolean>;
  /** Which locks were waited for most in this process, for whom, and how long they were held. Counted from the first call on. */
  contention(options?: ContentionOptions): Promise<Contention>;
  /** Ends a lease, of any process. `false`: there is no lease with that fence. Rejects when the store has not answered for 10 s. */
  forceRelease(name: string, options: ForceReleaseOptions): Promise<boolean>;
  /**
   * Stops acquiring, aborts the signals of held leases, waits for the running functions, then releases. Settles when nothing
   * of ours is left in the store; rejects with {@link LockBackendError}, in bounded time, saying what may be.
   * Do not await it inside the function of a `run()`: it waits for that function.
   */
  close(options?: CloseOptions): Promise<void>;
}
