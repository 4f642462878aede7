/**
 * The greatest fence of any lock that was removed because nobody used it: a lock made anew starts above it, even if the
 * wall clock was set back meanwhile. It is the greatest name in a directory of empty files, so that whoever adds one or
 * removes a smaller one can only raise it.
 */
import { join } from "node:path";
import { codeOf, createFile, disk, remove } from "./disk.ts";
import { FENCE_MAX } from "./fences.ts";
import type { Place } from "./directory.ts";

export function floorOf({ floor }: Place): number {
  return Math.max(0, ...fencesIn(floor));
}

export function raiseFloor({ floor }: Place, fence: number): void {
  const before = fencesIn(floor);
  if (before.some((other) => other >= fence)) return;
  try {
    createFile(join(floor, String(fence)), "");
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
  for (const smaller of before) remove(join(floor, String(smaller)));
}

function fencesIn(directory: string): number[] {
  return (disk.list(directory) ?? [])
    .filter((name) => /^\d{1,16}$/.test(name))
    .map(Number)
    .filter((fence) => fence <= FENCE_MAX);
}
