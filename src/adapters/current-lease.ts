/** The lease under which the code that asks is running: for methods that get no lease as an argument, because a decorator took the lock. */
import { AsyncLocalStorage } from "node:async_hooks";
import { ArgumentError } from "../contract/argument-error.ts";
import type { Lease } from "../core/api.ts";

const leases = new AsyncLocalStorage<Lease>();

/** Runs `work` such that {@link currentLease} is `lease` in it, and in all that it starts. */
export function withLease<T>(lease: Lease, work: () => T): T {
  return leases.run(lease, work);
}

/**
 * The lease of the innermost decorated method around the code that asks. Throws where there is none. Code that a method has started, and that
 * outlives it, gets a lease that is over: its `assertHeld()` throws.
 */
export function currentLease(): Lease {
  const lease = leases.getStore();
  if (lease !== undefined) return lease;
  throw new ArgumentError(
    "Expected currentLease() to be called while a method runs that has a lock, and none does here",
  );
}
