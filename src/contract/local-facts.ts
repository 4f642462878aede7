/** What a process says of its own queue, in the record of its claim: written as JSON, and read as from a stranger. */
import { HELD_LOCKS_MAX, type HeldLock, type LocalFacts } from "./claim.ts";

const NAME_MAX = 1024;
const FENCE = /^\d{1,19}$/;

/** Fences are decimal: they do not fit a double. */
export function writeLocal({ waiters, users, holds, holdsMore }: LocalFacts): unknown {
  return { waiters, users, holds: holds.map(writeHeld), holdsMore };
}

/** A name, a fence, and a mark where its waiter yields. */
export function writeHeld({ name, fence, yields }: HeldLock): readonly unknown[] {
  return yields === true ? [name, String(fence), 1] : [name, String(fence)];
}

/**
 * The locks that those who wait hold, as a text to compare. Where that has changed, it is written at once, however short a while ago the
 * claim was written: those who look for deadlocks believe it.
 */
export function holdsText(local: LocalFacts | undefined): string {
  return local === undefined || local.holds.length === 0 ? "" : JSON.stringify(local.holds.map(writeHeld));
}

/** `undefined`: there are none, or what is there is not of our making. */
export function readLocal(value: unknown): LocalFacts | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { waiters, users, holds, holdsMore } = value as Record<string, unknown>;
  if (!isCount(waiters) || !isCount(users) || !Array.isArray(holds)) return undefined;
  const known = holds.slice(0, HELD_LOCKS_MAX).flatMap(readHeld);
  return { waiters, users, holds: known, holdsMore: holdsMore === true || known.length < holds.length };
}

function readHeld(value: unknown): readonly HeldLock[] {
  const [name, fence, yields] = Array.isArray(value) ? (value as readonly unknown[]) : [];
  if (typeof name !== "string" || name.length > NAME_MAX || typeof fence !== "string" || !FENCE.test(fence)) return [];
  return [{ name, fence: BigInt(fence), ...(yields === 1 && { yields: true }) }];
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
