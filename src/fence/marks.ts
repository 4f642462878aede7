/** The high-water mark: the greatest fence seen per lock, kept where a guard can raise it in one atomic step. */
import { checkFenced, type Fenced } from "./fenced.ts";
import { reject } from "./rejected.ts";

export interface MarkStore {
  /**
   * Raises the lock's mark to `fence` unless it is higher already, in one atomic step, and resolves to the mark
   * as it then is: equal to `fence` means admitted, greater means refused. Once it resolves, the mark survives
   * a restart, unless the store says otherwise. Rejects when it is unknown whether the mark was raised.
   */
  advance(lock: string, fence: bigint): Promise<bigint>;
}

/**
 * Admits the fence, or throws {@link FenceRejectedError}: for guards of your own. A write that it admits may still be
 * overtaken by a later lease; `guard` names the guard in the event of a refusal.
 */
export async function admit(marks: MarkStore, offered: Fenced, guard: string = "own"): Promise<void> {
  const fenced = checkFenced(offered);
  const current = await marks.advance(fenced.name, fenced.fence);
  if (current > fenced.fence) throw reject(guard, fenced, current);
}

/** Keeps marks in this process: for tests, or where the protected data itself dies with the process. */
export function memoryMarks(): MarkStore {
  const marks = new Map<string, bigint>();
  return {
    async advance(lock, fence) {
      const current = marks.get(lock);
      if (current !== undefined && current > fence) return current;
      marks.set(lock, fence);
      return fence;
    },
  };
}
