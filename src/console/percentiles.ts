/** Percentiles of the last values, by the nearest rank. */
import type { SpreadView } from "./wire.ts";

const VALUES_MAX = 512;
const STEP_MS = 100;

export class LastValues {
  readonly #values: number[] = [];
  #count = 0;

  add(value: number): void {
    this.#values[this.#count++ % VALUES_MAX] = value;
  }

  /** `count`: of all. The percentiles are of the last ones. */
  show(): SpreadView {
    const sorted = this.#values.toSorted((a, b) => a - b);
    const at = (part: number): number => sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0;
    return { count: this.#count, p50Ms: at(0.5), p99Ms: at(0.99) };
  }
}

/** How many happened within the last seconds, for each second. */
export class Rate {
  readonly #spanMs: number;
  #counts: { readonly atMs: number; count: number }[] = [];

  constructor(spanMs: number) {
    this.#spanMs = spanMs;
  }

  add(atMs: number, count: number): void {
    const last = this.#counts.at(-1);
    // Of many within an instant one is kept.
    if (last !== undefined && atMs - last.atMs < STEP_MS) last.count += count;
    else if (count > 0) this.#counts.push({ atMs, count });
  }

  /** `sinceMs`: since when it is counted. */
  perSecond(nowMs: number, sinceMs: number): number {
    this.#counts = this.#counts.filter(({ atMs }) => atMs > nowMs - this.#spanMs);
    const sum = this.#counts.reduce((all, { count }) => all + count, 0);
    const spanMs = Math.min(this.#spanMs, nowMs - sinceMs);
    return spanMs < 1000 ? 0 : (sum * 1000) / spanMs;
  }
}
