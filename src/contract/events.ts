/**
 * Everything worth knowing from outside, on `diagnostics_channel`. Logs, metrics and traces subscribe here.
 * Nothing is built and nothing is called while there is no listener.
 */
import { type Channel, channel, type TracingChannel, tracingChannel } from "node:diagnostics_channel";
import type { Holding, Mode } from "./backend.ts";
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
  error?: unknown;
}

/** The message of `tracing:holdfast:hold:*`: `start` when the lease begins, `end` when it is over, `error` before that when it was lost. */
export interface HoldEvent {
  readonly backend: string;
  readonly name: string;
  readonly mode: Mode;
  readonly fence: bigint;
  readonly ttlMs: number;
  /** True: it was handed on in memory by another caller of this process, without asking the store. */
  readonly localHandOver: boolean;
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

export const acquireChannel: TracingChannel<object, AcquireEvent> = tracingChannel("holdfast:acquire");
export const holdChannel: TracingChannel<object, HoldEvent> = tracingChannel("holdfast:hold");
export const lostChannel: Channel = channel("holdfast:lost");
export const renewChannel: Channel = channel("holdfast:renew");
export const forceReleaseChannel: Channel = channel("holdfast:force-release");
export const fenceRejectedChannel: Channel = channel("holdfast:fence-rejected");
