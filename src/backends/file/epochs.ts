/** The directories of a lock and its epochs: how they are named, found, made, and removed. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import {
  checkDirectory,
  codeOf,
  createFile,
  disk,
  ForeignError,
  remove,
  tryMkdir,
  tryRename,
  tryRmdir,
} from "./disk.ts";
import { isId } from "./checked-text.ts";
import { thisProcess } from "./process-identity.ts";
import type { FenceRange } from "./fences.ts";
import { freshName, isFreshName, type DirectoryPaths } from "./directory.ts";
import { type Epoch, FREE, isEpochId, type LockState, parseEpoch, writeEntry } from "./records.ts";

/** In an epoch's directory: the file that is linked to mean "free". One per lock, so it has few links. */
export const FREE_FILE = "f";

interface FoundEpoch {
  /** The directory of the lock's incarnation. */
  readonly incarnation: string;
  readonly directory: string;
  readonly id: string;
  /** The text of its first entry. */
  readonly text: string;
}

/** Leaves room for suffixes below the 255 bytes of a file name. */
const READABLE_MAX = 180;
const BOOT_TAG = 8;
let ownTag: string | undefined;

/**
 * `invoice:42` → `_invoice%3a42`. Upper case is escaped, since some file systems ignore case; the first character
 * makes `..`, `CON` and the like harmless. What would get too long becomes a digest: its name is in the lock's record.
 */
