/** How a guard refuses: one error, one event. */
import { LockError, quote } from "../contract/errors.ts";
import { fenceRejectedChannel, type FenceRejectedEvent } from "../contract/events.ts";
import { helpFor } from "../contract/help.ts";
import type { Fenced } from "./fenced.ts";
import { FENCE_HEADER, writeFenceHeader } from "./header.ts";

/** A guard refused a write: a later lease on the same lock has been here. Nothing was written. */
export class FenceRejectedError extends LockError {
  readonly code = "ERR_FENCE_REJECTED" as const;
  readonly help: string = helpFor(this.code);
  /** The greatest fence that the guard has seen. */
  readonly current: bigint;
  /** The fence that came with the write. */
  readonly offered: bigint;

  constructor(lock: string, current: bigint, offered: bigint, options?: ErrorOptions) {
    super(
      lock,
      `Fence ${offered} of lock ${quote(lock)} is too old: fence ${current} has already been here. ` +
        `The lease was lost and another holder has the lock; nothing was written. Stop the work and start again with a new lease.`,
      options,
    );
    this.current = current;
    this.offered = offered;
  }

  /** Thrown out of a Fastify or Express handler, the error is answered with this status … */
  get statusCode(): number {
    return 412;
  }

  /** … and these headers, so `fencedFetch` at the other end throws the same error. */
  get headers(): Record<string, string> {
    return { [FENCE_HEADER]: writeFenceHeader([{ name: this.lock, fence: this.current }]) };
  }
}

/** Makes the error for a refused write, and publishes the event. */
export function reject(guard: string, { name, fence }: Fenced, current: bigint, cause?: unknown): FenceRejectedError {
  if (fenceRejectedChannel.hasSubscribers) {
    fenceRejectedChannel.publish({ guard, name, current, offered: fence } satisfies FenceRejectedEvent);
  }
  return new FenceRejectedError(name, current, fence, cause === undefined ? undefined : { cause });
}
