/**
 * Every file-system call of this backend. They are synchronous, because each takes microseconds and the thread pool would take
 * ten times as long. No lease has to survive a power cut, so there is no fsync, except for outcomes.
 * Tests wrap these functions to kill the process before and after each call.
 */
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  type Stats,
  statfsSync,
  unlinkSync,
  utimesSync,
  writeSync,
} from "node:fs";

/** The times of a file, in milliseconds. We set `mtimeMs`: until when a lease lasts. `ctimeMs` is the kernel's wall clock. */
export interface FileTimes {
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  readonly size: number;
  /** Which file it is. */
  readonly ino: number;
}

/** What is at a path. A link is not followed. */
export interface FileInfo {
  readonly kind: "directory" | "file" | "socket" | "link" | "other";
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
}

export interface Disk {
  link(from: string, to: string): void;
  rename(from: string, to: string): void;
  unlink(path: string): void;
  mkdir(path: string): void;
  rmdir(path: string): void;
  utimes(path: string, mtimeMs: number): void;
  /** Opens a new file for writing; the file must not exist. */
  open(path: string): number;
  write(fd: number, text: string): void;
  /** What was written survives a power cut. */
  sync(fd: number): void;
  close(fd: number): void;
  /** The names in it survive a power cut. */
  syncDirectory(path: string): void;
  /** `undefined`: there is no such file. Throws a ForeignError, and never waits, if it is no file, or a huge one. */
  read(path: string): string | undefined;
  times(path: string): FileTimes | undefined;
  exists(path: string): boolean;
  /** `undefined`: there is no such directory. */
  list(path: string): string[] | undefined;
  info(path: string): FileInfo | undefined;
  readlink(path: string): string;
  /** The kernel's number for the type of file system. */
  fileSystemType(path: string): number;
}

/** Something in our directory that this backend did not write. It is never believed and never removed, and the error names it. */
export class ForeignError extends Error {
  readonly path: string;

  constructor(path: string, found: string) {
    super(`${path} is not what this backend writes: ${found}`);
    this.name = "ForeignError";
    this.path = path;
  }
}

const MAYBE = { throwIfNoEntry: false } as const;
/** Enough for thousands of holders with their meta. */
const SIZE_MAX = 16 * 1024 * 1024;
/** Neither waits for the other end of a pipe nor follows a link, if the file is replaced by one at this moment. */
const READ_FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0);

export const disk: Disk = {
  link: linkSync,
  rename: renameSync,
  unlink: unlinkSync,
  mkdir: (path) => mkdirSync(path, { mode: 0o700 }),
  rmdir: rmdirSync,
  utimes: (path, mtimeMs) => utimesSync(path, mtimeMs / 1000, mtimeMs / 1000),
  open: (path) => openSync(path, "wx", 0o600),
  write: (fd, text) => {
    const wanted = Buffer.byteLength(text);
    const written = writeSync(fd, text);
    // A disk that fills up during a small write takes a part of it and reports that only here.
    if (written !== wanted) throw Object.assign(new Error("ENOSPC: short write"), { code: "ENOSPC" });
  },
  sync: fsyncSync,
  close: closeSync,
  syncDirectory: (path) => {
    // Windows has no such thing.
    if (process.platform === "win32") return;
    const fd = openSync(path, "r");
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  },
  read: (path) => {
    const stats = lstatSync(path, MAYBE);
    if (stats === undefined) return undefined;
    if (!stats.isFile()) throw new ForeignError(path, `it is ${describe(stats)}`);
    if (stats.size > SIZE_MAX) throw new ForeignError(path, `it has ${stats.size} bytes`);
    // The types know flags only as letters.
    return orUndefined(() => readFileSync(path, { encoding: "utf8", flag: READ_FLAGS as never }));
  },
  times: (path) => lstatSync(path, MAYBE),
  exists: existsSync,
  list: (path) => orUndefined(() => readdirSync(path)),
  info: (path) => {
    const stats = lstatSync(path, MAYBE);
    return stats && { kind: kindOf(stats), uid: stats.uid, gid: stats.gid, mode: stats.mode & 0o7777 };
  },
  readlink: (path) => readlinkSync(path),
  fileSystemType: (path) => statfsSync(path).type,
};

