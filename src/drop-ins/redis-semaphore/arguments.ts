/** What the constructors check, with the words of redis-semaphore 5. */
import { ArgumentError, got } from "../../contract/argument-error.ts";

export function checkKey(key: string): void {
  if (!key) throw new Error('"key" is required');
  if (typeof key !== "string") throw new Error('"key" must be a string');
}

export function checkLimit(limit: number): void {
  if (!limit) throw new Error('"limit" is required');
  if (typeof limit !== "number") throw new Error('"limit" must be a number');
}

export function checkPermits(permits: number): void {
  if (!permits) throw new Error('"permits" is required');
  if (typeof permits !== "number") throw new Error('"permits" must be a number');
  // None at all would always be had, and hold nothing.
  if (permits < 1) throw new ArgumentError(`Expected \`permits\` to be at least 1, got ${got(permits)}`);
}

/** The members of the sorted set: one for each permit. */
export function permitMembers(identifier: string, permits: number): readonly string[] {
  return Array.from({ length: permits }, (_, at) => `${identifier}_${at}`);
}
