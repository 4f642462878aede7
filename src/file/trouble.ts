/** What the system's errors mean for whoever wanted a lock. */
import { LockBackendError, quote } from "../errors.ts";
import { codeOf } from "./disk.ts";
import { UnreadableError } from "./records.ts";

const MEANINGS: Readonly<Record<string, { readonly what: string; readonly fatal: boolean }>> = {
  ENOSPC: { what: "the disk is full. Free some space there; leases that are held stay held", fatal: false },
  EDQUOT: { what: "the disk quota is used up. Free some space there; leases that are held stay held", fatal: false },
  EACCES: { what: "permission denied. The directory and all in it must belong to this process's user", fatal: true },
  EPERM: {
    what: "the system does not permit it. The directory and all in it must belong to this process's user",
    fatal: true,
  },
  EROFS: { what: "the file system is read-only", fatal: true },
  ENOTDIR: { what: "a part of the path is not a directory", fatal: true },
  ENAMETOOLONG: { what: "the path is too long", fatal: true },
  EMFILE: { what: "this process has too many open files", fatal: false },
};

/** The error as this backend's users see it. */
export function explain(error: unknown, name: string, directory: string): Error {
  if (error instanceof LockBackendError) {
    return error.lock === "" && name !== "" ? renamed(error, name) : error;
  }
  if (error instanceof TypeError) return error;
  const lock = name === "" ? "Locks" : `Lock ${quote(name)}`;
  if (error instanceof UnreadableError) {
    const message = `${lock} cannot be read: ${error.message}. If no process uses the lock, remove the lock's directory.`;
    return new LockBackendError("file", name, message, { fatal: true, cause: error });
  }
  const meaning = MEANINGS[codeOf(error)];
  const detail = meaning?.what ?? (error instanceof Error ? error.message : String(error));
  const message = `${lock} cannot be used in ${directory}: ${detail}.`;
  return new LockBackendError("file", name, message, { fatal: meaning?.fatal ?? false, cause: error });
}

/** Every failed try is somebody else's success: this many in a row do not happen in a sound directory. */
export function tooBusy(name: string): LockBackendError {
  return new LockBackendError("file", name, `Lock ${quote(name)} changes faster than it can be read.`);
}

/** True where a release that needs no space still works. */
export function isFull(error: unknown): boolean {
  return codeOf(error) === "ENOSPC" || codeOf(error) === "EDQUOT";
}

function renamed({ message, fatal, cause }: LockBackendError, name: string): LockBackendError {
  return new LockBackendError("file", name, message, { fatal, cause });
}
