/**
 * Removes what dead processes left: their lease files, sockets and half-made directories, and locks that were idle
 * for a while. It never decides about a lock that is in use: any process could do any of this at any moment.
 * It removes only what has a name that this backend makes, is of the right kind and says what we write. What cannot be
 * read or removed is skipped.
 */
import { connect } from "node:net";
import { join } from "node:path";
import type { Clock, Timer } from "../../contract/clock.ts";
import { MAX_TTL_MS } from "../../contract/duration.ts";
import { jitter } from "../../contract/random.ts";
import { hasRunningCompanion, readCompanions } from "./companions.ts";
import { codeOf, createFile, disk, type FileInfo, remove, tryRmdir } from "./disk.ts";
import { discard, epochNumber, epochsIn, incarnationsIn, isOurDirectory, nameOfLock } from "./epochs.ts";
import type { ForcedRecords } from "./force-release.ts";
import { livenessOf } from "./liveness.ts";
import { isDead, sharesClock } from "./process-identity.ts";
import { Lock } from "./lock.ts";
import type { LockOptions } from "./lock-options.ts";
import { isFreshName } from "./directory.ts";
import { Queue } from "./queue.ts";
import { removeStrays, retireIfIdle } from "./strays.ts";
import { isId } from "./checked-text.ts";
import { isEpochId, readLeaseFile } from "./records.ts";

const FIRST_MS = 2000;
const EVERY_MS = 60_000;
/** Something half made is finished within milliseconds. If it is removed too early, it is made again. */
const HALF_MADE_MS = 60_000;
const IDLE_LOCK_MS = 600_000;
/** Lease files of running processes, and those that cannot be judged from here. */
const STALE_FILE_MS = 3_600_000;
const SLICE = 50;
/** close() does not wait longer than this for the rest of a round. */
const LAST_MS = 500;
const SOCKET_MS = 500;
/** A lease file has a fresh name, or its claim's id, or both. */
const LEASE_FILE_NAME = /^(?:[-_A-Za-z0-9]{16}|[-_A-Za-z0-9]{22}|[-_A-Za-z0-9]{39})$/;

type Visit = (path: string, name: string) => unknown;

export class Cleanup {
  readonly #options: LockOptions;
  readonly #forced: ForcedRecords;
  readonly #clock: Clock;
  #timer: Timer;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;
  /** When to leave the rest to the next cleanup. */
  #endMs = Infinity;

  constructor(options: LockOptions, forced: ForcedRecords, clock: Clock) {
    this.#options = options;
    this.#forced = forced;
    this.#clock = clock;
  }

  start(): void {
    this.#schedule(jitter(FIRST_MS, 0.5, 1.5));
  }

  stop(): void {
    this.#stopped = true;
    this.#clock.clearTimer(this.#timer);
  }

