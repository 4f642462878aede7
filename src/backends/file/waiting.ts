/**
 * How a waiting claim learns that it should try again: a wake-up over a socket, the end of the process just ahead of it, a
 * change of the lock's directory (inotify) where there are no sockets, and in any case polling with jitter.
 */
import { type FSWatcher, watch } from "node:fs";
import type { Clock } from "../../contract/clock.ts";
import { jitter } from "../../contract/random.ts";
import type { WakeUpSockets } from "./wake-up-sockets.ts";
import type { LocalClaim } from "./local-claim.ts";
import type { BlockedBy } from "./query.ts";

/** With wake-up sockets, polling only covers lost wake-ups. Without them, there is nothing else. */
const POLL_MS = 1000;
export const BARE_POLL_MS = 60;
/** A ticket is renewed in time, but a ttl of a few milliseconds must not keep the process busy. */
const RENEW_MIN_MS = 20;
/**
 * A process that has just closed its sockets may still run for a moment, or its companions may. Try again soon, then less and
 * less often, so the end is seen at most a fifth later than it came.
 */
const MISS_GROWTH = 1.25;
const MISS_MAX_MS = 100;

interface Expected {
  readonly local: LocalClaim;
  readonly instances: readonly string[];
  readonly retryMs: number;
}

export class WaitingClaims {
  readonly #sockets: WakeUpSockets;
  readonly #clock: Clock;
  readonly #method: "socket" | "watch" | "poll";
  readonly #expected = new Map<string, Expected>();
  readonly #waiting = new Map<string, () => void>();
  readonly #early = new Set<string>();
  #closed = false;

  constructor(sockets: WakeUpSockets, clock: Clock, method: "socket" | "watch" | "poll") {
    this.#sockets = sockets;
    this.#clock = clock;
    this.#method = method;
  }

  /** Notes what blocks a refused claim. Returns after how long it should try again by itself. */
  expect(local: LocalClaim, { clearsInMs, instances }: BlockedBy): number {
    const pollMs = this.#sockets.works ? jitter(POLL_MS, 0.75, 1.25) : jitter(BARE_POLL_MS, 1 / 3, 5 / 3);
    const renewMs = Math.max(RENEW_MIN_MS, local.claim.ttlMs / 3);
    const retryMs = Math.max(1, Math.min(pollMs, clearsInMs + 1, renewMs));
    if (local.file !== undefined) this.#expected.set(local.file.facts.id, { local, instances, retryMs });
    return retryMs;
  }

  /** Ends when the claim should try again, or when `signal` aborts. */
  async wait(fileId: string, directory: string | undefined, signal: AbortSignal): Promise<void> {
    const expected = this.#expected.get(fileId);
    if (expected === undefined || signal.aborted || this.#closed || this.#early.delete(fileId)) return;
    const undo: (() => unknown)[] = [];
    try {
      await new Promise<void>((resolve) => {
        const end = (): void => resolve();
        this.#waiting.set(fileId, end);
        signal.addEventListener("abort", end, { once: true });
        const timeIsUp = (): void => {
          expected.local.misses = 0;
          end();
        };
        const timer = this.#clock.setTimer(timeIsUp, expected.retryMs);
        undo.push(() => signal.removeEventListener("abort", end));
        undo.push(() => this.#clock.clearTimer(timer));
        this.#follow(expected, directory, end, undo);
      });
    } finally {
      for (const step of undo) step();
      this.#waiting.delete(fileId);
      // The next attempt reads the lock, and says again what blocks the claim.
      this.forget(fileId);
    }
  }

  /** A wake-up for this lease file came. `false`: no claim waits by it. */
  wake(fileId: string, others?: boolean): boolean {
    const expected = this.#expected.get(fileId);
    if (expected === undefined) return false;
    // Who came after the hand-over may have said so before this.
    if (expected.local.others !== true) expected.local.others = others;
    expected.local.misses = 0;
    const end = this.#waiting.get(fileId);
    // It came between attempt() and watch().
    if (end === undefined) this.#early.add(fileId);
    else end();
    return true;
  }

  forget(fileId: string): void {
    this.#expected.delete(fileId);
    this.#early.delete(fileId);
  }

  close(): void {
    this.#closed = true;
    for (const end of this.#waiting.values()) end();
  }

  #follow(expected: Expected, directory: string | undefined, end: () => void, undo: (() => unknown)[]): void {
    if (this.#method === "socket" && this.#sockets.works) {
      const ended = (): void => {
        const { local } = expected;
        const pauseMs = local.misses === 0 ? 0 : Math.min(MISS_MAX_MS, MISS_GROWTH ** local.misses);
        local.misses++;
        const timer = this.#clock.setTimer(end, pauseMs);
        undo.push(() => this.#clock.clearTimer(timer));
      };
      for (const instance of expected.instances) undo.push(this.#sockets.follow(instance, ended));
      return;
    }
    if (this.#method === "poll" || directory === undefined) return;
    const watcher = tryWatch(directory, end);
    if (watcher !== undefined) undo.push(() => watcher.close());
  }
}

/** `undefined`: the directory has just gone, or the system has no watches left. Polling goes on. */
function tryWatch(directory: string, changed: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(directory, { persistent: false }, changed);
    watcher.on("error", () => {});
    return watcher;
  } catch {
    return undefined;
  }
}
