/** Asks a store what is held there, and does not wait for one that does not answer. */
import type { Locks, LockSnapshot } from "../core/api.ts";
import type { Backend } from "../contract/backend.ts";
import { LockBackendError } from "../contract/errors.ts";
import type { Snapshot } from "./format-lock.ts";

/** A store that has not answered by then is away. */
export const ANSWER_MS = 5000;
/** Once it has answered, it may be away for this long: a fail-over takes its time. */
export const RIDE_OUT_MS = 30_000;

export interface Asked {
  readonly locks: Pick<Locks, "query" | "inspect">;
  readonly backend: Pick<Backend, "name">;
}

/** What the store says about the locks whose names start so. Rejects with a `LockBackendError` after five seconds, or with the signal's reason. */
export async function ask({ locks, backend }: Asked, prefix: string, stop?: AbortSignal): Promise<Snapshot> {
  return await patiently(backend.name, (signal) => locks.query(prefix, { signal, timeout: Infinity }), stop);
}

/** As {@link ask}, for one lock. */
export async function askOne({ locks, backend }: Asked, name: string): Promise<LockSnapshot> {
  return await patiently(backend.name, (signal) => locks.inspect(name, { signal, timeout: Infinity }));
}

/** Rejects when the store does not answer in time. */
export async function patiently<T>(
  backend: string,
  look: (signal: AbortSignal) => Promise<T>,
  stop?: AbortSignal,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(silence(backend, "what is held there")), ANSWER_MS);
  const signal = stop === undefined ? late.signal : AbortSignal.any([late.signal, stop]);
  try {
    return await look(signal);
  } finally {
    clearTimeout(timer);
  }
}

/** Follows a store that is asked repeatedly, and reports when it has been silent for too long. */
export class Silence {
  #answeredAtMs: number | undefined;
  readonly #startedAtMs: number = performance.now();

  answered(): void {
    this.#answeredAtMs = performance.now();
  }

  /** True: asking again does not help, or has not for long enough. */
  isOver(error: unknown): boolean {
    if (!(error instanceof LockBackendError) || error.fatal) return true;
    const sinceMs = performance.now() - (this.#answeredAtMs ?? this.#startedAtMs);
    return sinceMs >= (this.#answeredAtMs === undefined ? ANSWER_MS : RIDE_OUT_MS);
  }
}

/** The error of a store that did not answer in time. `unknown`: what cannot be known without its answer. */
export function silence(backend: string, unknown: string): LockBackendError {
  return new LockBackendError(
    backend,
    "",
    `The ${backend} store has not answered for ${ANSWER_MS / 1000} seconds, so it is unknown ${unknown}. Check that it runs and can be reached: \`holdfast doctor\`.`,
  );
}
