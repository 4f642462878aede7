/**
 * One lease file. Its text never changes. Its mtime is the instant, by the machine's monotonic clock, at which its leases are
 * over, so one utimes() renews them and all processes see it.
 *
 * The order makes this safe: a process that wants to take over reads the clock *before* the mtime. The holder does not renew
 * once its time is over, reads the clock again *after* the utimes(), and believes the renewal only if its old time was
 * still not over. A lease file whose time is over while it holds is never used again.
 */
import { join } from "node:path";
import type { Claim, Granted } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { createFile, disk, remove, trySetTime } from "./disk.ts";
import { ENDED_MS } from "./liveness.ts";
import { type ProcessIdentity, thisProcess } from "./process-identity.ts";
import { freshName, type DirectoryPaths } from "./directory.ts";
import { isId } from "./checked-text.ts";
import { type LeaseFacts, writeEntry } from "./records.ts";
import { newFileId } from "./resume.ts";

/** A renewal that took longer is made again: it may have undone one of another process. Others add more than this to every end. */
const SLOW_MS = 1;
const SLOW_MAX = 4;

/** What a shared lease file knows about each of its leases. */
export interface SharedLease {
  readonly claim: Claim;
  /** When it was last renewed, by the core's clock. */
  readonly fromMs: number;
}

/** A lease file of this process. */
export interface LeaseFile {
  readonly facts: LeaseFacts;
  readonly path: string;
  /** Which file it is: another file under this path says nothing about what is linked elsewhere. */
  readonly ino: number;
  /** What it says, apart from its id: claims with the same key can use it, too. Empty: no other claim may, and it says whose it is. */
  readonly shareKey: string;
  /** Until when its claims last, by the machine's clock. */
  untilMs: number;
  /** The core's clock just before that was written: trust counts from here. */
  fromMs: number;
  /** The leases that share it, by lock. Absent: it is one claim's own. */
  readonly leases: Map<string, SharedLease> | undefined;
}

export interface LeaseFileOptions {
  readonly paths: DirectoryPaths;
  readonly clock: Clock;
  readonly instance: string;
  /** Leases outlive this process, so its pid does not show whether they are still wanted. */
  readonly detached: boolean;
  /** See {@link FileOptions.beforeDetached}. */
  readonly beforeDetached?: ((lease: Granted) => void) | undefined;
}

/** Makes and renews lease files. Which claim gets which is decided in `lease-files.ts`. */
export class LeaseFileStore {
  readonly #options: LeaseFileOptions;
  /** The leases end with this process. */
  readonly #process: ProcessIdentity;

  constructor(options: LeaseFileOptions) {
    this.#options = options;
    this.#process = options.detached ? { ...thisProcess(), pid: 0, start: "" } : thisProcess();
  }

  /** A file that one claim has for itself, at a time. `named`: it has the claim's id, so another thread or process can find it. */
  forOne(claim: Claim, shareKey: string, named: boolean): LeaseFile {
    const id = this.#options.detached ? newFileId(claim.id) : this.#idFor(claim, named);
    return this.#make(claim, id, shareKey, undefined);
  }

  /** A file to wait by for a lease that is to outlive this process. The wait itself ends with the process. */
  forWaiting(claim: Claim): LeaseFile {
    return this.#make(claim, newFileId(claim.id), "", undefined, thisProcess());
  }

  /** A file for all claims with this share key, on different locks. */
  forMany(claim: Claim, shareKey: string): LeaseFile {
    return this.#make(claim, freshName(), shareKey, new Map());
  }

