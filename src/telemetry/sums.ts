/** Figures that are added up in memory, so that a lock pays for a few additions and not for a metrics library. */
import { Figures, type Series } from "./figures.ts";
import type { Templates } from "./groups.ts";
import { type Facts, METRICS } from "./metrics.ts";
import type { Guard } from "./telemetry.ts";

/** One series. A counter is one without buckets: its sum is its value. */
export class Sum implements Series {
  readonly facts: Facts;
  readonly buckets: readonly number[];
  /** Of each bucket alone; the last is of what is greater than all. */
  readonly counts: number[];
  sum = 0;
  min: number = Infinity;
  max: number = -Infinity;

  constructor(facts: Facts, buckets: readonly number[]) {
    this.facts = facts;
    this.buckets = buckets;
    this.counts = Array.from({ length: buckets.length + 1 }, () => 0);
  }

  add(value: number): void {
    const { buckets } = this;
    let at = 0;
    while (at < buckets.length && value > buckets[at]!) at++;
    this.counts[at]!++;
    this.sum += value;
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
  }
}

export type Sums = Figures<Sum>;

export function addUp(templates: Templates, guard: Guard): Sums {
  return new Figures(templates, guard, (metric, facts) => new Sum(facts, METRICS[metric].buckets));
}
