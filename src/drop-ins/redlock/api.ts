/** The types of redlock 5 that are not classes, under their names there. */
import type { Locks } from "../../core/api.ts";
import type { AnyClient } from "../rolling/run-script.ts";

/** An ioredis client, standalone or Cluster; one of node-redis too. */
export type Client = AnyClient;

export type ClientExecutionResult =
  | { client: Client; vote: "for"; value: number }
  | { client: Client; vote: "against"; error: Error };

/** How the clients voted in one attempt. */
export type ExecutionStats = {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: Set<Client>;
  readonly votesAgainst: Map<Client, Error>;
};

export type ExecutionResult = {
  attempts: ReadonlyArray<Promise<ExecutionStats>>;
};

export interface Settings {
  /** Which part of a lock's time is kept back because clocks run differently. @default 0.01 */
  readonly driftFactor: number;
  /** How many attempts follow the first one; -1: as many as it takes. @default 10 */
  readonly retryCount: number;
  /** Between two attempts, ms. @default 200 */
  readonly retryDelay: number;
  /** By how much that is longer or shorter at most, by chance, ms. @default 100 */
  readonly retryJitter: number;
  /** `using()` extends its lock when it has so many ms left. @default 500 */
  readonly automaticExtensionThreshold: number;
}

export const DEFAULTS: Settings = Object.freeze({
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
});

/** The second argument of `new Redlock()`. */
export interface RedlockOptions extends Partial<Settings> {
  /** Take the locks here, with all that Holdfast has: the clean layout. @default the keys of redlock, shared with its pods */
  readonly locks?: Locks | undefined;
}

/** The third argument of `new Redlock()`: what is to be sent to the servers instead of our scripts. */
export interface CustomScripts {
  readonly acquireScript?: string | ((script: string) => string);
  readonly extendScript?: string | ((script: string) => string);
  readonly releaseScript?: string | ((script: string) => string);
}

export type RedlockAbortSignal = AbortSignal & {
  error?: Error;
};

/** Until when something that was taken counts. */
export interface Timed extends ExecutionResult {
  /** When the question was sent, by `performance.now()`: from then on its time counts. */
  readonly sentMs: number;
  /** The same by the wall clock: for `Lock.expiration`, which is only shown. */
  readonly fromMs: number;
  /** Aborts when it is lost, where that is known at once. */
  readonly signal?: AbortSignal | undefined;
}

/** What was taken. */
export interface Grant extends Timed {
  readonly value: string;
  readonly fences: ReadonlyMap<string, bigint>;
}

/** What a lock is to where it was taken. */
export interface Held {
  readonly resources: readonly string[];
  readonly value: string;
}

/** Where locks are taken: the keys of redlock, or Holdfast's own. Rejects with an ExecutionError. */
export interface Place {
  take(resources: readonly string[], durationMs: number, settings: Settings): Promise<Grant>;
  /** `untilMs`: until when the lock is trusted, by `performance.now()`. An answer after that is none. */
  extend(held: Held, durationMs: number, untilMs: number, settings: Settings): Promise<Timed>;
  /** `limitMs`: for how long it is tried at most. */
  release(held: Held, limitMs: number, settings: Settings): Promise<ExecutionResult>;
}
