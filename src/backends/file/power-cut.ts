/**
 * A power cut. No lease survives one, so nothing is synced for leases: the newest entries of a log may be missing afterwards, or be
 * zeros. An outcome must survive: its value and the entry that keeps it, or removes it, are synced before that is answered, and so
 * is the first entry of an epoch that carries one on. Entries in between are not: then the newest one that can be read says it.
 */
import { disk, trySyncDirectory } from "./disk.ts";
import { type Epoch, FREE, isBlank, type LockState, parseEntry } from "./records.ts";

/** What is left of an epoch whose entry `seq` is zeros. */
export function survivors(directory: string, epoch: Epoch, seq: number): LockState {
  for (let before = seq - 1; before > 0; before--) {
    const path = `${directory}/${before}`;
    const text = disk.read(path) ?? "";
    if (isBlank(text)) continue;
    const entry = parseEntry(path, text, epoch.format);
    return entry.kind === "state" && entry.outcome !== undefined ? { ...FREE, outcome: entry.outcome } : FREE;
  }
  return epoch.state.outcome === undefined ? FREE : { ...FREE, outcome: epoch.state.outcome };
}

/** The names in these directories survive a power cut. */
export function syncNames(directories: readonly string[]): void {
  // An epoch that has ended meanwhile was followed by one that is synced.
  for (const path of directories) trySyncDirectory(path);
}
