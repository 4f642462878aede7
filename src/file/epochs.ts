/** Epochs on the disk: how they are named, found, made aside, and cleared away. */
import { join } from "node:path";
import { codeOf, createFile, disk, remove, tryMkdir, tryRename, tryRmdir } from "./disk.ts";
import { fromDirectory, toDirectory } from "./names.ts";
import type { Numbers } from "./numbers.ts";
import { freshName, type Place } from "./place.ts";
import { isId, parseEntry } from "./records.ts";

/** In an epoch's directory: the empty file that is linked to say "free". One per lock, so that its links stay few. */
export const FREE_FILE = "f";

/** The fences of an entry: its first, and how many. */
export function fencesOf({ base, stride }: Numbers, seq: number): [fence: number, run: number] {
  return [base + seq * stride, stride];
}

export function epochNumber(id: string): number {
  return Number(id.slice(0, id.indexOf("-")));
}

/** The names of all locks that begin with `prefix`. */
export function namesOfLocks(place: Place, prefix: string): string[] {
  return (disk.list(place.locks) ?? [])
    .map((directory) => [directory, nameOfLock(place, directory)] as const)
    .filter(([directory, name]) => name?.startsWith(prefix) === true && toDirectory(name) === directory)
    .map(([, name]) => name!);
}

/** The name of the lock in that directory; one that does not say it tells it in its newest epoch. */
export function nameOfLock(place: Place, directory: string): string | undefined {
  return fromDirectory(directory) ?? nameInside(place, directory);
}

/** The name of the lock in that directory, as its newest epoch has it; `undefined` if there is none. */
function nameInside(place: Place, directory: string): string | undefined {
  const incarnation = disk.list(join(place.locks, directory))?.find(isId);
  if (incarnation === undefined) return undefined;
  const home = join(place.locks, directory, incarnation);
  const path = join(home, `e${newestEpoch(disk.list(home)) ?? ""}`, "0");
  const text = disk.read(path);
  const entry = text === undefined ? undefined : parseEntry(path, text);
  return entry?.kind === "epoch" ? entry.name : undefined;
}

export function newestEpoch(names: readonly string[] | undefined): string | undefined {
  const ids = (names ?? []).filter((name) => /^e\d+-/.test(name)).map((name) => name.slice(1));
  return ids.toSorted((a, b) => epochNumber(b) - epochNumber(a))[0];
}

/** Entries have no gaps: in ever longer steps past the newest one, then back in ever shorter ones. */
export function newestAfter(directory: string, seq: number): number {
  let [there, step] = [seq, 1];
  while (disk.exists(`${directory}/${there + step}`)) {
    there += step;
    step *= 2;
  }
  for (step /= 2; step >= 1; step /= 2) if (disk.exists(`${directory}/${there + step}`)) there += step;
  return there;
}

/**
 * True when an entry that was just linked is where it belongs. A link(2) that was kept waiting in the kernel can end up in a
 * directory that was renamed away and half emptied meanwhile, where its number is free again.
 */
export function isInPlace(path: string): boolean {
  return disk.exists(path);
}

export function makeEmpty(path: string): void {
  try {
    createFile(path, "");
  } catch (error) {
    if (!["EEXIST", "ENOENT"].includes(codeOf(error))) throw error;
  }
}

/** Removes an epoch that never became one. */
export function discardEpoch(directory: string): void {
  for (const file of ["0", FREE_FILE]) remove(join(directory, file));
  tryRmdir(directory);
}

/** `false`: the parent is gone. */
export function tryMkdirIn(path: string): boolean {
  try {
    return tryMkdir(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

/** Gives the epoch that was chosen its final name. Whoever sees the choice does it, in case the chooser died. */
export function enterEpoch(home: string, id: string): boolean {
  const aside = join(home, `n${id}`);
  return tryRename(aside, join(home, `e${id}`)) || !disk.exists(aside);
}

/** At once and by known names: removal in the background piled up and stalled the process when it ran. */
export function retireEpoch({ trash }: Place, directory: string, last: number): void {
  const rest = join(trash, freshName());
  if (!tryRename(directory, rest)) return;
  for (let seq = 0; seq <= last; seq++) remove(`${rest}/${seq}`);
  remove(join(rest, FREE_FILE));
  tryRmdir(rest);
}
