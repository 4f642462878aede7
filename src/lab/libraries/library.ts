/** What the lab needs of a lock library, so one play and one judge work for all. */

export interface Terms {
  readonly ttlMs: number;
  /** 0: one try. */
  readonly waitMs: number;
  /** Options that only Holdfast has; others ignore them. */
  readonly lockDelayMs?: number | undefined;
  readonly maxHoldMs?: number | undefined;
  readonly renew?: boolean | "thread" | undefined;
  readonly mode?: "exclusive" | "shared" | undefined;
}

export interface Hold {
  /** `undefined`: this library has none. */
  readonly fence: bigint | undefined;
  /**
   * The machine's monotonic instant until which the library says that the lock is held, whatever happens.
   * Infinity: it has no such instant, and believes until its library reports a loss.
   */
  trustedUntilMs(): number;
  /** Calls back when the library reports that the lock is lost. */
  onLost(tell: (reason: string) => void): void;
  /** What the library says when asked now. `undefined`: it has no such question. */
  isHeld(): boolean | undefined;
  /** Resolves to the library's own word for what happened. */
  release(): Promise<string>;
}

export interface LockLibrary {
  /** `undefined`: not acquired. */
  acquire(name: string, terms: Terms): Promise<Hold | undefined>;
  close(): Promise<void>;
}

/** Where a client finds the store: through its own network. */
export interface Link {
  readonly url: string;
  /** The ports behind `url`, for libraries that do not take URLs. */
  readonly ports: readonly number[];
}

export type Library = "holdfast" | "redlock" | "redis-semaphore" | "redis-semaphore-quorum" | "verrou";
