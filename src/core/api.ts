/** What a user sees: locks, leases and options, as types. The work is done next door. */
import type { Meta, Mode, Snapshot } from "../contract/backend.ts";
import type { Chance } from "../contract/random.ts";
import type { Clock } from "../contract/clock.ts";
import type { Duration } from "../contract/duration.ts";

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
  /** Shown to those who inspect the lock: reason, version, trace. @default {} */
  readonly meta?: Meta | undefined;
}

export interface AcquireOptions extends LockOptions {
  /** How long to wait in the queue. `Infinity` is allowed, 0 tries once. @default "10s" */
  readonly wait?: Duration | undefined;
  /** Stops the waiting; once acquired, it no longer matters. */
  readonly signal?: AbortSignal | undefined;
}

/** How a value is written for others, and read again. */
export interface OnceCodec<T> {
  encode(value: T): string;
  decode(text: string): T;
}

export interface OnceOptions<T> extends Omit<AcquireOptions, "mode" | "limit"> {
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

export interface TryOptions extends LockOptions {
  /** Gives up asking; once acquired, it no longer matters. */
  readonly signal?: AbortSignal | undefined;
  /**
   * How long to wait for the store: for all of its answers, where there are several locks. @default 5 s for each answer, or the
   * ttl where that is shorter and no thread has to start
   */
  readonly timeout?: Duration | undefined;
}

export interface QueryOptions {
  /** Gives up asking. */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait for the store's answer. `Infinity` is allowed. @default "10s" */
  readonly timeout?: Duration | undefined;
}

export interface ElectOptions extends LockOptions {
  /** Ends the candidacy. A leader steps down after its work has settled. */
  readonly signal?: AbortSignal | undefined;
}

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

export interface Lease extends AsyncDisposable {
  /** The lock's name; of several locks, all names joined by ", ". */
  readonly name: string;
  /** Give it to whatever you write to, and let that refuse smaller ones. Of several locks: see `fences`. */
  readonly fence: bigint;
  /** One fence per name, for leases over several locks. */
  readonly fences: ReadonlyMap<string, bigint>;
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
  /** Ends the lease. Safe to call twice. Rejects only if a custom backend gives an invalid answer. */
  release(): Promise<ReleaseResult>;
}

/** What the function given to run() and elect() gets: a lease that is released for it. */
export type Work<T> = (lease: Lease) => T | Promise<T>;

export interface CloseOptions {
  /** How long to wait for running functions after their signals were aborted. @default Infinity */
  readonly grace?: Duration | undefined;
  /** After `grace`, release even under a function that still runs. @default false */
  readonly force?: boolean | undefined;
}

export interface ForceReleaseOptions {
  /** The fence of the lease to end, so that its successor cannot be hit. */
  readonly fence: bigint;
  /** Kept in the store for those who ask. */
  readonly reason: string;
}

export interface Locks extends AsyncDisposable {
  /** Runs `work` while holding the lock. Rejects with {@link LockTimeoutError}, with {@link LockLostError}, or as `work` does. */
  run<T>(name: string | readonly string[], work: Work<T>): Promise<T>;
  run<T>(name: string | readonly string[], options: AcquireOptions, work: Work<T>): Promise<T>;
  /**
   * Of all callers everywhere one runs `work`; the others wait, and get its value. For as long as `keep` says all get that value
   * without running. A failure is not kept, unless `keepFailure` says so: then the next caller runs. A crash between the end of the work
   * and its release repeats the work: close that window with a guard, or with an idempotency key.
   */
  once<T>(name: string, options: OnceOptions<T>, work: Work<T>): Promise<OnceResult<T>>;
  /** Waits for the lock. Rejects with {@link LockTimeoutError}, or with `signal.reason`. */
  acquire(name: string | readonly string[], options?: AcquireOptions): Promise<Lease>;
  /** Takes the lock if it is free now, else resolves to `null`. */
  tryAcquire(name: string | readonly string[], options?: TryOptions): Promise<Lease | null>;
  /** Campaigns for leadership, and runs `work` while elected. Resolves when `signal` aborts or the locks are closed. */
  elect(name: string, work: Work<unknown>, options?: ElectOptions): Promise<void>;
  /** Holders and waiters of all locks whose name starts with `prefix`. */
  query(prefix?: string, options?: QueryOptions): Promise<Snapshot>;
  /** Ends a lease, of any process. `false`: there is no lease with that fence. Rejects when the store has not answered for 10 s. */
  forceRelease(name: string, options: ForceReleaseOptions): Promise<boolean>;
  /**
   * Stops acquiring, aborts the signals of held leases, waits for the running functions, then releases. Settles when nothing
   * of ours is left in the store; rejects with {@link LockBackendError}, in bounded time, saying what may be.
   * Do not await it inside the function of a `run()`: it waits for that function.
   */
  close(options?: CloseOptions): Promise<void>;
}
