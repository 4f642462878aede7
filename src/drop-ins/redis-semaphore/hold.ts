/** One time that a lock was acquired: until when it is trusted, counted from the last question that confirmed it, and the signal of its end. */
import { performance } from "node:perf_hooks";
import { type Grant, trustMs } from "./place.ts";

/** The longest that a timer can wait. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export class Hold {
  readonly fence: bigint | undefined;
  readonly #controller = new AbortController();
  readonly #ttlMs: number;
  /** Of the lease in the clean layout. */
  readonly #leaseSignal: AbortSignal | undefined;
  /** It is over by time, or its lease is lost. */
  readonly #over: () => void;
  #untilMs: number;
  #timer: NodeJS.Timeout | undefined;
  #isEnded = false;

  constructor({ sentMs, fence, signal }: Grant, ttlMs: number, over: (hold: Hold) => void) {
    this.fence = fence;
    this.#ttlMs = ttlMs;
    this.#leaseSignal = signal;
    this.#over = () => over(this);
    this.#untilMs = sentMs + trustMs(ttlMs);
    this.#watch();
    signal?.addEventListener("abort", this.#over, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** By the monotonic clock, and right also where timers are late. */
  get isTrusted(): boolean {
    return performance.now() < this.#untilMs;
  }

  /** A question that was sent at that time has confirmed it. False: too late, another may have had it in between. */
  confirm(sentMs: number): boolean {
    if (this.#isEnded) return true;
    if (!this.isTrusted) return false;
    this.#untilMs = Math.max(this.#untilMs, sentMs + trustMs(this.#ttlMs));
    this.#watch();
    return true;
  }

  /** Its end is wanted from here on: a lease that ends is no loss. */
  leave(): void {
    this.#leaseSignal?.removeEventListener("abort", this.#over);
  }

  end(): void {
    this.leave();
    this.#isEnded = true;
    clearTimeout(this.#timer);
  }

  abort(error: Error): void {
    this.#controller.abort(error);
  }

  #watch(): void {
    clearTimeout(this.#timer);
    const leftMs = this.#untilMs - performance.now();
    if (leftMs <= TIMER_MAX_MS) this.#timer = setTimeout(this.#over, Math.max(0, leftMs)).unref();
  }
}
