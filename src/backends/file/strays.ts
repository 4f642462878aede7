/**
 * What is not needed any more: an idle lock; and what lies beside the epochs of a lock, values and notes, and belongs to no lease,
 * ticket or outcome, because its process has died.
 */
import { join } from "node:path";
import { isEmpty } from "./admission.ts";
import { disk, remove } from "./disk.ts";
import type { Lock } from "./lock.ts";
import type { Head } from "./log.ts";
import { noteIn } from "./notes.ts";
import { fenceOfValue, valueIn } from "./outcomes.ts";

/**
 * A value is made while its lease holds the lock, and a note while its lease or ticket is there. So the lock is read after the
 * names: what is there and belongs to nothing in that state never will.
 */
export function removeStrays({ log, query }: Lock, incarnation: string): void {
  const names = (disk.list(incarnation) ?? []).filter((name) => valueIn(name) ?? noteIn(name));
  if (names.length === 0) return;
  const waiters = query.queue.list();
  const head = log.read(false);
  if (head?.incarnation !== incarnation) return;
  const files = new Set([...head.state.holders, ...waiters].map(({ facts }) => facts.id));
  for (const name of names) {
    const path = join(incarnation, name);
    const file = noteIn(name);
    if (file === undefined ? isStrayValue(head, path, valueIn(name)) : !files.has(file)) remove(path);
  }
}

/** What is not what we write stays. */
function isStrayValue({ state }: Head, path: string, value: string | undefined): boolean {
  if (value === state.outcome?.file) return false;
  try {
    const made = fenceOfValue(path);
    return made !== undefined && !state.holders.some(({ fence }) => fence === made);
  } catch {
    return false;
  }
}

/** Removes a lock from the disk if it was not used since that wall-clock time. */
export function retireIfIdle({ log, query }: Lock, sinceWallMs: number): void {
  const head = log.read(false);
  if (head === undefined || query.queue.mayExist()) return;
  const { state } = query.liveState(head);
  const changedMs = disk.times(head.directory)?.mtimeMs ?? Infinity;
  if (isEmpty(state) && changedMs < sinceWallMs) log.retire(head);
}
