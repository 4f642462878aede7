/**
 * The lock directory must be ours alone. A process that can replace it, or a directory on the path to it, can let two hold one
 * lock; and what is in it is removed in time. So a directory with anything in it is only used if our marker says that it was made
 * for locks, and if no other user can write to it or replace it. Every level is checked without following links.
 */
import { readFileSync } from "node:fs";
import { dirname, join, parse, sep } from "node:path";
import { LockBackendError } from "../../contract/errors.ts";
import { codeOf, createFile, describe, disk, type FileInfo, tryMkdir } from "./disk.ts";
import { explain } from "./errors.ts";
import { FORGET_MS } from "./fences.ts";
import { checkFileSystem, type DirectoryPaths, unsuitable } from "./directory.ts";

const MARKER_START = "holdfast 1";
const MARKER = `${MARKER_START}\nThis directory belongs to Holdfast, which makes and removes what is in it: docs/backends/file.md.\n`;
/** In the root: when a cleanup last began. */
const STAMP = "cleaned";

const OTHERS_WRITE = 0o002;
const GROUP_WRITES = 0o020;
/** In such a directory a user cannot replace what belongs to another one: /tmp. */
const STICKY = 0o1000;
const LINKS_MAX = 40;

/** Makes the error to throw. `why` is a sentence, or more. */
export type Refuse = (why: string) => Error;

export interface OpenDirectoryOptions {
  /** The directory was used for the first time. */
  opened(): void;
  /** The directory was removed, and is made again. */
  restored(): void;
}

/** The lock directory while a backend uses it: opened at the first use, and made again if it was removed. */
export class OpenDirectory {
  readonly #paths: DirectoryPaths;
  readonly #options: OpenDirectoryOptions;
  #open = false;
  #closed = false;

