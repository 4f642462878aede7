/** The harness's arithmetic: wrong statistics would be believed. */
import { describe, expect, test } from "vitest";
import { handOvers, merge, SectionLog, summary, violations } from "../../bench/lib/sections.mjs";
import { jain, median, percentile, quietest, sorted, spread } from "../../bench/lib/stats.mjs";

describe("statistics", () => {
  test("the median is the middle one, or the mean of the two in the middle, whatever the order", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([10, 1, 3, 2])).toBe(2.5);
    expect(median([])).toBeNaN();
  });

  test("percentiles are by nearest rank", () => {
    const hundred = sorted(Array.from({ length: 100 }, (_, i) => 100 - i));
    expect(percentile(hundred, 0.5)).toBe(50);
    expect(percentile(hundred, 0.99)).toBe(99);
    expect(percentile(hundred, 1)).toBe(100);
    expect(percentile(sorted([7]), 0.99)).toBe(7);
    expect(spread([5, 1, 9])).toEqual({ p50: 5, p99: 9, max: 9 });
  });

  test("Jain's index is 1 for equal shares and 1/n when one has everything", () => {
    expect(jain([5, 5, 5, 5])).toBe(1);
    expect(jain([8, 0, 0, 0])).toBe(0.25);
    expect(jain([3, 1])).toBeCloseTo(0.8);
    expect(jain([0, 0])).toBeNaN();
  });

  test("the quietest two thirds of the slices are kept, and one at least", () => {
    const cost = (slice: { us: number }): number => slice.us;
    expect(quietest([{ us: 9 }, { us: 1 }, { us: 5 }], cost)).toEqual([{ us: 1 }, { us: 5 }]);
    expect(quietest([{ us: 9 }], cost)).toEqual([{ us: 9 }]);
  });
});

describe("sections", () => {
  const section = (worker: number, enteredMs: number, leftMs: number, fence = 0, askedMs = 0) => ({
    worker,
    askedMs,
    enteredMs,
    leftMs,
    loop: 0,
    fence,
  });

  test("an entry before all have left is a violation, also behind one who left early", () => {
    expect(violations([section(0, 1, 2), section(1, 2, 3)])).toBe(0);
    expect(violations([section(0, 1, 3), section(1, 2, 4)])).toBe(1);
    expect(violations([section(0, 1, 9), section(1, 2, 3), section(0, 4, 5)])).toBe(2);
  });

  test("a fence that does not rise is a violation; no fences are none", () => {
    expect(violations([section(0, 1, 2, 7), section(1, 3, 4, 8)])).toBe(0);
    expect(violations([section(0, 1, 2, 7), section(1, 3, 4, 7)])).toBe(1);
  });

  test("logs of several processes are merged in the order of entry", () => {
    const [one, other] = [new SectionLog(), new SectionLog()];
    for (let i = 0; i < 5000; i++) one.push(i, 10 * i, 10 * i + 4, 3, 2 * i + 1);
    other.push(0, 5, 9, 1, 2);
    const all = merge([one.bytes, other.bytes]);
    expect(all).toHaveLength(5001);
    expect(all[1]).toEqual({ worker: 1, askedMs: 0, enteredMs: 5, leftMs: 9, loop: 1, fence: 2 });
    expect(violations(all)).toBe(0);
  });

  test("a hand-over is to another loop that was already waiting", () => {
    const all = [section(0, 1, 2), section(1, 5, 6), section(1, 7, 8), section(0, 9, 10, 0, 8.5)];
    expect(handOvers(all)).toEqual([3]);
  });

  test("a loop that got nothing counts as starved, and what it waited counts as a wait", () => {
    const figures = summary([section(0, 1, 2), section(1, 3, 4), section(1, 600, 601)], 4, 0.5, 500, [5000]);
    expect(figures).toMatchObject({ perSecond: 4, starved: 2, violations: 0, jain: 0.5 });
    expect(figures.waitMs.max).toBe(5000);
  });
});
