/** A fence on its way from the lease to the protected thing: which lock, which number. Never a double. */
import { ArgumentError } from "../contract/argument-error.ts";
import { systemClock } from "../contract/clock.ts";

/** What every guard takes: a lease is one, and so is what arrives over a wire. */
export interface Fenced {
  /** The lock's name. */
  readonly name: string;
  readonly fence: bigint;
  /** One fence per name, where a lease covers several locks: pick one with {@link fenceFor}. */
  readonly fences?: ReadonlyMap<string, bigint> | undefined;
}

/** The greatest fence that a guard takes: every store's number fits in a signed 64-bit integer. */
export const MAX_FENCE: bigint = 2n ** 63n - 1n;

const DECIMAL = /^(?:0|[1-9]\d{0,18})$/;
const MAX_NAME_BYTES = 1024;

/** How far the clock of the store that granted the lease may be ahead of ours. */
const AHEAD_MS = 24 * 3_600_000;

/**
 * The greatest fence that a lease of this library can have by now, for numbers that come from outside: a guard that took
 * a greater one would refuse every lease after it. Redis, quorums and files count microseconds since 1970, so it is a day
 * ahead of that; ZooKeeper's numbers lie below it until an ensemble has held 400,000 elections.
 */
export function fenceCeiling(): bigint {
  return BigInt(systemClock.wall() + AHEAD_MS) * 1000n;
}

/**
 * Reads a fence from its decimal form. `undefined`: it is not a fence (a sign, a fraction, a leading zero, beyond 64
 * bits), or it is above `ceiling`.
 */
export function parseFence(text: unknown, ceiling: bigint = MAX_FENCE): bigint | undefined {
  if (typeof text !== "string" || !DECIMAL.test(text)) return undefined;
  const fence = BigInt(text);
  return fence <= MAX_FENCE && fence <= ceiling ? fence : undefined;
}

/** Reads a fence that a store kept. Throws when it is something else: a guard never guesses. */
export function storedFence(value: unknown, where: string): bigint {
  const fence = parseFence(typeof value === "bigint" ? value.toString() : value);
  if (fence !== undefined) return fence;
  throw new Error(`Expected ${where} to hold a fence, found ${show(value)}. Nothing was written.`);
}

/** Picks one lock's fence out of a lease that covers several. */
export function fenceFor(lease: Fenced, name: string): Fenced {
  const fence = lease.fences?.get(name) ?? (lease.name === name ? lease.fence : undefined);
  if (fence === undefined) {
    throw new ArgumentError(`Expected a lease of lock ${show(name)}, got one of ${show(lease.name)}`);
  }
  return checkFenced({ name, fence });
}

/** All fences of a lease, one per lock, always in the same order. */
export function allFences(lease: Fenced): Fenced[] {
  if (lease.fences === undefined || lease.fences.size <= 1) return [checkFenced(lease)];
  const names = [...lease.fences.keys()].toSorted();
  return names.map((name) => fenceFor(lease, name));
}

/** Checks, before anything is sent, that `fenced` names one lock and carries one usable number. */
export function checkFenced(fenced: Fenced): Fenced {
  const { name, fences } = fenced;
  if (fences !== undefined && fences.size > 1) {
    throw new ArgumentError(
      `Expected the fence of one lock, got a lease of ${show(name)}. Pick one with fenceFor(lease, name)`,
    );
  }
  const { fence } = fenced;
  if (typeof fence !== "bigint" || fence < 0n || fence > MAX_FENCE) {
    throw new ArgumentError(`Expected \`fence\` to be a bigint from 0 to 2^63 - 1, got ${show(fence)}`);
  }
  checkLock(name);
  return { name, fence };
}

/** Checks that the name can be encoded without becoming equal to another name. */
export function checkLock(name: unknown): asserts name is string {
  if (typeof name !== "string") throw new ArgumentError(`Expected a lock's name to be a string, got ${show(name)}`);
  const bytes = Buffer.from(name);
  // A lone surrogate becomes U+FFFD in UTF-8, so two names would share one mark.
  if (bytes.length > MAX_NAME_BYTES || bytes.toString() !== name) {
    throw new ArgumentError(`Expected a lock's name to be well-formed text of at most 1 KiB, got ${show(name)}`);
  }
}

function show(value: unknown): string {
  if (typeof value !== "string") return typeof value === "bigint" ? `${value}n` : String(value);
  return JSON.stringify(value.length > 80 ? `${value.slice(0, 77)}…` : value);
}
