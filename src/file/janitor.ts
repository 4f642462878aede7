/**
 * Removes what dead processes left: their owner files, sockets and half-made directories, and locks that nobody has used
 * for a while. It never decides about a lock that is in use: everything it does could be done at any moment by anybody.
 */
import { connect } from "node:net";
import { join } from "node:path";
import type { Clock, Timer } from "../clock.ts";
import { codeOf, createFile, disk, remove, removeTree, tryRmdir } from "./disk.ts";
import { fateOf, isAccompanied } from "./fate.ts";
import { isDead } from "./life.ts";
import { Lock, type LockOptions } from "./lock.ts";
import { epochNumber, nameOfLock } from "./epochs.ts";
import { readOwner } from "./owner-file.ts";
import { Queue } from "./queue.ts";
import { parseCompany } from "./records.ts";

const FIRST_MS = 2000;
const EVERY_MS = 60_000;
/** What is being made is there for milliseconds. Taken away too early, it is made again. */
const HALF_MADE_MS = 60_000;
const IDLE_LOCK_MS = 600_000;
/** A living process's own owner files, and those that cannot be judged from here. */
const STALE_OWNER_MS = 3_600_000;
const SLICE = 50;

export class Janitor {
  readonly #around: LockOptions;
  readonly #clock: Clock;
  #timer: Timer;
  #stopped = false;

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

  /** For processes too short-lived to clean up on the way. */
  async last(): Promise<void> {
    if (this.#isDue()) await this.clean().catch(() => {});
  }

  /** Cleans once, in slices. Whatever cannot be removed is left for the next time. */
  async clean(idleMs: number = IDLE_LOCK_MS, halfMadeMs: number = HALF_MADE_MS): Promise<void> {
    const { place } = this.#around;
    let count = 0;
    const each = async (directory: string, visit: (path: string, name: string) => unknown): Promise<void> => {
      for (const name of disk.list(directory) ?? []) {
        if (++count % SLICE === 0) await new Promise((resolve) => setImmediate(resolve));
        await visit(join(directory, name), name);
      }
    };
    await each(place.trash, (path) => this.#isOld(path, halfMadeMs) && removeTree(path));
    await each(place.owners, (path) => this.#owner(path, halfMadeMs));
    await each(place.companions, (path) => this.#company(path));
    await each(place.sockets, (path) => this.#isOld(path, halfMadeMs) && this.#socket(path));
    await each(place.queues, (path, directory) => {
      // Looking at a queue removes its dead tickets.
      new Queue(directory, this.#around, this.#around.facts).list();
      tryRmdir(path);
    });
    await each(place.locks, (path, directory) => this.#lock(path, directory, idleMs));
    this.#around.forced.tidy();
  }

  #schedule(afterMs: number): void {
    if (this.#stopped) return;
    this.#timer = this.#clock.setTimer(() => {
      // Nobody waits for it, and what it could not remove it will find again.
      const done = this.#isDue() ? this.clean().catch(() => {}) : Promise.resolve();
      void done.then(() => this.#schedule(EVERY_MS * (0.5 + Math.random())));
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

  #owner(path: string, halfMadeMs: number): void {
    let facts: ReturnType<typeof readOwner>;
    try {
      facts = readOwner(path);
    } catch {
      // Not what we write: not ours to remove.
      return;
    }
    if (facts === undefined) {
      if (this.#isOld(path, halfMadeMs)) remove(path);
      return;
    }
    if (fateOf(this.#around, facts, path).alive) return;
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
    const text = disk.read(path);
    const company = text === undefined ? undefined : parseCompany(text);
    if (company !== undefined && isDead(company.life) && !isAccompanied(company)) remove(path);
  }

  /** Nobody listens behind the socket of a dead process. */
  async #socket(path: string): Promise<void> {
    await new Promise<void>((resolve) => {
      const socket = connect({ path });
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
    for (const incarnation of disk.list(path) ?? []) discardLosers(join(path, incarnation));
    // A file's times are finer than the clock's milliseconds: what was used in this very one is idle, too, without patience.
    const sinceMs = idleMs === 0 ? Infinity : this.#around.moment.wallMs() - idleMs;
    new Lock(name, this.#around).retireIfIdle(sinceMs);
  }
}

/** Epochs that were prepared and not chosen: their number is that of an epoch that is there. */
function discardLosers(home: string): void {
  const names = disk.list(home) ?? [];
  const newest = Math.max(0, ...names.filter((name) => /^e\d/.test(name)).map((name) => epochNumber(name.slice(1))));
  for (const name of names) {
    if (/^n\d/.test(name) && epochNumber(name.slice(1)) <= newest) removeTree(join(home, name));
  }
}
