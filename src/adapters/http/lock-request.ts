/** One request under one lock, independent of the framework: which options there are, and what a request gets that comes too late. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import type { Lease, LockOptions, Locks } from "../../core/api.ts";
import { checkOptions } from "../../core/options.ts";
import { type Answer, busy, hasCode, lost, toSeconds, unavailable } from "./answer.ts";

export interface LockedOptions extends LockOptions {
  /** How long a request waits for its turn. @default not at all: a busy lock is answered at once */
  readonly wait?: Duration | undefined;
  /** The answer of a busy lock: 409 Conflict or 423 Locked. @default 409 */
  readonly status?: 409 | 423 | undefined;
  /** What `Retry-After` says, in whole seconds. @default "1s" */
  readonly retryAfter?: Duration | undefined;
  /**
   * Express, and handlers of Fastify that return nothing: how long one may go on after its connection was closed, without ending its response,
   * before the lock is taken away from it. `Infinity` is allowed. @default "1m"
   */
  readonly grace?: Duration | undefined;
}

export interface CheckedLocked {
  readonly lock: LockOptions;
  readonly wait: Duration | undefined;
  readonly status: number;
  readonly retrySeconds: number;
  readonly graceMs: number;
}

export type Turn<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly lost: false; readonly answer: Answer }
  /** It ran, and its value must not be taken for a success. */
  | { readonly ran: false; readonly lost: true; readonly answer: Answer; readonly value: T };

export function checkLocked(locks: Locks, key: unknown, options: LockedOptions): CheckedLocked {
  checkLocks(locks);
  if (typeof key !== "function") {
    throw new ArgumentError(`Expected a function that names the lock of a request, got ${got(key)}`);
  }
  const { wait, status = 409, retryAfter, grace, ...lock } = options;
  if (status !== 409 && status !== 423)
    throw new ArgumentError(`Expected \`status\` to be 409 or 423, got ${got(status)}`);
  if (wait !== undefined) toMs(wait, "wait", { minMs: 0, maxMs: Infinity });
  checkLockOptions(lock, ["signal"]);
  return { lock, wait, status, retrySeconds: toSeconds(retryAfter), graceMs: toGraceMs(grace) };
}

/** What is wrong for every request is an error where the route is declared. `others`: known ones, which have no meaning here. */
export function checkLockOptions(lock: LockOptions, others: readonly string[]): void {
  for (const option of others)
    if (option in lock) throw new ArgumentError(`Expected no \`${option}\` in the options of a request`);
  checkOptions(lock, {});
}

export function checkLocks(locks: Locks): void {
  if (typeof locks?.tryRun === "function" && typeof locks.once === "function") return;
  throw new ArgumentError(`Expected locks, as connect() or createLocks() make them, got ${got(locks)}`);
}

export function toGraceMs(grace: Duration | undefined): number {
  return toMs(grace ?? "1m", "grace", { minMs: 0, maxMs: Infinity });
}

/** Runs `work` under the lock. Rejects as `work` does, or where the store could not be asked. `gone` ends the waiting. */
export async function runLocked<T>(
  locks: Locks,
  name: string,
  { lock, wait, status, retrySeconds }: CheckedLocked,
  gone: AbortSignal | undefined,
  work: (lease: Lease) => Promise<T>,
): Promise<Turn<T>> {
  // An array would be a lease over several locks, which has no fence.
  if (typeof name !== "string")
    throw new ArgumentError(`Expected the name of a lock for this request, got ${got(name)}`);
  let began = false;
  let ended = false;
  const begin = async (lease: Lease): Promise<T> => {
    began = true;
    const value = await work(lease);
    ended = true;
    return value;
  };
  const refused = (quarantineMs?: number): Turn<T> => ({
    ran: false,
    lost: false,
    answer: busy(status, retrySeconds, quarantineMs),
  });
  try {
    if (wait !== undefined) return { ran: true, value: await locks.run(name, { ...lock, wait, signal: gone }, begin) };
    const turn = await locks.tryRun(name, { ...lock, signal: gone }, begin);
    return turn.ran ? turn : refused(turn.quarantineMs);
  } catch (error) {
    if (ended && hasCode(error, "ERR_LOCK_LOST")) {
      return {
        ran: false,
        lost: true,
        answer: lost(retrySeconds),
        value: (error as { readonly result?: T }).result as T,
      };
    }
    if (began) throw error;
    if (hasCode(error, "ERR_LOCK_TIMEOUT")) return refused((error as { readonly quarantineMs?: number }).quarantineMs);
    if (gone?.aborted === true && error === gone.reason) return refused();
    throw unavailable(error, retrySeconds);
  }
}

/** What was made of a request may be sent as a success only while its lease is held. */
export function isHeld(lease: Lease): boolean {
  try {
    lease.assertHeld();
    return true;
  } catch {
    return false;
  }
}

/**
 * Takes the lease away from a handler that may still work: as with any other loss, its signal aborts, and a guard refuses its fence. Where the
 * store cannot do that, the lease is only released.
 */
export async function takeAway(locks: Locks, { name, fence }: Lease): Promise<void> {
  const reason = "its connection was closed, and its handler did not end in time";
  await locks.forceRelease(name, { fence, reason }).catch(() => undefined);
}
