/**
 * Which fences an epoch may give. A fence must be greater than every earlier one of its lock, even after the whole directory was
 * removed. Then only the time is left to go by, hence this rule:
 *
 * *A fence is never ahead of the wall clock, in microseconds, by more than {@link AHEAD_MAX_US}.* An epoch that follows
 * another takes its numbers from the time that has passed since: `stride` for each of its entries, all of them below the
 * clock as it is now, at least 1. Making an entry takes several microseconds, so even at full speed a stride of 1 does not
 * outrun the clock. A new lock knows no past and starts at the clock; its first epoch may run ahead of it by its whole length.
 * A fresh directory therefore pauses for longer than that before its first lock is made.
 *
 * The greatest fence of any lock that was removed because it was idle is kept on the disk: the floor. A lock that is made
 * again starts above it, even if the wall clock was set back. The floor is the greatest name in a directory of empty files, so
 * adding one or removing a smaller one can only raise it.
 *
 * The rule holds unless the wall clock is set back *and* the directory is removed. Numbers fit a double until the year 2255.
 */
import { join } from "node:path";
import { codeOf, createFile, disk, remove } from "./disk.ts";

/** How many fences a grant reserves at most, for hand-over within a process. */
export const STRIDE_MAX = 64;
/** Entries of an epoch, after which it is retired: few enough to list quickly, and far below a file's limit of links. */
export const ENTRIES_MAX = 64;
export const AHEAD_MAX_US: number = (ENTRIES_MAX + 2) * STRIDE_MAX + 1000;
/** After this pause, a process that knows nothing of a lock's past starts above it. */
export const FORGET_MS: number = Math.ceil(AHEAD_MAX_US / 1000) + 1;

/** Microseconds of the year 2223. No clock makes a greater number, and it would leave no room above it. */
export const FENCE_MAX = 8e15;

export interface FenceRange {
  readonly base: number;
  readonly stride: number;
}

/** For a lock of which only the floor is known. */
export function firstRange(wallMs: number, floor: number): FenceRange {
  return { base: Math.max(Math.floor(wallMs * 1000), floor), stride: STRIDE_MAX };
}

/** For the epoch after one that ended at entry `seq`. */
export function nextRange(before: FenceRange, seq: number, entriesMax: number, wallMs: number): FenceRange {
  const last = before.base + (seq + 1) * before.stride - 1;
  const wallUs = Math.floor(wallMs * 1000);
  const entries = entriesMax + 2;
  const stride = Math.max(1, Math.min(STRIDE_MAX, Math.floor((wallUs - last) / entries)));
  return { base: Math.max(last, wallUs - entries * stride), stride };
}

/** The greatest fence of any removed lock. `directory`: the floor's. */
export function fenceFloor(directory: string): number {
  return Math.max(0, ...fencesIn(directory));
}

export function raiseFenceFloor(directory: string, fence: number): void {
  const before = fencesIn(directory);
  if (before.some((other) => other >= fence)) return;
  try {
    createFile(join(directory, String(fence)), "");
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
  for (const smaller of before) remove(join(directory, String(smaller)));
}

function fencesIn(directory: string): number[] {
  return (disk.list(directory) ?? [])
    .filter((name) => /^\d{1,16}$/.test(name))
    .map(Number)
    .filter((fence) => fence <= FENCE_MAX);
}
