/** Says what a backend did wrong, for its author. Loaded when one has: the words are not needed otherwise. */
import type { Granted, Refused } from "./backend.ts";
import { got } from "./argument-error.ts";
import { LockBackendError, messageOf, quote } from "./errors.ts";

export function mistakenGrant(backend: string, lock: string, answer: Granted | Refused): LockBackendError {
  return mistake(
    backend,
    lock,
    `Lock ${quote(lock)} was not acquired: the ${backend} backend ${grantInWords(answer)}. ` +
      "Expected `fence` to be a bigint from 1 to 2^63 - 1, `run` a whole number from 1, `ttlMs` a number above 0 and `fromMs` an instant of the past " +
      "by the monotonic clock.",
  );
}

function grantInWords(answer: Granted | Refused): string {
  try {
    // Asked for only to see whether it can be read.
    void answer.granted;
    const { fence, run, ttlMs, fromMs } = answer as Granted;
    const given = Object.entries({ fence, run, ttlMs, fromMs }).filter(([, value]) => value !== undefined);
    return `granted it with ${given.map(([field, value]) => `${field} ${show(value)}`).join(", ")}`;
  } catch (cause) {
    return `answered with an object that cannot be read (${messageOf(cause)})`;
  }
}

export function mistakenRelease(backend: string, lock: string, answer: unknown): LockBackendError {
  return mistake(
    backend,
    lock,
    `Lock ${quote(lock)}: the ${backend} backend answered its release with ${show(answer)}, so that it is unknown what became of it: ` +
      'what is left in the store ends by itself after its ttl. Expected "held", "queued" or "absent": what the claim was when its release came.',
  );
}

export function mistakenForce(backend: string, lock: string, answer: unknown): LockBackendError {
  return mistake(
    backend,
    lock,
    `Lock ${quote(lock)}: the ${backend} backend answered forceRelease() with ${show(answer)}, so that it is unknown what became of the lease. ` +
      "Expected true, or false where there is no lease with that fence.",
  );
}

/** Asking again would not help: the next answer would be no better. */
function mistake(backend: string, lock: string, message: string): LockBackendError {
  return new LockBackendError(backend, lock, `${message} That is a mistake in the backend.`, { fatal: true });
}

/** So that 5 and 5n differ. */
function show(value: unknown): string {
  return typeof value === "bigint" ? `${value}n` : got(value);
}
