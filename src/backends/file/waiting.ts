/**
 * How a waiting claim learns that it should look again: a hint over a socket, the end of whoever is just ahead of it, a
 * change of the lock's directory (inotify) where there are no sockets, and in any case after a while: polling with jitter.
 */
import { type FSWatcher, watch } from "node:fs";
import type { Clock } from "../../contract/clock.ts";
import type { Hints } from "./wake-up-sockets.ts";
import type { Mine } from "./local-claim.ts";
import type { Obstacle } from "./query.ts";

/** With hints, polling only covers lost ones; without, it is all there is. */
const POLL_MS = 1000;
const BARE_POLL_MS = 60;
/** A ticket is renewed in time, but whoever asks for a ttl of a few milliseconds does not keep the process busy with it. */
const BEAT_MIN_MS = 20;
/**
 * A process that has just closed its sockets is still dying, or its companions are: look again soon, then less and less
 * often, so that the end is seen a fifth later than it came, at most.
 */
const MISS_GROWTH = 1.25;
const MISS_MAX_MS = 100;

interface Expected {
  readonly mine: Mine;
  readonly instances: readonly string[];
  readonly retryMs: number;
}

export class News {
  readonly #hints: Hints;
  readonly #clock: Clock;
  readonly #way: "socket" | "watch" | "poll";
  readonly #expected = new Map<string, Expected>();
  readonly #waiting = new Map<string, () => void>();
  readonly #early = new Set<string>();
  #closed = false;

  constructor(hints: Hints, clock: Clock, way: "socket" | "watch" | "poll") {
    this.#hints = hints;
    this.#clock = clock;
    this.#way = way;
  }

  /** Notes what a refused claim waits for. Returns after how long it should ask again by itself. */
  expect(mine: Mine, { clearsInMs, instances }: Obstacle): number {
    const pollMs = this.#hints.works
      ? POLL_MS * (0.75 + Math.random() / 2)
      : BARE_POLL_MS * (1 / 3 + (Math.random() * 4) / 3);
    const beatMs = Math.max(BEAT_MIN_MS, mine.claim.ttlMs / 3);
    const retryMs = Math.max(1, Math.min(pollMs, clearsInMs + 1, beatMs));
    if (mine.owner !== undefined) this.#expected.set(mine.owner.facts.id, { mine, instances, retryMs });
    return retryMs;
  }

  /** Ends when the claim should look, or when `signal` aborts. */
  async wait(ownerId: string, directory: string | undefined, signal: AbortSignal): Promise<void> {
    const expected = this.#expected.get(ownerId);
    if (expected === undefined || signal.aborted || this.#closed || this.#early.delete(ownerId)) return;
    const undo: (() => unknown)[] = [];
    try {
      await new Promise<void>((resolve) => {
        const end = (): void => resolve();
        this.#waiting.set(ownerId, end);
        signal.addEventListener("abort", end, { once: true });
        const lapse = (): void => {
          expected.mine.misses = 0;
          end();
        };
        const timer = this.#clock.setTimer(lapse, expected.retryMs);
        undo.push(() => signal.removeEventListener("abort", end));
        undo.push(() => this.#clock.clearTimer(timer));
        this.#listen(expected, directory, end, undo);
      });
    } finally {
      for (const step of undo) step();
      this.#waiting.delete(ownerId);
      // The attempt that follows sees for itself, and says anew what to expect.
      this.forget(ownerId);
    }
  }

  /** A hint for this owner file came. `false`: it does not wait. */
  tell(ownerId: string): boolean {
    const expected = this.#expected.get(ownerId);
    if (expected === undefined) return false;
    expected.mine.misses = 0;
    const end = this.#waiting.get(ownerId);
    // It came between the attempt and the watch.
    if (end === undefined) this.#early.add(ownerId);
    else end();
    return true;
  }

  forget(ownerId: string): void {
    this.#expected.delete(ownerId);
    this.#early.delete(ownerId);
  }

  close(): void {
    this.#closed = true;
    for (const end of this.#waiting.values()) end();
  }

  #listen(expected: Expected, directory: string | undefined, end: () => void, undo: (() => unknown)[]): void {
    if (this.#way === "socket" && this.#hints.works) {
      const ended = (): void => {
        const { mine } = expected;
        const pauseMs = mine.misses === 0 ? 0 : Math.min(MISS_MAX_MS, MISS_GROWTH ** mine.misses);
        mine.misses++;
        const timer = this.#clock.setTimer(end, pauseMs);
        undo.push(() => this.#clock.clearTimer(timer));
      };
      for (const instance of expected.instances) undo.push(this.#hints.follow(instance, ended));
      return;
    }
    if (this.#way === "poll" || directory === undefined) return;
    const watcher = tryWatch(directory, end);
    if (watcher !== undefined) undo.push(() => watcher.close());
  }
}

/** `undefined`: the directory has just gone, or the system has no watches left; polling goes on. */
function tryWatch(directory: string, changed: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(directory, { persistent: false }, changed);
    watcher.on("error", () => {});
    return watcher;
  } catch {
    return undefined;
  }
}
