/** A clock that stands still until a test moves it: timers fire in order, and promises settle between them. */
import type { Clock, Timer } from "../contract/clock.ts";

// Taken at load time, so a test runner that replaces the global timers does not stop this clock.
const nextTurn = globalThis.setImmediate;

interface FakeTimer {
  readonly fn: () => void;
  readonly dueMs: number;
  /** Timers that are due together fire in the order in which they were set. */
  readonly order: number;
  readonly user: string | undefined;
}

export interface FakeClockOptions {
  /** Where the monotonic clock starts. @default 1_000_000 */
  readonly nowMs?: number | undefined;
  /** Where the wall clock starts. @default 2026-01-01T00:00:00Z */
  readonly wallMs?: number | undefined;
}

export class FakeClock implements Clock {
  #nowMs: number;
  #wallMs: number;
  #orders = 0;
  #sleepers = 0;
  #driven = false;
  /** Fires a timer. A subclass can measure how long that takes. */
  fire: (timer: () => void) => void = (timer) => timer();
  readonly #looks: Set<() => void> = new Set();
  /** Sorted by `dueMs`, then `order`. */
  readonly #timers: FakeTimer[] = [];

  constructor({ nowMs = 1_000_000, wallMs = Date.UTC(2026, 0, 1) }: FakeClockOptions = {}) {
    this.#nowMs = nowMs;
    this.#wallMs = wallMs;
  }

  now(): number {
    return this.#nowMs;
  }

  wall(): number {
    return this.#wallMs;
  }

  setTimer(fn: () => void, ms: number): Timer {
    return this.#set(fn, ms, undefined);
  }

  #set(fn: () => void, ms: number, user: string | undefined): Timer {
    const timer: FakeTimer = { fn, dueMs: this.#nowMs + Math.max(0, ms), order: this.#orders++, user };
    let at = this.#timers.length;
    while (at > 0 && (this.#timers[at - 1] as FakeTimer).dueMs > timer.dueMs) at--;
    this.#timers.splice(at, 0, timer);
    return timer;
  }

  clearTimer(timer: Timer): void {
    const at = this.#timers.indexOf(timer as FakeTimer);
    if (at >= 0) this.#timers.splice(at, 1);
  }

  /** How many timers are set. */
  get timers(): number {
    return this.#timers.length;
  }

  /** This clock for one of its users, so {@link timersOf} can count that user's timers. */
  owned(user: string): Clock {
    return {
      now: () => this.#nowMs,
      wall: () => this.#wallMs,
      setTimer: (fn, ms) => this.#set(fn, ms, user),
      clearTimer: (timer) => this.clearTimer(timer),
    };
  }

  /** How many timers that user has set. */
  timersOf(user: string): number {
    return this.#timers.filter((timer) => timer.user === user).length;
  }

  /** Calls `look` whenever all is quiet: every promise that could settle without time passing has. Returns what ends it. */
  whenQuiet(look: () => void): () => void {
    this.#looks.add(look);
    return () => void this.#looks.delete(look);
  }

  /** When the next timer is due, on the monotonic clock; `undefined` when none is set. */
  get nextDueMs(): number | undefined {
    return this.#timers[0]?.dueMs;
  }

  /** Moves both clocks and fires what falls due, each timer at its own instant; promises settle after each. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await this.settle();
    for (;;) {
      const timer = this.#timers[0];
      if (timer === undefined || timer.dueMs > untilMs) break;
      await this.step();
    }
    this.#move(untilMs - this.#nowMs);
    await this.settle();
  }

  /** Moves to the next timer, fires it, and lets promises settle. `false`: no timer is set. */
  async step(): Promise<boolean> {
    if (!this.fireNext()) return false;
    await this.settle();
    return true;
  }

  /** As {@link step}, for a caller that lets promises settle in another way. */
  fireNext(): boolean {
    const timer = this.#timers.shift();
    if (timer === undefined) return false;
    this.#move(timer.dueMs - this.#nowMs);
    this.fire(timer.fn);
    return true;
  }

  /** Waits for fake time to pass, and moves the clock from timer to timer until no sleep is left. */
  async sleep(ms: number): Promise<void> {
    this.#sleepers++;
    const slept = new Promise<void>((resolve) => this.setTimer(resolve, ms));
    void this.#drive();
    await slept;
    this.#sleepers--;
  }

  /** Moves both clocks without firing anything, as a blocked event loop or a stopped process does. Timers are late afterwards. */
  block(ms: number): void {
    this.#move(ms);
  }

  /** Moves the wall clock only, as a suspended machine does: the monotonic clock stands still in its sleep. */
  suspend(ms: number): void {
    this.#wallMs += ms;
  }

  /** Lets every promise settle that can without time passing. */
  async settle(): Promise<void> {
    await new Promise<void>((resolve) => nextTurn(resolve));
    for (const look of this.#looks) look();
  }

  /** One loop for all sleepers: two that moved the clock would make each other's time pass. */
  async #drive(): Promise<void> {
    if (this.#driven) return;
    this.#driven = true;
    await this.settle();
    while (this.#sleepers > 0 && this.nextDueMs !== undefined) await this.advance(this.nextDueMs - this.#nowMs);
    this.#driven = false;
  }

  #move(ms: number): void {
    // A timer may be late after block(); time never goes back for it.
    if (ms <= 0) return;
    this.#nowMs += ms;
    this.#wallMs += ms;
  }
}
