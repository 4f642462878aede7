/**
 * Time, handed in, so that the whole core runs under a simulated clock; and whether the machine has slept.
 *
 * The monotonic clock stands still during a sleep and the wall clock does not, so a sleep shows as a change of the wall clock's
 * lead. Setting the wall clock looks the same, forward or back. Neither proves anything: the store has to be asked. A change
 * that was seen stays seen, whatever the wall clock does later. What cannot be seen: sleeps of less than two seconds; a sleep and
 * a wall clock that is set back by as much, within two seconds, between two looks.
 */
import { AsyncResource } from "node:async_hooks";

/** Where time and timers come from; a test may give its own. */
export interface Clock {
  /** Milliseconds of a monotonic clock. The only time that decides anything. */
  now(): number;
  /** Milliseconds since 1970. Used only to notice that the machine slept; it never ends or extends a lease by itself. */
  wall(): number;
  /** Calls `fn` after `ms`. The process may exit before that unless `alive` is true. */
  setTimer(fn: () => void, ms: number, alive?: boolean): Timer;
  clearTimer(timer: Timer): void;
  /** Says whether a timer that is already set keeps the process alive. Absent: the clock has no process to keep. */
  keepAlive?(timer: Timer, alive: boolean): void;
}

/** Opaque: only the clock that made it looks inside. */
export type Timer = unknown;

/** Timers belong to no caller: one that is set anew for ever would keep the context of the first caller, and trace renewals as part of it. */
const nobody = new AsyncResource("holdfast");

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  setTimer: (fn, ms, alive = false) => {
    // A longer delay would overflow to 1 ms in Node; its setter looks again when it fires.
    const timer = nobody.runInAsyncScope(() => setTimeout(fn, Math.min(ms, 2 ** 31 - 1)));
    if (!alive) timer.unref();
    return timer;
  },
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  keepAlive: (timer, alive) => {
    if (alive) (timer as NodeJS.Timeout).ref();
    else (timer as NodeJS.Timeout).unref();
  },
};

/** A smaller change of the lead is drift, or a slow answer of the clock. */
const CHANGE_MS = 2000;
/** Clocks that are being corrected run apart by up to 0.05 %: that much is drift, however long it goes on. */
const DRIFT = 1 / 1000;

/** The time between two changes of the wall clock's lead: without a sleep, as far as anyone can tell. */
export interface AwakePeriod {
  /** How long the machine had slept before it, in all. */
  readonly sleptMs: number;
  /** When its beginning was seen: later than it was. */
  readonly seenAtMs: number;
}

/** When a request left: read before it did. */
export interface SentAt {
  readonly atMs: number;
  readonly period: AwakePeriod;
}

export class SleepDetector {
  readonly #clock: Clock;
  #period: AwakePeriod = { sleptMs: 0, seenAtMs: -Infinity };
  /** The smallest lead seen in this period, apart from drift; and the one that was seen last. */
  #leadMs: number;
  #seenMs: number;
  #lookedAtMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#lookedAtMs = clock.now();
    this.#seenMs = this.#leadMs = clock.wall() - this.#lookedAtMs;
  }

  /** `atMs`: the instant that is now, where the caller has just read it. An earlier one is as good: trust begins no later. */
  sentNow(atMs: number = this.#clock.now()): SentAt {
    return { atMs, period: this.look(atMs) };
  }

  /** The period that is now. */
  look(nowMs: number): AwakePeriod {
    const leadMs = (this.#seenMs = this.#clock.wall() - nowMs);
    const changeMs = leadMs - this.#leadMs;
    if (Math.abs(changeMs) <= CHANGE_MS) {
      this.#leadMs = Math.min(leadMs, this.#leadMs + (nowMs - this.#lookedAtMs) * DRIFT);
    } else {
      this.#leadMs = leadMs;
      this.#period = { sleptMs: this.#period.sleptMs + Math.max(0, changeMs), seenAtMs: nowMs };
    }
    this.#lookedAtMs = nowMs;
    return this.#period;
  }

  /** How long the machine has slept since that period, as far as it shows. Where it does, shorter sleeps count too. */
  sleptMs(since: AwakePeriod, nowMs: number): number {
    const { sleptMs } = this.look(nowMs);
    const allMs = sleptMs - since.sleptMs + Math.max(0, this.#seenMs - this.#leadMs);
    return allMs > CHANGE_MS ? allMs : 0;
  }

  /** Calls `read` as if no one had looked: for tests that watch. */
  unseen<T>(read: () => T): T {
    const [period, leadMs, lookedAtMs] = [this.#period, this.#leadMs, this.#lookedAtMs];
    const result = read();
    [this.#period, this.#leadMs, this.#lookedAtMs] = [period, leadMs, lookedAtMs];
    return result;
  }
}
