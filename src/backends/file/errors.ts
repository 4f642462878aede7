/** The errors of this backend, with what the system's errors mean for its users. */
import type { Claim } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { warn } from "../../contract/warning.ts";
import { codeOf, ForeignError } from "./disk.ts";

const MEANINGS: Readonly<Record<string, { readonly what: string; readonly fatal: boolean }>> = {
  ENOSPC: { what: "the disk is full. Free some space there; leases that are held stay held", fatal: false },
  EDQUOT: { what: "the disk quota is used up. Free some space there; leases that are held stay held", fatal: false },
  EACCES: { what: "permission denied. The directory and all in it must belong to this process's user", fatal: true },
  EPERM: {
    what: "the system does not permit it. The directory and all in it must belong to this process's user",
    fatal: true,
  },
  EROFS: { what: "the file system is read-only", fatal: true },
  ELOOP: { what: "a symbolic link there leads to itself. This backend makes none", fatal: true },
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
  if (error instanceof ForeignError) {
    const message = `${lock} cannot be used: ${error.message}. Other locks are not concerned. If no process uses this one, move that out of the lock directory, or remove it.`;
    return new LockBackendError("file", name, message, { fatal: true, cause: error });
  }
  const meaning = MEANINGS[codeOf(error)];
  const detail = meaning?.what ?? (error instanceof Error ? error.message : String(error));
  const paths = meaning !== undefined && error instanceof Error ? pathsOf(error) : "";
  const message = `${lock} cannot be used in ${directory}: ${detail}${paths}.`;
  return new LockBackendError("file", name, message, { fatal: meaning?.fatal ?? false, cause: error });
}

/** Every failed try is another process's success: so many in a row do not happen in an intact directory. */
export function tooBusy(name: string): LockBackendError {
  return new LockBackendError("file", name, `Lock ${quote(name)} changes faster than it can be read.`);
}

/** Another process changed the lock several times while this one was in the middle of its release. */
export function unknownOutcome(name: string): LockBackendError {
  const message = `It is not known whether the outcome for lock ${quote(name)} was kept: others have changed the lock since. Ask what it is now.`;
  return new LockBackendError("file", name, message);
}

/** What could not be removed when a backend was closed. */
export class CloseErrors {
  readonly #directory: string;
  readonly #errors: Error[] = [];

  constructor(directory: string) {
    this.#directory = directory;
  }

  collect(name: string, step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#errors.push(explain(error, name, this.#directory));
    }
  }

  /** Throws if there were any. */
  throwIfAny(): void {
    const [first] = this.#errors;
    if (first === undefined) return;
    const others = this.#errors.length === 1 ? "" : ` ${this.#errors.length - 1} more could not be removed either.`;
    const message = `The file backend is closed, but something of it is left in ${this.#directory}, and ends with its ttl: ${first.message}${others}`;
    throw new LockBackendError("file", "", message, { cause: first });
  }
}

/** Locks that this process has been warned about: once is enough. */
const warned = new Set<string>();
const WARNED_MAX = 1000;

/** A query for many locks leaves this one out. */
export function warnOfUnreadable(error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  if (warned.has(message) || warned.size >= WARNED_MAX) return;
  warned.add(message);
  warn("HOLDFAST_UNREADABLE_LOCK", message);
}

export function tooShort({ name, ttlMs }: Claim): LockBackendError {
  const message = `Lock ${quote(name)} was not taken: its ttl of ${ttlMs} ms was over before the lease could begin, several times in a row. Use a longer ttl.`;
  return new LockBackendError("file", name, message);
}

/** True where a release that needs no space still works. */
export function isFull(error: unknown): boolean {
  return codeOf(error) === "ENOSPC" || codeOf(error) === "EDQUOT";
}

/** Of a call that got two paths, the second is the one that was to be made. */
function pathsOf(error: Error): string {
  const { path, dest = path } = error as NodeJS.ErrnoException & { readonly dest?: string };
  return dest === undefined ? "" : ` (${dest})`;
}

function renamed({ message, fatal, cause }: LockBackendError, name: string): LockBackendError {
  return new LockBackendError("file", name, message, { fatal, cause });
}
