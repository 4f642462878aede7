/** The two errors of redlock 5, with its words: programs compare them. */
import type { ExecutionStats } from "./api.ts";

/** Another lock is in the way on this server. */
export class ResourceLockedError extends Error {
  override readonly message: string;
  override readonly name: string = "ResourceLockedError";

  constructor(message: string) {
    super();
    this.message = message;
  }
}

/** No majority of the servers did what was asked, in any attempt. */
export class ExecutionError extends Error {
  override readonly message: string;
  override readonly name: string = "ExecutionError";
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;

  constructor(message: string, attempts: ReadonlyArray<Promise<ExecutionStats>>) {
    super();
    this.message = message;
    this.attempts = attempts;
  }
}

const NO_QUORUM = "The operation was unable to achieve a quorum during its retry window.";
const EXPIRED = "Cannot extend an already-expired lock.";

const refusals = new WeakSet<Error>();

/** `isRefused`: a majority said no, and would say it again. */
export function noQuorum(attempts: ReadonlyArray<Promise<ExecutionStats>>, isRefused = false): ExecutionError {
  const error = new ExecutionError(NO_QUORUM, attempts);
  if (isRefused) refusals.add(error);
  return error;
}

/** True: what was asked for is surely gone, and not only out of reach. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Error && refusals.has(error);
}

export function alreadyExpired(): ExecutionError {
  return new ExecutionError(EXPIRED, []);
}

export function appliedTo(count: number, of: number): ResourceLockedError {
  return new ResourceLockedError(`The operation was applied to: ${count} of the ${of} requested resources.`);
}
