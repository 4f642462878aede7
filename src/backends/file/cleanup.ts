/**
 * Removes what dead processes left: their owner files, sockets and half-made directories, and locks that nobody has used
 * for a while. It never decides about a lock that is in use: everything it does could be done at any moment by anybody.
 * It removes only what has a name that this backend makes, is of the right kind and says what we write. Whatever cannot be
 * read or removed keeps nothing else from being looked at.
 */
import { connect } from "node:net";
import { join } from "node:path";
import type { Clock, Timer } from "../../contract/clock.ts";
import { discard } from "./discard.ts";
import { codeOf, createFile, disk, type Nature, remove, tryRmdir } from "./disk.ts";
import { epochNumber, epochsIn, homesIn, nameOfLock } from "./epochs.ts";
import { fateOf, isAccompanied, readCompany } from "./liveness.ts";
import { isDead } from "./process-identity.ts";
import { Lock, type LockOptions } from "./lock.ts";
import { isOurDirectory } from "./names.ts";
import { readOwner } from "./lease-file.ts";
import { isFreshName } from "./directory.ts";
import { Queue } from "./queue.ts";
import { isEpochId, isId } from "./records.ts";

const FIRST_MS = 2000;
const EVERY_MS = 60_000;
/** What is being made is there for milliseconds. Taken away too early, it is made again. */
const HALF_MADE_MS = 60_000;
const IDLE_LOCK_MS = 600_000;
/** A living process's own owner files, and those that cannot be judged from here. */
const STALE_OWNER_MS = 3_600_000;
const SLICE = 50;
/** Whoever closes does not wait longer than this for the rest of a round. */
const LAST_MS = 500;
const SOCKET_MS = 500;
/** An owner file has a name of its own, or its claim's id, or both. */
const OWNER_NAME = /^(?:[-_A-Za-z0-9]{16}|[-_A-Za-z0-9]{22}|[-_A-Za-z0-9]{39})$/;

type Visit = (path: string, name: string) => unknown;

export class Janitor {
  readonly #around: LockOptions;
  readonly #clock: Clock;
  #timer: Timer;
  #round: Promise<void> = Promise.resolve();
  #stopped = false;
  /** When to leave the rest to others. */
  #endMs = Infinity;

  constructor(around: LockOptions, clock: Clock) {
    this.#around = around;
    this.#clock = clock;
  }

  start(): void {
    this.#schedule(FIRST_MS * (0.5 + Math.random()));
  }

  stop(): void {
    this.#stopped = true;
    this.#clock.clearTimer(this.#timer);
  }

  /** Ends soon: what is under way, and one more round for processes too short-lived to clean up on the way. */
  async last(): Promise<void> {
    this.#endMs = this.#clock.now() + LAST_MS;
    await this.#round;
    if (this.#isDue()) await this.clean();
  }

  /** Cleans once, in slices. Whatever cannot be removed is left for the next time. */
  async clean(idleMs: number = IDLE_LOCK_MS, halfMadeMs: number = HALF_MADE_MS): Promise<void> {
    const { place } = this.#around;
    let count = 0;
    const each = async (directory: string, kinds: readonly Nature["kind"][], visit: Visit): Promise<void> => {
      for (const name of orNothing(() => disk.list(directory)) ?? []) {
        if (++count % SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
        if (this.#clock.now() > this.#endMs) return;
        const path = join(directory, name);
        const kind = orNothing(() => disk.nature(path)?.kind);
        if (kind === undefined || !kinds.includes(kind)) continue;
        try {
          await visit(path, name);
        } catch {
          // It stays, and the next one is looked at.
        }
      }
    };
    await each(place.trash, ["file", "directory"], (path, name) => {
      if (isFreshName(name.replace(/\.2$/, "")) && this.#isOld(path, halfMadeMs)) discard(path);
    });
    await each(place.owners, ["file"], (path, name) => this.#owner(path, name, halfMadeMs));
    await each(place.companions, ["file"], (path, name) => isFreshName(name) && this.#company(path));
    await each(place.sockets, ["socket"], (path, name) => {
      return isFreshName(name) && this.#isOld(path, halfMadeMs) ? this.#socket(path) : undefined;
    });
    await each(place.queues, ["directory"], (path, name) => {
      if (!isOurDirectory(name)) return;
      // Looking at a queue removes its dead tickets.
      new Queue(name, this.#around, this.#around.facts).list();
      tryRmdir(path);
    });
    await each(place.locks, ["directory"], (path, name) => isOurDirectory(name) && this.#lock(path, name, idleMs));
    orNothing(() => this.#around.forced.tidy());
  }

  #schedule(afterMs: number): void {
    if (this.#stopped) return;
    this.#timer = this.#clock.setTimer(() => {
      this.#round = this.#isDue() ? this.clean() : Promise.resolve();
      // What it could not remove it will find again.
      void this.#round.then(() => this.#schedule(EVERY_MS * (0.5 + Math.random())));
    }, afterMs);
  }

  /** One process at a time, about: the stamp's age says when somebody last began. */
  #isDue(): boolean {
    const stamp = join(this.#around.place.root, "cleaned");
    const wallMs = this.#around.moment.wallMs();
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
    return times !== undefined && Math.abs(this.#around.moment.wallMs() - times.ctimeMs) >= ms;
  }

  #owner(path: string, name: string, halfMadeMs: number): void {
    // Throws for what we do not write: it is not ours to remove.
    const facts = isId(name) ? readOwner(path) : undefined;
    if (facts === undefined) {
      if (OWNER_NAME.test(name) && disk.times(path)?.size === 0 && this.#isOld(path, halfMadeMs)) remove(path);
      return;
    }
    if (facts.id !== name || fateOf(this.#around, facts, path).alive) return;
    // Its lock may still have to keep its place for a while: the file tells how long.
    const patienceMs = facts.lockDelayMs + facts.minHoldMs;
    if (
      isDead(facts.life)
        ? patienceMs === 0 || this.#isOld(path, patienceMs)
        : this.#isOld(path, STALE_OWNER_MS + patienceMs)
    ) {
      remove(path);
    }
  }

  #company(path: string): void {
    const company = readCompany(path);
    if (company !== undefined && isDead(company.life) && !isAccompanied(company)) remove(path);
  }

  /** Nobody listens behind the socket of a dead process. */
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
    const name = nameOfLock(this.#around.place, directory);
    if (name === undefined) {
      tryRmdir(path);
      return;
    }
    for (const home of homesIn(path)) if (disk.nature(home)?.kind === "directory") discardLosers(home);
    // In the way of a lock that is made anew, a stranger's things would make it unusable; beside one that is there they harm nobody.
    if (disk.list(path)?.every(isFreshName) !== true) return;
    // A file's times are finer than the clock's milliseconds: what was used in this very one is idle, too, without patience.
    const sinceMs = idleMs === 0 ? Infinity : this.#around.moment.wallMs() - idleMs;
    new Lock(name, this.#around).retireIfIdle(sinceMs);
  }
}

/** Epochs that were prepared and not chosen: their number is that of an epoch that is there. */
function discardLosers(home: string): void {
  const newest = Math.max(0, ...epochsIn(home).map(epochNumber));
  for (const name of disk.list(home) ?? []) {
    const id = name.slice(1);
    if (name.startsWith("n") && isEpochId(id) && epochNumber(id) <= newest) discard(join(home, name));
  }
}

function orNothing<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
