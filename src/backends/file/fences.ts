/**
 * Which fences an epoch may give. A fence has to be greater than every earlier one of its lock, also after somebody
 * removed the whole directory, so that nothing is known of the earlier ones but the time: hence this rule.
 *
 * *A fence is never ahead of the wall clock, in microseconds, by more than {@link AHEAD_MAX_US}.* An epoch that follows
 * another takes its numbers from the time that has passed since: `stride` for each of its entries, all of them below the
 * clock as it stands now, at least 1. One entry takes several microseconds to make, so that even at full speed a stride
 * of 1 does not outrun the clock. A new lock knows no past and starts at the clock; its first epoch may run ahead of it by
 * its whole length. A fresh directory therefore pauses for longer than that before its first lock is made. The fences of
 * locks that were removed because nobody used them are remembered: see `floor.ts`.
 *
 * It holds while the wall clock is not set back *and* the directory removed; numbers fit a double until the year 2255.
 */

/** How many fences a grant reserves at most, for hand-over within a process. */
export const STRIDE_MAX = 64;
/** Entries of an epoch, after which it is retired: few enough to list quickly, and far below a file's limit of links. */
export const ENTRIES_MAX = 64;
export const AHEAD_MAX_US: number = (ENTRIES_MAX + 2) * STRIDE_MAX + 1000;
/** After this long, whoever knows nothing of a lock's past starts above it. */
export const FORGET_MS: number = Math.ceil(AHEAD_MAX_US / 1000) + 1;

/** Microseconds of the year 2223: a number above it was made by no clock, and no room for more would be left above it. */
export const FENCE_MAX = 8e15;

export interface Numbers {
  readonly base: number;
  readonly stride: number;
}

/** For a lock of which nothing is known, but that it has no fence above `floor`. */
export function firstNumbers(wallMs: number, floor: number): Numbers {
  return { base: Math.max(Math.floor(wallMs * 1000), floor), stride: STRIDE_MAX };
}

/** For the epoch after one that ended at entry `seq`. */
export function nextNumbers(before: Numbers, seq: number, entriesMax: number, wallMs: number): Numbers {
  const last = before.base + (seq + 1) * before.stride - 1;
  const wallUs = Math.floor(wallMs * 1000);
  const entries = entriesMax + 2;
  const stride = Math.max(1, Math.min(STRIDE_MAX, Math.floor((wallUs - last) / entries)));
  return { base: Math.max(last, wallUs - entries * stride), stride };
}
