/** How long many things took, in bounded memory: a few as they are, many in buckets that grow with what is in them. */
import type { Spread } from "./contention-api.ts";

const EXACT_MAX = 32;
/** Buckets for each power of two, so that each is an eighth of its lower end wide. */
const PARTS = 8;
/** From a microsecond to 2^41 µs, which is 25 days. */
const POWERS = 42;

export class Histogram {
  count = 0;
  #maxMs = 0;
  #few: number[] | undefined = [];
  #buckets: Uint32Array | undefined;

  add(ms: number): void {
    const value = Math.max(0, ms);
    this.count++;
    this.#maxMs = Math.max(this.#maxMs, value);
    if (this.#few === undefined) this.#buckets![bucketOf(value)]!++;
    else if (this.#few.push(value) > EXACT_MAX) this.#spill(this.#few);
  }

  #spill(few: readonly number[]): void {
    const buckets = new Uint32Array(POWERS * PARTS);
    for (const value of few) buckets[bucketOf(value)]!++;
    this.#buckets = buckets;
    this.#few = undefined;
  }

  spread(): Spread {
    const sorted = this.#few?.toSorted((a, b) => a - b);
    const at = (part: number): number => {
      const rank = Math.max(1, Math.ceil(part * this.count));
      return toMicroseconds(sorted === undefined ? this.#inBuckets(rank) : (sorted[rank - 1] ?? 0));
    };
    return { count: this.count, p50Ms: at(0.5), p90Ms: at(0.9), p99Ms: at(0.99), maxMs: toMicroseconds(this.#maxMs) };
  }

  /** The middle of the bucket that has the value of this rank. */
  #inBuckets(rank: number): number {
    let seen = 0;
    let bucket = 0;
    while (bucket < POWERS * PARTS - 1 && (seen += this.#buckets![bucket]!) < rank) bucket++;
    return Math.min(this.#maxMs, (lowerEnd(bucket) + lowerEnd(bucket + 1)) / 2);
  }
}

function bucketOf(ms: number): number {
  const us = ms * 1000;
  if (us < 1) return 0;
  const power = Math.min(POWERS - 1, Math.floor(Math.log2(us)));
  const part = Math.floor((us / 2 ** power - 1) * PARTS);
  return power * PARTS + Math.min(PARTS - 1, Math.max(0, part));
}

function lowerEnd(bucket: number): number {
  return (2 ** Math.floor(bucket / PARTS) * (1 + (bucket % PARTS) / PARTS)) / 1000;
}

/** What clocks say beyond that is noise. */
export function toMicroseconds(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