  /** The last round, which ends soon: for processes that do not run long enough for another one. */
  async last(): Promise<void> {
    this.#endMs = this.#clock.now() + LAST_MS;
    await this.#round;
    if (this.#isDue()) await this.clean();
  }

  /** Cleans once, in slices. What cannot be removed is left for the next time. */
  async clean(idleMs: number = IDLE_LOCK_MS, halfMadeMs: number = HALF_MADE_MS): Promise<void> {
    const { paths } = this.#options;
    let count = 0;
    const each = async (directory: string, kinds: readonly FileInfo["kind"][], visit: Visit): Promise<void> => {
      for (const name of orNothing(() => disk.list(directory)) ?? []) {
        if (++count % SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
        if (this.#clock.now() > this.#endMs) return;
        const path = join(directory, name);
        const kind = orNothing(() => disk.info(path)?.kind);
        if (kind === undefined || !kinds.includes(kind)) continue;
        try {
          await visit(path, name);
        } catch {
          // It stays, and the next one is visited.
        }
      }
    };
    await each(paths.trash, ["file", "directory"], (path, name) => {
      if (isFreshName(name.replace(/\.2$/, "")) && this.#isOld(path, halfMadeMs)) discard(path);
    });
    await each(paths.leaseFiles, ["file"], (path, name) => this.#file(path, name, halfMadeMs));
    await each(paths.companions, ["file"], (path, name) => isFreshName(name) && this.#companions(path));
    await each(paths.sockets, ["socket"], (path, name) => {
      return isFreshName(name) && this.#isOld(path, halfMadeMs) ? this.#socket(path) : undefined;
    });
    await each(paths.queues, ["directory"], (path, name) => {
      if (!isOurDirectory(name)) return;
      // Listing a queue removes its dead tickets.
      new Queue(name, this.#options, this.#options.facts).list();
      tryRmdir(path);
    });
    await each(paths.locks, ["directory"], (path, name) => isOurDirectory(name) && this.#lock(path, name, idleMs));
    orNothing(() => this.#forced.removeOld());
  }

  #schedule(afterMs: number): void {
    if (this.#stopped) return;
    this.#timer = this.#clock.setTimer(() => {
      this.#round = this.#isDue() ? this.clean() : Promise.resolve();
      // What it could not remove is found again.
      void this.#round.then(() => this.#schedule(jitter(EVERY_MS, 0.5, 1.5)));
    }, afterMs);
  }

  /** About one process at a time: the stamp's age says when a cleanup last began. */
  #isDue(): boolean {
    const stamp = join(this.#options.paths.root, "cleaned");
    const wallMs = this.#options.clock.wall();
    try {
      const times = disk.times(stamp);
      if (times !== undefined && Math.abs(wallMs - times.mtimeMs) < EVERY_MS) return false;
      if (times === undefined) createFile(stamp, "");
      disk.utimes(stamp, wallMs);
      return true;
    } catch {
      return false;
    }
  }

  #isOld(path: string, ms: number): boolean {
    const times = disk.times(path);
    return times !== undefined && Math.abs(this.#options.clock.wall() - times.ctimeMs) >= ms;
  }

  #file(path: string, name: string, halfMadeMs: number): void {
    // Throws for what we do not write, which must not be removed.
    const facts = isId(name) ? readLeaseFile(path) : undefined;
    if (facts === undefined) {
      if (LEASE_FILE_NAME.test(name) && disk.times(path)?.size === 0 && this.#isOld(path, halfMadeMs)) remove(path);
      return;
    }
    if (facts.id !== name || livenessOf(this.#options, facts, path).alive) return;
    // Its lock may still have to keep its place for a while: the file says how long.
    const keepMs = facts.lockDelayMs + facts.minHoldMs;
    // A lease may have got another ttl since: its lock says which. Where the file's mtime says nothing to us, it may be the longest.
    const staleMs = keepMs + STALE_FILE_MS + (sharesClock(facts.process) ? 0 : MAX_TTL_MS);
    if (isDead(facts.process) ? keepMs === 0 || this.#isOld(path, keepMs) : this.#isOld(path, staleMs)) remove(path);
  }

  #companions(path: string): void {
    const list = readCompanions(path);
    if (list !== undefined && isDead(list.process) && !hasRunningCompanion(list)) remove(path);
  }

  /** A dead process does not accept connections on its socket. */
  async #socket(path: string): Promise<void> {
    await new Promise<void>((resolve) => {
      const socket = connect({ path });
      socket.setTimeout(SOCKET_MS, () => socket.destroy());
      socket.on("error", (error) => {
        if (codeOf(error) === "ECONNREFUSED") remove(path);
      });
      socket.on("connect", () => socket.destroy());
      socket.on("close", () => resolve());
    });
  }

  #lock(path: string, directory: string, idleMs: number): void {
    const name = nameOfLock(this.#options.paths, directory);
    if (name === undefined) {
      tryRmdir(path);
      return;
    }
    const lock = new Lock(name, this.#options);
    for (const incarnation of incarnationsIn(path)) {
      if (disk.info(incarnation)?.kind !== "directory") continue;
      discardUnchosen(incarnation);
      removeStrays(lock, incarnation);
    }
    // Foreign files beside a lock do no harm. But if the lock were removed, they would prevent making it again.
    if (disk.list(path)?.every(isFreshName) !== true) return;
    // A file's times are finer than the clock's milliseconds: without an age limit, a lock used in this millisecond is idle too.
    const sinceMs = idleMs === 0 ? Infinity : this.#options.clock.wall() - idleMs;
    retireIfIdle(lock, sinceMs);
  }
}

/** Removes epochs that were prepared and not chosen: their number is not above that of an existing epoch. */
function discardUnchosen(incarnation: string): void {
  const newest = Math.max(0, ...epochsIn(incarnation).map(epochNumber));
  for (const name of disk.list(incarnation) ?? []) {
    const id = name.slice(1);
    if (name.startsWith("n") && isEpochId(id) && epochNumber(id) <= newest) discard(join(incarnation, name));
  }
}

function orNothing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