  /** The lease file with these facts, which another thread or process made. */
  adopt(facts: LeaseFacts): LeaseFile | undefined {
    const path = join(this.#options.paths.leaseFiles, facts.id);
    const times = disk.times(path);
    return times && { facts, path, ino: times.ino, shareKey: "", untilMs: times.mtimeMs, fromMs: 0, leases: undefined };
  }

  /** Renews what holds or waits by this file; it never ends sooner than before. `false`: its time was over, or the file is gone. */
  renew(file: LeaseFile, ttlMs: number): boolean {
    const { clock } = this.#options;
    if (file.leases === undefined && (this.#options.detached || machineMs(clock) >= file.untilMs)) this.#reread(file);
    for (let tries = 0; tries < SLOW_MAX; tries++) {
      const untilMs = file.untilMs;
      const fromMs = machineMs(clock);
      if (fromMs >= untilMs) return false;
      if (!this.extend(file, ttlMs, untilMs)) return false;
      const nowMs = machineMs(clock);
      if (nowMs >= untilMs) {
        // Too late: another process may have found it over. It ends when it would have ended.
        disk.utimes(file.path, untilMs);
        file.untilMs = untilMs;
        return false;
      }
      // After a stop in between, what we wrote may be an earlier end than that of another process, which believes in that. Only a
      // lease that is bound to no process is renewed by several.
      if (nowMs - fromMs <= SLOW_MS || !this.#options.detached) return true;
    }
    return true;
  }

  /**
   * Gives the file that ttl from now on, and at least until `notBeforeMs`. Without that, whatever it had before: right only while
   * nothing holds or waits by it. `false`: it is gone.
   */
  extend(file: LeaseFile, ttlMs: number, notBeforeMs = 0): boolean {
    const { clock } = this.#options;
    const fromMs = clock.now();
    const untilMs = Math.max(machineMs(clock) + ttlMs, notBeforeMs);
    if (!trySetTime(file.path, untilMs)) return false;
    // Restored from a backup, for example: others judge by the file that they have linked.
    if (disk.times(file.path)?.ino !== file.ino) return false;
    file.untilMs = untilMs;
    file.fromMs = fromMs;
    return true;
  }

  /** Ends its time for good, which needs no space on the disk. `link`: by another of its names. `false`: that is gone. */
  expire(file: LeaseFile, link: string = file.path): boolean {
    const there = trySetTime(link, ENDED_MS);
    if (!there) trySetTime(file.path, ENDED_MS);
    file.untilMs = ENDED_MS;
    return there;
  }

  /** Removes a file if its time is over: it is never used again, by any process. */
  removeOver(path: string): void {
    const nowMs = machineMs(this.#options.clock);
    if ((disk.times(path)?.mtimeMs ?? Infinity) <= nowMs) remove(path);
  }

  #make(claim: Claim, id: string, shareKey: string, leases: LeaseFile["leases"], process = this.#process): LeaseFile {
    const { instance, paths } = this.#options;
    const path = join(paths.leaseFiles, id);
    const { mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta } = claim;
    const terms = { mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta };
    const facts: LeaseFacts = {
      kind: "lease",
      id,
      instance,
      process,
      ...terms,
      ...(shareKey === "" && { claim: claim.id }),
      ...(claim.lingerMs && { lingerMs: claim.lingerMs }),
      ...(leases === undefined && claim.wantsOutcome === true && { wantsOutcome: true }),
    };
    createFile(path, writeEntry(facts));
    const ino = disk.times(path)?.ino ?? 0;
    const file: LeaseFile = { facts, path, ino, shareKey, untilMs: 0, fromMs: 0, leases };
    if (!this.extend(file, ttlMs)) throw vanished(path);
    return file;
  }

  /**
   * Only a file that serves no other claim afterwards may have its claim's id: a late release of a claim that has ended would
   * find the file by that id, and end the lease of the claim that uses it now.
   */
  #idFor({ id }: Claim, named: boolean): string {
    if (!named || !isId(id)) return freshName();
    // A claim that ended and asks again: its old file is linked nowhere that counts.
    remove(join(this.#options.paths.leaseFiles, id));
    return id;
  }

  /** A worker thread may have renewed it, or another process a lease that is bound to none. */
  #reread(file: LeaseFile): void {
    const times = disk.times(file.path);
    if (times !== undefined) file.untilMs = Math.max(file.untilMs, times.mtimeMs);
  }
}

/** As the system says it: the directory is made again, and the step is repeated. */
function vanished(path: string): Error {
  return Object.assign(new Error(`${path} vanished`), { code: "ENOENT" });
}
