/**
 * The directory in which the command line notes things down, and its files. Another user who could write there could end, keep or
 * hide our leases; so it is used only if it is ours alone, and only plain, small files in it are read.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { userInfo } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";

import { checkOwn, checkParents } from "../backends/file/directory-checks.ts";
import { UsageError } from "./usage-error.ts";
import type { Io } from "./io.ts";

/** Many times what any note of ours has. */
const SIZE_MAX = 65_536;
/** Neither follows a link nor waits for the other end of a pipe. */
const CAREFUL = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** A note that could not be written: the disk is full, say. The file is as it was. */
export class UnwrittenNoteError extends Error {
  override readonly name = "UnwrittenNoteError";

  constructor(path: string, cause: unknown) {
    super(`${path} could not be written (${cause instanceof Error ? cause.message : String(cause)})`, { cause });
  }
}

export class StateDir {
  readonly path: string;

  /** Throws a {@link UsageError} if the directory is there and not ours alone. One that is missing is made when it is needed. */
  constructor(io: Io) {
    this.path = pathOf(io);
    this.#check();
  }

  /** Throws a {@link UsageError} where nothing can be written. */
  prepare(probe: string): void {
    try {
      this.#make();
      const path = this.#at(`${probe}.${randomBytes(6).toString("hex")}`);
      writeNew(path, "");
      rmSync(path);
    } catch (error) {
      throw error instanceof UsageError ? error : this.#refusal(error instanceof Error ? error.message : String(error));
    }
  }

  /** `undefined`: there is no such file. */
  read(name: string): string | undefined {
    return this.#open(name, constants.O_RDONLY, (fd, size) => {
      const bytes = Buffer.alloc(size);
      return bytes.toString("utf8", 0, readSync(fd, bytes, 0, size, 0));
    });
  }

  /** Writes the file, complete or not at all, whatever has its name. */
  write(name: string, text: string): void {
    this.#make();
    const path = this.#at(name);
    const aside = `${path}.${randomBytes(6).toString("hex")}`;
    try {
      writeNew(aside, text);
      renameSync(aside, path);
    } catch (error) {
      throw new UnwrittenNoteError(path, error);
    }
  }

  append(name: string, text: string): void {
    this.#make();
    this.#open(name, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, (fd, size) => {
      try {
        writeSync(fd, text);
      } catch (error) {
        // Made for this, and empty.
        if (size === 0) this.remove(name);
        throw new UnwrittenNoteError(this.#at(name), error);
      }
    });
  }

  /** The plain files there, and when each was last written. */
  files(): readonly { readonly name: string; readonly mtimeMs: number }[] {
    const files: { name: string; mtimeMs: number }[] = [];
    for (const name of namesIn(this.path)) {
      const found = lstatSync(this.#at(name), { throwIfNoEntry: false });
      if (found?.isFile() === true) files.push({ name, mtimeMs: found.mtimeMs });
    }
    return files;
  }

  remove(name: string): void {
    rmSync(this.#at(name), { force: true });
  }

  #at(name: string): string {
    return join(this.path, name);
  }

  #open<T>(name: string, flags: number, use: (fd: number, size: number) => T): T | undefined {
    const path = this.#at(name);
    let fd: number;
    try {
      fd = openSync(path, flags | CAREFUL, 0o600);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") return undefined;
      throw strange(
        path,
        { ELOOP: "it is a symbolic link", ENXIO: "it is no file", EISDIR: "it is no file" }[code ?? ""] ?? message,
      );
    }
    try {
      const stats = fstatSync(fd);
      if (!stats.isFile()) throw strange(path, "it is no file");
      if (stats.size > SIZE_MAX) throw strange(path, `it has ${stats.size} bytes`);
      return use(fd, stats.size);
    } finally {
      closeSync(fd);
    }
  }

  #make(): void {
    makeFolder(this.path);
    this.#check();
  }

  #check(): void {
    const refuse = (why: string): Error => this.#refusal(why);
    if (lstatSync(this.path, { throwIfNoEntry: false }) === undefined) return;
    checkParents(this.path, refuse);
    checkOwn(this.path, this.path, refuse);
  }

  #refusal(why: string): UsageError {
    const end = why.endsWith(".") ? why : `${why}.`;
    return new UsageError(
      `claims cannot be noted down in ${this.path}: ${end} Set HOLDFAST_STATE_DIR to a directory of your own`,
      "acquire",
    );
  }
}

function strange(path: string, why: string): UsageError {
  return new UsageError(`${path} is not a note of holdfast's (${why}): remove it`);
}

function pathOf({ env }: Io): string {
  const named = env["HOLDFAST_STATE_DIR"];
  if (named === "") throw new UsageError("HOLDFAST_STATE_DIR is empty: name a directory, or unset it");
  if (named !== undefined) return resolve(named);
  // From the passwd entry, like the locks themselves: cron has another $HOME than a login.
  let home = "";
  try {
    home = userInfo().homedir;
  } catch {
    // A uid without a passwd entry, as in many containers.
  }
  if (!isAbsolute(home)) throw new UsageError("this user has no home directory for notes: set HOLDFAST_STATE_DIR");
  return join(home, ".local", "state", "holdfast", "claims");
}

function writeNew(path: string, text: string): void {
  const fd = openSync(path, "wx", 0o600);
  let written: number | undefined;
  try {
    written = writeSync(fd, text);
  } finally {
    closeSync(fd);
    if (written !== Buffer.byteLength(text)) rmSync(path, { force: true });
  }
  // A disk that fills up within one small write takes a part of it.
  if (written !== Buffer.byteLength(text)) throw new Error("the disk is full");
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Not with `recursive`: Node tries for ever where a directory that is there takes no others, such as /proc. */
function makeFolder(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) return;
  const parent = dirname(path);
  if (parent !== path) makeFolder(parent);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
