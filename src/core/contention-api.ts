/** What `locks.contention()` shows, as types. All of it can be written as JSON. */

/** Options of contention(). */
export interface ContentionOptions {
  /** True: what is shown is forgotten, and counted again from here on. @default false */
  readonly reset?: boolean | undefined;
  /** True: nothing is counted from here on, until the next call. @default false */
  readonly end?: boolean | undefined;
}

/** Who waited for whom in this process, since the first call. */
export interface Contention {
  /** Since when it is counted: milliseconds since 1970, by this machine's clock. */
  readonly sinceMs: number;
  /** For how long, by the monotonic clock. */
  readonly forMs: number;
  /** The greatest total wait first. At most 512 locks: see `others`. */
  readonly locks: readonly LockContention[];
  /** What was counted of locks that are not listed: those with the least wait give way to others. */
  readonly others: OtherContention;
}

/** Calls that are over, whatever came of them, and of these: */
export interface CallCounts {
  readonly acquires: number;
  /** Those that found the lock taken, or others before them. */
  readonly contended: number;
  /** Those whose `wait` was over, with `wait: 0` also where the lock was not free. */
  readonly timeouts: number;
  /** Tries that found the lock taken. */
  readonly busy: number;
  readonly aborted: number;
  /** Those that failed in another way: the store could not be asked, or the locks were closed. */
  readonly errors: number;
  /** Leases that ended before they were released. */
  readonly lost: number;
  /** What all who had to wait have waited, also those that still do. */
  readonly waitMs: number;
}

export interface OtherContention extends CallCounts {
  /** How many locks have given way. One that came again and gave way again counts twice. */
  readonly locks: number;
}

export interface LockContention extends CallCounts {
  readonly name: string;
  /** Since when it is counted: later than the whole where the lock came later, or had given way to others. */
  readonly sinceMs: number;
  /** How many wait now. */
  readonly waiting: number;
  /** Of those that had to wait and do no longer, whatever came of them. */
  readonly wait: Spread;
  /** How long leases were held: until the release began, or until they were lost. */
  readonly hold: Spread;
  /** From the end of a lease of this process to the beginning of the next, where that one waited already. */
  readonly handOver: {
    /** Handed on without asking the store. */
    readonly memory: Spread;
    /** Given back, and granted again, as far as is known to none in between. */
    readonly store: Spread;
  };
  /** For whom `waitMs` was waited, the most first. At most 16: see `otherHolders`. */
  readonly holders: readonly WaitedFor[];
  readonly otherHolders: Omit<WaitedFor, "holder" | "reason">;
  /** The part of `waitMs` for which no holder was known. */
  readonly unknownMs: number;
}

/** A holder for whom others waited. */
export interface WaitedFor {
  readonly holder: string;
  /** Its `meta.reason`. */
  readonly reason?: string | undefined;
  readonly waitMs: number;
  /** How many waits that was, or parts of such. */
  readonly waits: number;
}

/** Percentiles by the nearest rank: exact for up to 32 values, then at most 6.25 % off. `maxMs` is exact. All 0 where there are none. */
export interface Spread {
  readonly count: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}
