/** `using()`: holds a lock while a function runs, and extends it. Its signal aborts when the lock is lost, and at the latest when its time is over. */
import type { RedlockAbortSignal } from "./api.ts";
import { alreadyExpired } from "./errors.ts";

/** The longest that a timer can wait. */
const TIMER_MAX_MS = 2 ** 31 - 1;
/** Between an extension that failed and the next: its own attempts may have had no pause. */
const AGAIN_MS = 20;

/** What is used of a lock. */
export interface Extendable<L> {
  /** How long it is still held, ms, by the monotonic clock. */
  remaining(): number;
  readonly signal?: AbortSignal | undefined;
  extend(durationMs: number): Promise<L>;
  release(): Promise<unknown>;
}

export class Using<L extends Extendable<L>> {
  readonly signal: RedlockAbortSignal;
  readonly #controller = new AbortController();
  readonly #durationMs: number;
  readonly #thresholdMs: number;
  #lock: L;
  #extension: NodeJS.Timeout | undefined;
  #expiry: NodeJS.Timeout | undefined;
  #underWay: Promise<void> | undefined;

  constructor(lock: L, durationMs: number, thresholdMs: number) {
    this.signal = this.#controller.signal;
    this.#durationMs = durationMs;
    this.#thresholdMs = thresholdMs;
    this.#lock = lock;
    this.#arm();
    lock.signal?.addEventListener("abort", this.#lost, { once: true });
  }

  async run<T>(routine: (signal: RedlockAbortSignal) => Promise<T>): Promise<T> {
    let result: T;
    try {
      result = await routine(this.signal);
    } catch (error) {
      // As in redlock, a release that fails is what is reported. What the work threw is not lost with it.
      await this.#end().catch((failure: unknown) => {
        if (failure instanceof Error) failure.cause ??= error;
        throw failure;
      });
      throw error;
    }
    await this.#end();
    return result;
  }

  async #end(): Promise<void> {
    this.#lock.signal?.removeEventListener("abort", this.#lost);
    this.#disarm();
    // It ends by itself: no extension goes on after the end of the lock. A release that overtook it would leave the lock taken.
    await this.#underWay;
    this.#disarm();
    await this.#lock.release();
  }

  readonly #lost = (): void => this.#abort(alreadyExpired());

  #arm(): void {
    this.#disarm();
    const leftMs = this.#lock.remaining();
    if (leftMs === 0) return this.#lost();
    this.#extension = setTimeout(
      () => {
        this.#underWay = this.#extend();
      },
      timerMs(leftMs - this.#thresholdMs),
    );
    if (leftMs <= TIMER_MAX_MS) this.#expiry = setTimeout(this.#lost, timerMs(leftMs));
  }

  #disarm(): void {
    clearTimeout(this.#extension);
    clearTimeout(this.#expiry);
  }

  /** Never rejects. */
  async #extend(): Promise<void> {
    let cause: Error = alreadyExpired();
    // Ends with the lock's time.
    while (this.#lock.remaining() > 0 && !this.signal.aborted) {
      try {
        this.#lock = await this.#lock.extend(this.#durationMs);
        if (!this.signal.aborted) this.#arm();
        return;
      } catch (error) {
        cause = error instanceof Error ? error : new Error(String(error));
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
    this.#abort(cause);
  }

  #abort(error: Error): void {
    if (this.signal.aborted) return;
    this.signal.error = error;
    this.#controller.abort();
  }
}

function timerMs(ms: number): number {
  return Math.min(TIMER_MAX_MS, Math.max(0, ms));
}