/** The system's name of an error: `ENOENT`, `EEXIST`, … */
export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Writes a new file, complete or not at all. `lasting`: its text survives a power cut. */
export function createFile(path: string, text: string, lasting = false): void {
  const fd = disk.open(path);
  try {
    disk.write(fd, text);
    if (lasting) disk.sync(fd);
  } catch (error) {
    disk.close(fd);
    remove(path);
    throw error;
  }
  disk.close(fd);
}

/** Links. `"exists"`: the new name is taken. `"gone"`: the source or the directory is missing. */
export function tryLink(from: string, to: string): "linked" | "exists" | "gone" | "too many" {
  try {
    disk.link(from, to);
    return "linked";
  } catch (error) {
    const code = codeOf(error);
    if (code === "EEXIST") return "exists";
    if (code === "ENOENT" || code === "ENOTDIR") return "gone";
    if (code === "EMLINK") return "too many";
    throw error;
  }
}

/** Renames. `false`: the source is gone or the target is taken, so another process was faster. */
export function tryRename(from: string, to: string): boolean {
  return attempted(() => disk.rename(from, to), ["ENOENT", "ENOTEMPTY", "EEXIST", "ENOTDIR", "EPERM"]);
}

/** Removes a file. `false`: there was none. */
export function remove(path: string): boolean {
  return attempted(() => disk.unlink(path), ["ENOENT", "ENOTDIR", "EISDIR", "EPERM"]);
}

/** Removes what nothing needs any more. If that fails it is left to the cleanup: what was done before counts all the same. */
export function tryRemove(path: string): void {
  try {
    remove(path);
  } catch {
    // Some file systems need space for it.
  }
}

/** Sets until when a lease lasts. `false`: the file is gone. */
export function trySetTime(path: string, mtimeMs: number): boolean {
  return attempted(() => disk.utimes(path, mtimeMs), ["ENOENT", "ENOTDIR", "ELOOP"]);
}

/** Syncs a directory. `false`: it is gone. */
export function trySyncDirectory(path: string): boolean {
  return attempted(() => disk.syncDirectory(path), ["ENOENT", "ENOTDIR"]);
}

/** Makes a directory. `false`: it exists already. */
export function tryMkdir(path: string): boolean {
  return attempted(() => disk.mkdir(path), ["EEXIST"]);
}

/** Removes a directory if it is empty. */
export function tryRmdir(path: string): boolean {
  return attempted(() => disk.rmdir(path), ["ENOENT", "ENOTEMPTY", "EEXIST", "ENOTDIR", "EPERM", "EBUSY"]);
}

function kindOf(stats: Stats): FileInfo["kind"] {
  if (stats.isDirectory()) return "directory";
  if (stats.isFile()) return "file";
  if (stats.isSocket()) return "socket";
  return stats.isSymbolicLink() ? "link" : "other";
}

/** For error messages. */
export function describe(what: Stats | FileInfo): string {
  const kind = "kind" in what ? what.kind : kindOf(what);
  return { directory: "a directory", file: "a file", socket: "a socket", link: "a symbolic link", other: "no file" }[
    kind
  ];
}

/** Throws if something else is where one of our directories belongs. A missing one is fine. */
export function checkDirectory(path: string): void {
  const found = disk.info(path);
  if (found !== undefined && found.kind !== "directory") throw new ForeignError(path, `it is ${describe(found)}`);
}

function attempted(act: () => void, expected: readonly string[]): boolean {
  try {
    act();
    return true;
  } catch (error) {
    if (expected.includes(codeOf(error))) return false;
    throw error;
  }
}

function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return undefined;
    throw error;
  }
}
