/** Where a lock is taken: in the keys of redis-semaphore on one server or on several, or as a lease of Holdfast. */
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { AcquireOptions } from "./options.ts";

/** What was taken. */
export interface Grant {
  /** When the question was sent: from then on its time counts. By `performance.now()`. */
  readonly sentMs: number;
  readonly fence: bigint | undefined;
  /** Aborts when it is lost, where that is known at once. */
  readonly signal?: AbortSignal | undefined;
}

export interface Place {
  /** `undefined`: it could not be had in time. */
  acquire(options: AcquireOptions, signal: AbortSignal | undefined): Promise<Grant | undefined>;
  /** False: it is lost. */
  refresh(): Promise<boolean>;
  release(): Promise<void>;
}

/** Tries until it succeeds, or the options say that it is enough. Rejects with the signal's reason, or as `attempt` does. */
export async function tryRepeatedly<T>(
  { acquireTimeout, acquireAttemptsLimit, retryInterval }: AcquireOptions,
  signal: AbortSignal | undefined,
  attempt: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const endMs = performance.now() + acquireTimeout;
  for (let tries = 1; tries <= acquireAttemptsLimit && performance.now() < endMs; tries++) {
    signal?.throwIfAborted();
    const taken = await attempt();
    if (taken !== undefined) return taken;
    if (tries < acquireAttemptsLimit) await pause(retryInterval, signal);
  }
  return undefined;
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(ms, undefined, { signal }).catch((error: unknown) => {
    // What the caller gave, and not that a timer was stopped.
    throw signal?.aborted === true ? signal.reason : error;
  });
}
