/** Says what a backend did wrong, for whoever wrote it. Loaded when one has: nobody else needs the words. */
import type { Granted } from "./backend.ts";
import { got } from "./show-value.ts";
import { LockBackendError, quote } from "./errors.ts";

export function mistakenGrant(backend: string, lock: string, { fence, run, ttlMs, fromMs }: Granted): LockBackendError {
  const given = Object.entries({ fence, run, ttlMs, fromMs }).filter(([, value]) => value !== undefined);
  const message =
    `Lock ${quote(lock)} was not acquired: the ${backend} backend granted it with ${given.map(([field, value]) => `${field} ${show(value)}`).join(", ")}. ` +
    "Expected `fence` to be a bigint from 1 to 2^63 - 1, `run` a whole number from 1, `ttlMs` a number above 0 and `fromMs` an instant of the past " +
    "by the monotonic clock. That is a mistake in the backend.";
  return new LockBackendError(backend, lock, message, { fatal: true });
}

/** So that 5 and 5n are told apart. */
function show(value: unknown): string {
  return typeof value === "bigint" ? `${value}n` : got(value);
}
