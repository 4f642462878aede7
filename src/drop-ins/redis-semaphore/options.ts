/** The options of redis-semaphore 5, and what it does without them. */
import type { Locks } from "../../core/api.ts";

export interface TimeoutOptions {
  /** How long the lock outlives its last refresh, ms. Below 100 it is 100. @default 10000 */
  lockTimeout?: number | undefined;
  /** How long acquire() goes on trying, ms. @default 10000 */
  acquireTimeout?: number | undefined;
  /** How often acquire() tries at most. @default Infinity */
  acquireAttemptsLimit?: number | undefined;
  /** Between two tries, ms. @default 10 */
  retryInterval?: number | undefined;
  /** Between two refreshes, ms; 0: none. @default 0.8 of `lockTimeout` */
  refreshInterval?: number | undefined;
}

/** Which of the two layouts is used. */
export interface LayoutOptions {
  /** Take the lock here, with all that Holdfast has: the clean layout. @default the keys of redis-semaphore, shared with its pods */
  locks?: Locks | undefined;
}

export const defaultTimeoutOptions: {
  lockTimeout: number;
  acquireTimeout: number;
  acquireAttemptsLimit: number;
  retryInterval: number;
} = {
  lockTimeout: 10_000,
  acquireTimeout: 10_000,
  acquireAttemptsLimit: Number.POSITIVE_INFINITY,
  retryInterval: 10,
};

/** What a try needs to know. */
export interface AcquireOptions {
  identifier: string;
  lockTimeout: number;
  acquireTimeout: number;
  acquireAttemptsLimit: number;
  retryInterval: number;
}