  constructor(paths: DirectoryPaths, options: OpenDirectoryOptions) {
    this.#paths = paths;
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#open;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Runs one step on the directory. Errors are explained for users. */
  use<T>(lock: string, step: () => T): T {
    if (this.#closed) throw new LockBackendError("file", lock, "The file backend is closed.", { fatal: true });
    try {
      if (!this.#open) this.#start();
      try {
        return step();
      } catch (error) {
        // The directory was removed, or a part of it: it is made again, and the step is repeated.
        if (codeOf(error) !== "ENOENT") throw error;
        prepareDirectory(this.#paths, true);
        this.#options.restored();
        return step();
      }
    } catch (error) {
      throw explain(error, lock, this.#paths.root);
    }
  }

  /** Nothing can be done in it any more. */
  close(): void {
    this.#closed = true;
  }

  #start(): void {
    prepareDirectory(this.#paths);
    checkFileSystem(this.#paths);
    this.#open = true;
    this.#options.opened();
  }
}

/**
 * Makes the directories that are missing, and throws unless all are ours alone. Called at the start, and with `again` when one
 * has vanished: the removal may still be going on, so what is left of ours needs no marker.
 */
export function prepareDirectory(paths: DirectoryPaths, again = false): void {
  const refuse = (why: string): Error => unsuitable(paths.root, why);
  checkParents(paths.root, refuse);
  makeRoot(paths.root);
  // What was missing may have been made by another user meanwhile.
  checkParents(paths.root, refuse);
  checkOwn(paths.root, paths.root, refuse);
  mark(paths, again);
  let fresh = false;
  for (const path of childrenOf(paths)) {
    const made = tryMkdir(path);
    fresh ||= made && (path === paths.locks || path === paths.floor);
    if (!made) checkOwn(paths.root, path, refuse);
  }
  // The fences of the old locks were removed with them. They were at most this far ahead of the clock.
  if (fresh) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FORGET_MS);
}

function childrenOf(paths: DirectoryPaths): string[] {
  const { leaseFiles, locks, queues, forced, companions, sockets, floor, trash } = paths;
  return [leaseFiles, locks, queues, forced, companions, sockets, floor, trash];
}

function makeRoot(root: string): void {
  if (disk.exists(root)) return;
  const parent = dirname(root);
  if (parent !== root) makeRoot(parent);
  tryMkdir(root);
}

/** Throws unless the root is marked as ours. Marks an empty one, and one that 0.1 made. */
function mark(paths: DirectoryPaths, again: boolean): void {
  if (isMarked(paths)) return;
  const names = disk.list(paths.root) ?? [];
  // The stamp alone: a cleanup of ours was running when the directory was removed and made again.
  if (names.some((name) => name !== STAMP) && !isOfFirstVersion(paths, names, again)) {
    // Made meanwhile by a process that started together with us: it makes the marker first.
    if (isMarked(paths)) return;
    throw unsuitable(
      paths.root,
      `there is something in it (${JSON.stringify(names[0])}), and no file "holdfast" that says that it was made for locks. Name an empty directory, or one that does not exist.`,
    );
  }
  try {
    createFile(paths.marker, MARKER);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

function isMarked({ root, marker }: DirectoryPaths): boolean {
  const text = disk.read(marker);
  if (text === undefined) return false;
  // Empty: it is being made, or a power cut took its text.
  if (/^\0*$/.test(text) || text.startsWith(MARKER_START)) return true;
  throw unsuitable(
    root,
    `its file "holdfast" is of another version of Holdfast: ${JSON.stringify(text.slice(0, 60))}.`,
  );
}

/** 0.1 had no marker. All of its directories and nothing else are surely its own. */
function isOfFirstVersion(paths: DirectoryPaths, names: readonly string[], again: boolean): boolean {
  const children = childrenOf(paths).map((path) => path.slice(paths.root.length).replace(sep, ""));
  const isKnown = (name: string): boolean =>
    children.includes(name) || name === STAMP || /^self-test-\w{6}$/.test(name);
  return (again || children.every((name) => names.includes(name))) && names.every(isKnown);
}

/** Throws if another user can replace a directory or a link on the path to the root. What is missing will be ours. */
export function checkParents(root: string, refuse: Refuse): void {
  if (process.getuid === undefined) return;
  const rest = dirname(root).split(sep);
  let at = parse(root).root;
  let links = 0;
  // Below a directory in which all users can make things, a user without a name here may be any of them.
  let open = checkParent(at, disk.info(at), false, refuse);
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    if (name === "" || name === ".") continue;
    const next = join(at, name);
    const found = disk.info(next);
    if (found === undefined) return;
    open = checkParent(next, found, open, refuse);
    if (found.kind !== "link") at = next;
    else {
      if (++links > LINKS_MAX) throw refuse(`there are too many symbolic links on the path to it (${next}).`);
      const target = disk.readlink(next);
      rest.unshift(...target.split(sep));
      if (!target.startsWith(sep)) continue;
      at = parse(target).root;
      open = false;
    }
  }
}

/** Returns whether all users can make things from there on downwards. */
function checkParent(path: string, found: FileInfo | undefined, open: boolean, refuse: Refuse): boolean {
  if (found === undefined) return open;
  const { kind, uid, gid, mode } = found;
  if (kind !== "directory" && kind !== "link") throw refuse(`${path} is ${describe(found)}, not a directory.`);
  const me = process.getuid?.();
  // Where not even this user is known, each unknown user looks like this one.
  const unknown = uid !== 0 && uid === unmappedUid();
  if (unknown && open)
    throw refuse(
      `${path} belongs to a user who is unknown in this user namespace, and is in a directory where all users can make things. Use a directory below ones that belong to this user or to root.`,
    );
  if (uid !== me && uid !== 0 && !unknown)
    throw refuse(
      `${path} belongs to uid ${uid}, who could replace what is in it; this process runs as uid ${me}. Use a directory below ones that belong to root or to this user.`,
    );
  // On most systems a user's own group has the user's number. Root's group is root's own.
  const group = gid === 0 || gid === me ? 0 : GROUP_WRITES;
  if (kind === "directory" && (mode & (OTHERS_WRITE | group)) !== 0 && (mode & STICKY) === 0)
    throw refuse(
      `others may write to ${path} (mode ${mode.toString(8)}), and so replace what is in it. Take that right away (chmod go-w), or use another directory.`,
    );
  return open || (kind === "directory" && (mode & (OTHERS_WRITE | group)) !== 0);
}

/** Throws unless a directory belongs to this user, and only this user can write to it: the root, and each directory in it. */
export function checkOwn(root: string, path: string, refuse: Refuse): void {
  const found = disk.info(path);
  const it = path === root ? "it" : path;
  if (found === undefined) throw Object.assign(new Error(`${path} vanished`), { code: "ENOENT" });
  if (found.kind === "link")
    throw refuse(
      `${it} is a symbolic link to ${disk.readlink(path)}. Name the directory itself, the same for all processes.`,
    );
  if (found.kind !== "directory") throw refuse(`${it} is not a directory.`);
  const me = process.getuid?.();
  if (me === undefined) return;
  if (found.uid !== me)
    throw refuse(
      `${it} belongs to uid ${found.uid}, but this process runs as uid ${me}. Each user needs a directory of its own.`,
    );
  if ((found.mode & (OTHERS_WRITE | GROUP_WRITES)) !== 0)
    throw refuse(
      `others may write to ${path === root ? "it" : it} (mode ${found.mode.toString(8)}). Use a directory of its own with mode 700.`,
    );
}

let unmapped: number | undefined;

/** The uid of files whose user does not exist in our user namespace, such as the machine's root. -1: all users are known here. */
function unmappedUid(): number {
  unmapped ??= readUnmappedUid();
  return unmapped;
}

function readUnmappedUid(): number {
  try {
    const allKnown = /^\s*0\s+0\s+4294967295\s*$/.test(readFileSync("/proc/self/uid_map", "latin1"));
    return allKnown ? -1 : Number(readFileSync("/proc/sys/kernel/overflowuid", "latin1"));
  } catch {
    return -1;
  }
}
