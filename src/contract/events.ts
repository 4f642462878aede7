/**
 * Everything worth knowing from outside, on `diagnostics_channel`. Logs, metrics and traces subscribe here.
 * Nothing is built and nothing is called while there is no listener.
 */
import { type Channel, channel, type TracingChannel, tracingChannel } from "node:diagnostics_channel";
import type { Holding, Meta, Mode } from "./backend.ts";
import type { Deadlock } from "./deadlock.ts";
import type { LossReason } from "./loss.ts";

/** The message of `tracing:holdfast:acquire:*`; filled in as the acquire goes on. */
export interface AcquireEvent {
  readonly backend: string;
  readonly name: string;
  readonly mode: Mode;
  /** `done`: another had done the work of a once(). */
  outcome?: "acquired" | "done" | "busy" | "timeout" | "aborted" | "error";
  /** Present once acquired. */
  fence?: bigint;
  waitedMs?: number;
  /** It was not free at once: others held it, or were first. */
  contended?: boolean;
  /** How often the store was asked for it. 0: it was handed on in memory. */
  attempts?: number;
  /** The first place that the store's queue gave it; 1 is next. */
  position?: number;
  /** Who was in the way first, as far as it was said. What the holder wrote into its `meta`, such as `traceparent`, is there. */
  heldBy?: readonly Holding[];
  /** A subscriber of its start may set it: it is added to the claim's `meta`, for others to read, where the caller has not used its fields. */
  meta?: Meta;
  error?: unknown;
}

/**
 * The message of `tracing:holdfast:hold:*`: `start` when the lease begins, `error` when it is lost, `end` when its user has released
 * it, which may be never.
 */
export interface HoldEvent {
  readonly backend: string;
  readonly name: string;
  readonly mode: Mode;
  readonly fence: bigint;
  readonly ttlMs: number;
  /** True: it was handed on in memory by another caller of this process, without asking the store. */
  readonly localHandOver: boolean;
  /** By the monotonic clock of its locks. One that was handed on begins there, not with the lease of the store. */
  readonly startedAtMs: number;
  /** Its acquire, where that had subscribers. */
  readonly acquired?: AcquireEvent | undefined;
  /** Until it was lost or released. */
  heldMs?: number;
  end?: "released" | "lost" | "unknown";
  error?: unknown;
}

/** The message of `holdfast:lost`. */
export interface LostEvent {
  readonly backend: string;
  readonly name: string;
  readonly fence: bigint;
  /** Why, in words. */
  readonly reason: string;
  /** Why, as data. */
  readonly loss: LossReason;
}

/** The message of `holdfast:renew`: one per batch. */
export interface RenewEvent {
  readonly backend: string;
  readonly asked: number;
  readonly renewed: number;
  readonly gone: number;
  readonly unknown: number;
  readonly tookMs: number;
  /** How long after the renewal was due its answer came, with all tries that failed before. */
  readonly delayMs: number;
  /** The shortest of the batch. A renewal is due after a third of it. */
  readonly ttlMs: number;
}

/** The message of `holdfast:force-release`. */
export interface ForceReleaseEvent {
  readonly backend: string;
  readonly name: string;
  readonly fence: bigint;
  readonly by: string;
  readonly reason: string;
  readonly done: boolean;
}

/** The message of `holdfast:fence-rejected`. */
export interface FenceRejectedEvent {
  /** Which guard: `postgres`, `redis`, `http`, `zookeeper`, `etcd`, `file`. */
  readonly guard: string;
  readonly name: string;
  readonly current: bigint;
  readonly offered: bigint;
}

/** The message of `holdfast:deadlock`: once for each that a waiter of this process is part of, and for each waiter that is rejected. */
export interface DeadlockEvent extends Deadlock {
  readonly backend: string;
  /** True: the waiter of this process is rejected to end it. */
  readonly rejects: boolean;
}

export const acquireChannel: TracingChannel<object, AcquireEvent> = traced("holdfast:acquire");
export const holdChannel: TracingChannel<object, HoldEvent> = traced("holdfast:hold");
export const lostChannel: Channel = channel("holdfast:lost");
export const renewChannel: Channel = channel("holdfast:renew");
export const forceReleaseChannel: Channel = channel("holdfast:force-release");
export const fenceRejectedChannel: Channel = channel("holdfast:fence-rejected");
export const deadlockChannel: Channel = channel("holdfast:deadlock");

/** Adds to an event. A subscriber may have frozen it: then that is missing for all of them, and no lock is the worse for it. */
export function fill<E extends object>(event: E, facts: Partial<E>): void {
  try {
    Object.assign(event, facts);
  } catch {
    // It stays as it is.
  }
}

/** Bun's do not say whether they have subscribers; their parts do. */
function traced<E extends object>(name: string): TracingChannel<object, E> {
  const made: TracingChannel<object, E> = tracingChannel(name);
  if (made.hasSubscribers !== undefined) return made;
  const parts = [made.start, made.end, made.asyncStart, made.asyncEnd, made.error];
  return Object.defineProperty(made, "hasSubscribers", { get: () => parts.some((part) => part.hasSubscribers) });
}
