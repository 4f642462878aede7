/** How long many things took: exact for a few, within a sixteenth for many, and in the same memory for any number. */
import { describe, expect, test } from "vitest";
import { Histogram, toMicroseconds } from "../../src/core/histogram.ts";
import { seeded } from "../../src/testing/index.ts";

const of = (values: Iterable<number>): Histogram => {
  const histogram = new Histogram();
  for (const value of values) histogram.add(value);
  return histogram;
};
const exact = (values: readonly number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.max(1, Math.ceil(part * values.length)) - 1]!;

test("of nothing all is 0", () => {
  expect(new Histogram().spread()).toEqual({ count: 0, p50Ms: 0, p90Ms: 0, p99Ms: 0, maxMs: 0 });
});

test("what took less than no time took none", () => {
  expect(of([-5, 3]).spread()).toEqual({ count: 2, p50Ms: 0, p90Ms: 3, p99Ms: 3, maxMs: 3 });
});

test("up to 32 are as they are, in whatever order they come", () => {
  for (const count of [1, 2, 3, 10, 31, 32]) {
    const values = Array.from({ length: count }, (_, at) => ((at * 7) % count) * 1.37 + 0.123);
    expect(of(values).spread()).toEqual({
      count,
      p50Ms: toMicroseconds(exact(values, 0.5)),
      p90Ms: toMicroseconds(exact(values, 0.9)),
      p99Ms: toMicroseconds(exact(values, 0.99)),
      maxMs: toMicroseconds(Math.max(...values)),
    });
  }
  // The middle of a bucket would be another number.
  expect(of(Array.from({ length: 32 }, () => 1.001)).spread().p50Ms).toBe(1.001);
});

describe("of more, each part is within a sixteenth, and the greatest exact", () => {
  const kinds: Record<string, (fraction: number) => number> = {
    "from a microsecond to a day": (fraction) => 0.001 * 2 ** (36 * fraction),
    "between two powers of two": (fraction) => 1.024 + 1.024 * fraction,
    "all the same": () => 700,
    "mostly fast": (fraction) => (fraction < 0.95 ? 0.5 + fraction / 100 : 5000),
  };
  for (const [kind, make] of Object.entries(kinds)) {
    test.each([33, 100, 1000])(`${kind}, %i of them`, (count) => {
      const chance = seeded(count);
      const values = Array.from({ length: count }, () => make(chance.fraction()));
      const { p50Ms, p90Ms, p99Ms, maxMs } = of(values).spread();
      for (const [found, part] of [
        [p50Ms, 0.5],
        [p90Ms, 0.9],
        [p99Ms, 0.99],
      ] as const) {
        const right = exact(values, part);
        expect(Math.abs(found - right)).toBeLessThanOrEqual(right / 16 + 0.001);
        expect(found).toBeLessThanOrEqual(maxMs);
      }
      expect(maxMs).toBe(toMicroseconds(Math.max(...values)));
    });
  }

  test("also what is below a microsecond or above a month", () => {
    const fast = of(Array.from({ length: 100 }, () => 0.0001)).spread();
    expect(fast).toEqual({ count: 100, p50Ms: 0, p90Ms: 0, p99Ms: 0, maxMs: 0 });
    const monthMs = 31 * 86_400_000;
    const slow = of(Array.from({ length: 100 }, (_, at) => (at < 60 ? 1 : monthMs))).spread();
    expect([slow.p50Ms > 0.9 && slow.p50Ms < 1.1, slow.maxMs]).toEqual([true, monthMs]);
    expect(slow.p99Ms).toBeGreaterThan(20 * 86_400_000);
    expect(slow.p99Ms).toBeLessThanOrEqual(monthMs);
  });
});

test("a part that goes up to its rank belongs to it: of two halves the lower is the median", () => {
  const halves = of(Array.from({ length: 100 }, (_, at) => (at < 50 ? 1 : 1000))).spread();
  expect([halves.p50Ms < 2, halves.p90Ms > 900]).toEqual([true, true]);
  const more = of(Array.from({ length: 100 }, (_, at) => (at < 49 ? 1 : 1000))).spread();
  expect(more.p50Ms).toBeGreaterThan(900);
});