export function toDirectory(name: string): string {
  const bytes = Buffer.from(name, "utf8");
  // Half a surrogate pair has no UTF-8: two such names would get one directory.
  if (bytes.toString("utf8") !== name) return `~u${createHash("sha256").update(name, "utf16le").digest("hex")}`;
  let escaped = "_";
  for (const byte of bytes) {
    const plain = (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x5f;
    escaped += plain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`;
    if (escaped.length > READABLE_MAX) return `~${createHash("sha256").update(bytes).digest("hex")}`;
  }
  return escaped;
}

/** The name that a directory stands for; `undefined` for a digest, or for a directory that is not ours. */
export function fromDirectory(directory: string): string | undefined {
  if (!/^_(?:[-_a-z0-9]|%[0-9a-f]{2})*$/.test(directory)) return undefined;
  const name = Buffer.from(
    directory.slice(1).replace(/%([0-9a-f]{2})/g, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1",
  ).toString("utf8");
  return toDirectory(name) === directory ? name : undefined;
}

/** True for the directory of a lock or of its queue, judging by its name. */
export function isOurDirectory(directory: string): boolean {
  return /^~u?[0-9a-f]{64}$/.test(directory) || fromDirectory(directory) !== undefined;
}

/** The fences of an entry: its first, and how many. */
export function fencesOf({ base, stride }: FenceRange, seq: number): [fence: number, run: number] {
  return [base + seq * stride, stride];
}

export function epochNumber(id: string): number {
  return Number(id.slice(0, id.indexOf("-")));
}

/** The names of all locks that begin with `prefix`. */
export function namesOfLocks(paths: DirectoryPaths, prefix: string): string[] {
  return (disk.list(paths.locks) ?? [])
    .filter(isOurDirectory)
    .map((directory) => [directory, nameOfLock(paths, directory)] as const)
    .filter(([directory, name]) => name?.startsWith(prefix) === true && toDirectory(name) === directory)
    .map(([, name]) => name!);
}

/** The name of the lock in that directory. A digest does not contain it: then the newest epoch says it. */
export function nameOfLock(paths: DirectoryPaths, directory: string): string | undefined {
  return fromDirectory(directory) ?? nameInside(join(paths.locks, directory));
}

/** `undefined`: no epoch can be read. */
function nameInside(path: string): string | undefined {
  try {
    const found = findEpoch(path);
    if (typeof found === "object") return parseEpoch(found.directory, found.text).name;
  } catch {
    // An error about one lock that lost its name must not fail a query for all locks.
  }
  return undefined;
}

/** The incarnations of a lock: one, unless another program put something beside it. */
export function incarnationsIn(path: string): string[] {
  return (disk.list(path) ?? []).filter(isFreshName).map((name) => join(path, name));
}

/** The ids of an incarnation's epochs, the newest first. */
export function epochsIn(incarnation: string): string[] {
  return (disk.list(incarnation) ?? [])
    .filter((name) => name.startsWith("e") && isEpochId(name.slice(1)))
    .map((name) => name.slice(1))
    .toSorted((a, b) => epochNumber(b) - epochNumber(a));
}

/** The newest epoch of the lock in that directory, and its first entry. `undefined`: it changed while it was read. */
export function findEpoch(path: string): FoundEpoch | "absent" | undefined {
  const homes = incarnationsIn(path);
  if (homes.length === 0) return "absent";
  for (const incarnation of homes) {
    for (const id of epochsIn(incarnation)) {
      const directory = join(incarnation, `e${id}`);
      const text = disk.read(join(directory, "0"));
      if (text !== undefined) return { incarnation, directory, id, text };
      // There is always one epoch. A listing that shows none was outdated when it was read.
      if (!disk.exists(directory)) return undefined;
    }
  }
  return undefined;
}

/** Throws if a lock cannot be made because something foreign is in its directory. */
function checkNothingForeign(path: string): void {
  checkDirectory(path);
  const [foreign] = incarnationsIn(path).length > 0 ? [] : (disk.list(path) ?? []);
  if (foreign !== undefined) throw new ForeignError(join(path, foreign), "nothing of that name belongs there");
}

/** The first entry of a new epoch. */
export function newEpoch(name: string, number: number, range: FenceRange, state: LockState): Epoch {
  return { kind: "epoch", format: 2, id: epochId(number), name, ...range, boot: thisProcess().boot, state };
}

/** A new epoch's id. It ends with a tag of this boot, where the system has an id for it. */
function epochId(number: number): string {
  return `${number}-${freshName()}${bootTag()}`;
}

/** True when an epoch with that id was made in this boot, so no power cut can have taken a part of it. */
export function isOfThisBoot(id: string): boolean {
  const [, name = ""] = /^\d+-(.*)$/.exec(id) ?? [];
  return bootTag() !== "" && isFreshName(name.slice(0, -BOOT_TAG)) && name.endsWith(bootTag());
}

function bootTag(): string {
  const { boot } = thisProcess();
  ownTag ??= boot === "" ? "" : createHash("sha256").update(boot).digest("base64url").slice(0, BOOT_TAG);
  return ownTag;
}

/** The newest entry. Entries have no gaps: ever longer steps past the newest one, then ever shorter ones back. */
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
 * True when an entry that was just linked can be found. A link(2) that was delayed in the kernel can end up in a directory that
 * was renamed away and half emptied meanwhile, where its number is free again.
 */
export function entryExists(path: string): boolean {
  return disk.exists(path);
}

/** Makes the file that means "free". */
export function makeFreeFile(directory: string): void {
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

/** Writes a new file. `lasting`: it survives a power cut. `false`: its directory is gone. */
export function tryCreateIn(path: string, text: string, lasting: boolean): boolean {
  try {
    createFile(path, text, lasting);
    return true;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

/** Makes a lock with its first epoch, unless another process does it at the same moment. */
export function makeLock({ trash }: DirectoryPaths, path: string, epoch: Epoch): void {
  const aside = join(trash, freshName());
  const incarnation = join(aside, freshName());
  const directory = join(incarnation, `e${epoch.id}`);
  try {
    for (const each of [aside, incarnation, directory]) disk.mkdir(each);
    createFile(join(directory, "0"), writeEntry(epoch));
    makeFreeFile(directory);
    // Fails if another process made the lock meanwhile. Replaces an empty directory, which a removed lock may leave.
    if (tryRename(aside, path)) return;
    if (process.platform === "win32") tryRmdir(path);
    checkNothingForeign(path);
  } finally {
    // Nothing is left of it under this name if it became the lock.
    discardEpoch(directory);
    for (const each of [incarnation, aside]) tryRmdir(each);
  }
}

/** Gives the chosen epoch its final name. Each process that sees the choice does it, in case the chooser died. */
export function finishEpoch(incarnation: string, id: string): boolean {
  const aside = join(incarnation, `n${id}`);
  return tryRename(aside, join(incarnation, `e${id}`)) || !disk.exists(aside);
}

/** Removes an epoch at once and by known names: removal in the background piled up and stalled the process. */
export function retireEpoch({ trash }: DirectoryPaths, directory: string, last: number): void {
  const rest = join(trash, freshName());
  if (!tryRename(directory, rest)) return;
  for (let seq = 0; seq <= last; seq++) remove(`${rest}/${seq}`);
  remove(join(rest, FREE_FILE));
  tryRmdir(rest);
}

/** A lock that is being made is in the trash as `<name>/<incarnation>/<epoch>/<entry>`. */
const DISCARD_DEPTH_MAX = 3;

/**
 * Removes a file, or a directory of entries, of epochs, or of an incarnation: only names that this backend makes. What another
 * program put there stays, with the directories that lead to it.
 */
export function discard(path: string, depth = 0): void {
  const kind = disk.info(path)?.kind;
  if (kind === "file") remove(path);
  if (kind !== "directory" || depth > DISCARD_DEPTH_MAX) return;
  for (const name of disk.list(path) ?? []) if (isOurName(name)) discard(join(path, name), depth + 1);
  tryRmdir(path);
}

function isOurName(name: string): boolean {
  if (name === FREE_FILE || /^\d{1,15}$/.test(name) || isFreshName(name)) return true;
  // A value, or a note.
  if (/^[vi]/.test(name) && isId(name.slice(1))) return true;
  return /^[en]/.test(name) && isEpochId(name.slice(1));
}
