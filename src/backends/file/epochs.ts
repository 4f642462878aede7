/** Epochs on the disk: how they are named, found, made aside, and cleared away. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { checkDirectory, codeOf, createFile, disk, remove, tryMkdir, tryRename, tryRmdir } from "./disk.ts";
import { ForeignError } from "./foreign.ts";
import { ownLife } from "./process-identity.ts";
import { fromDirectory, isOurDirectory, toDirectory } from "./names.ts";
import type { Numbers } from "./fences.ts";
import { freshName, isFreshName, type Place } from "./directory.ts";
import { FREE, isEpochId, parseEpoch, writeEntry } from "./records.ts";

/** In an epoch's directory: the file that is linked to say "free". One per lock, so that its links stay few. */
export const FREE_FILE = "f";

interface FoundEpoch {
  /** The directory of the lock's incarnation. */
  readonly home: string;
  readonly directory: string;
  readonly id: string;
  /** Its first entry, as it stands there. */
  readonly text: string;
}

const BOOT_TAG = 8;
let ownTag: string | undefined;

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
    .filter(isOurDirectory)
    .map((directory) => [directory, nameOfLock(place, directory)] as const)
    .filter(([directory, name]) => name?.startsWith(prefix) === true && toDirectory(name) === directory)
    .map(([, name]) => name!);
}

/** The name of the lock in that directory; one that does not say it tells it in its newest epoch. */
export function nameOfLock(place: Place, directory: string): string | undefined {
  return fromDirectory(directory) ?? nameInside(join(place.locks, directory));
}

/** The name of the lock in that directory, as its newest epoch has it; `undefined` if there is none to be read. */
function nameInside(path: string): string | undefined {
  try {
    const found = findEpoch(path);
    if (typeof found === "object") return parseEpoch(found.directory, found.text).name;
  } catch {
    // Nobody who asks for all locks is helped by an error about one that has lost its name.
  }
  return undefined;
}

/** The incarnations of a lock: one, except where strangers put something beside it. */
export function homesIn(path: string): string[] {
  return (disk.list(path) ?? []).filter(isFreshName).map((name) => join(path, name));
}

/** The ids of a lock's epochs, the newest first. */
export function epochsIn(home: string): string[] {
  return (disk.list(home) ?? [])
    .filter((name) => name.startsWith("e") && isEpochId(name.slice(1)))
    .map((name) => name.slice(1))
    .toSorted((a, b) => epochNumber(b) - epochNumber(a));
}

/** The newest epoch of the lock in that directory, and its first entry. `undefined`: it changed while it was read. */
export function findEpoch(path: string): FoundEpoch | "absent" | undefined {
  const homes = homesIn(path);
  if (homes.length === 0) return "absent";
  for (const home of homes) {
    for (const id of epochsIn(home)) {
      const directory = join(home, `e${id}`);
      const text = disk.read(join(directory, "0"));
      if (text !== undefined) return { home, directory, id, text };
      // Between two epochs there is always one to be found; a listing that shows none was overtaken.
      if (!disk.exists(directory)) return undefined;
    }
  }
  return undefined;
}

/** Throws if a lock cannot be made because something else is in its place. */
export function checkStrangers(path: string): void {
  checkDirectory(path);
  const [stranger] = homesIn(path).length > 0 ? [] : (disk.list(path) ?? []);
  if (stranger !== undefined) throw new ForeignError(join(path, stranger), "nothing of that name belongs there");
}

/** A new epoch's id. It ends with what tells this boot from others, where the system has a name for it. */
export function epochId(number: number): string {
  return `${number}-${freshName()}${bootTag()}`;
}

/** True when an epoch with that id was made in this boot, so that no power cut can have taken a part of it. */
export function isOfThisBoot(id: string): boolean {
  const [, name = ""] = /^\d+-(.*)$/.exec(id) ?? [];
  return bootTag() !== "" && isFreshName(name.slice(0, -BOOT_TAG)) && name.endsWith(bootTag());
}

function bootTag(): string {
  const { boot } = ownLife();
  ownTag ??= boot === "" ? "" : createHash("sha256").update(boot).digest("base64url").slice(0, BOOT_TAG);
  return ownTag;
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

/** Makes the file that says "free". */
export function makeFree(directory: string): void {
  try {
    createFile(join(directory, FREE_FILE), writeEntry(FREE));
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
