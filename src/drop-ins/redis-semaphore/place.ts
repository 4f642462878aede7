/** Where a lock is taken: in the keys of redis-semaphore on one server or on several, or as a lease of Holdfast. */
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { driftMs } from "../../contract/answer.ts";
import type { AcquireOptions } from "./options.ts";

/** What was taken. */
export interface Grant {
  /** When the question was sent: from then on its time counts. By `performance.now()`. */
  readonly sentMs: number;
  readonly fence: bigint | undefined;
  /** Aborts when it is lost, where that is known at once. */
  readonly signal?: AbortSignal | undefined;
}

/** Of one call of acquire(). */
export interface Wish {
  readonly signal: AbortSignal | undefined;
  /** Only this call can have put its identifier there: it is random, and this object neither holds the lock nor asks for it a second time. */
  readonly isOurs: () => boolean;
}

export interface Place {
  /** `undefined`: it could not be had in time. */
  acquire(options: AcquireOptions, wish: Wish): Promise<Grant | undefined>;
  /** False: it is surely lost. Rejects where that is not known. */
  refresh(): Promise<boolean>;
  release(): Promise<void>;
}

/** A majority of the servers neither kept the lock nor said that they had lost it. */
export class UnknownError extends Error {
  constructor() {
    super("No majority of the servers answered.");
  }
}

/** How long a lock is believed, from when it was asked for: 1 % less and 2 ms, because clocks run differently. */
export function trustMs(ttlMs: number): number {
  return ttlMs - driftMs(ttlMs);
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
