/**
 * Throwing away, by names that this backend makes and nothing else: whatever a stranger put between our things stays, with
 * the directories that lead to it.
 */
import { join } from "node:path";
import { disk, remove, tryRmdir } from "./disk.ts";
import { FREE_FILE } from "./epochs.ts";
import { isFreshName } from "./directory.ts";
import { isEpochId } from "./records.ts";

/** A lock that is being made lies in the trash as `<name>/<incarnation>/<epoch>/<entry>`. */
const DEPTH_MAX = 3;

/** Removes a file, or a directory of entries, of epochs, or of an incarnation. */
export function discard(path: string, depth = 0): void {
  const kind = disk.nature(path)?.kind;
  if (kind === "file") remove(path);
  if (kind !== "directory" || depth > DEPTH_MAX) return;
  for (const name of disk.list(path) ?? []) if (isOurs(name)) discard(join(path, name), depth + 1);
  tryRmdir(path);
}

function isOurs(name: string): boolean {
  if (name === FREE_FILE || /^\d{1,15}$/.test(name) || isFreshName(name)) return true;
  return /^[en]/.test(name) && isEpochId(name.slice(1));
}
