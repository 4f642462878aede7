/** Passes calls on at once, but a storm of them only at a steady pace, so that hints do not become a storm of questions. */
import type { Clock, Timer } from "../../contract/clock.ts";

export class Throttle {
  readonly #clock: Clock;
  readonly #burst: number;
  readonly #paceMs: number;
  readonly #act: () => void;
  #left: number;
  #countedMs: number;
  #timer: Timer;

  /** At most `burst` calls in a row, and one more for each `paceMs` that passes. The last call is never lost, only late. */
  constructor(clock: Clock, burst: number, paceMs: number, act: () => void) {
    this.#clock = clock;
    this.#burst = burst;
    this.#paceMs = paceMs;
    this.#act = act;
    this.#left = burst;
    this.#countedMs = clock.now();
  }

  call(): void {
    if (this.#timer !== undefined) return;
    const nowMs = this.#clock.now();
    this.#left = Math.min(this.#burst, this.#left + (nowMs - this.#countedMs) / this.#paceMs);
    this.#countedMs = nowMs;
    if (this.#left >= 1) {
      this.#left--;
      this.#act();
      return;
    }
    this.#timer = this.#clock.setTimer(
      () => {
        this.#timer = undefined;
        this.call();
      },
      Math.ceil((1 - this.#left) * this.#paceMs),
    );
  }

  stop(): void {
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }
}
