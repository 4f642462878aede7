/** The harness's arithmetic: wrong statistics would be believed. */
import { describe, expect, test } from "vitest";
import { handOvers, merge, SectionLog, summary, violations } from "../../bench/lib/sections.mjs";
import { seeded } from "../../src/testing/seeded-random.ts";
import { medians } from "../../bench/lib/contest.mjs";
import { othersSince, readMachine } from "../../bench/lib/others.mjs";
import { rotate } from "../../bench/lib/rotation.mjs";
import { exponent, linearity } from "../../bench/lib/fit.mjs";
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

  test("the two thirds of the slices in which others did least are kept, and one at least, whatever was measured", () => {
    const slices = [
      { us: 1, othersPart: 0.9 },
      { us: 9, othersPart: 0.1 },
      { us: 5, othersPart: 0.2 },
    ];
    expect(quietest(slices).map(({ us }) => us)).toEqual([9, 5]);
    expect(quietest(slices.slice(0, 1)).map(({ us }) => us)).toEqual([1]);
  });

  test("of the slices of a contestant the median counts, and of the longest waits the longest, also of a slice that is not kept", () => {
    const slice = (p50: number, max: number, othersPart: number, violated = 0) => ({
      waitMs: { p50, p99: p50, max },
      violations: violated,
      othersPart,
    });
    const sum = medians([slice(1, 10, 0.1), slice(3, 20, 0.2), slice(9, 900, 0.8, 1)]);
    expect(sum).toMatchObject({ waitMs: { p50: 2, p99: 2, max: 900 }, violations: 1 });
  });

  test("the order of the contestants is drawn anew in every round, and each has its slice in each", async () => {
    const all = ["a", "b", "c", "d", "e", "f"];
    const ran: string[][] = [];
    const chance = seeded(7);
    const slice = (one: string, round: number) => {
      (ran[round + 1] ??= []).push(one);
      return Promise.resolve({ round });
    };
    const results = await rotate(all, 5, slice, { random: () => chance.fraction() });
    expect(ran.map((round) => round.toSorted().join(""))).toEqual(Array.from({ length: 6 }, () => "abcdef"));
    expect(new Set(ran.map((round) => round.join(""))).size).toBeGreaterThan(3);
    expect(results.get("a")).toMatchObject({ slices: Array.from({ length: 5 }, (_, round) => ({ round })) });
  });

  test("what others use of the machine is counted apart from what this process and its children use", () => {
    const before = { busy: 100, all: 1000, own: 50 };
    expect(othersSince(before, { busy: 180, all: 1100, own: 110 })).toBeCloseTo(0.2);
    expect(othersSince(before, { busy: 180, all: 1100, own: 130 })).toBe(0);
    expect(othersSince(undefined, undefined)).toBe(0);
    // Work of our own counts as our own: a fifth of a second is 20 ticks.
    const start = readMachine();
    const used = process.cpuUsage();
    while (process.cpuUsage(used).user < 200_000);
    expect(readMachine()!.own - start!.own).toBeGreaterThan(10);
  });
});

describe("growth", () => {
  test("the exponent of a cost that grows with a power of the size is that power, whatever the factor", () => {
    const sizes = [10, 100, 1000, 10_000];
    expect(exponent(sizes.map((size) => [size, 7]))).toBeCloseTo(0);
    expect(exponent(sizes.map((size) => [size, 3 * size]))).toBeCloseTo(1);
    expect(exponent(sizes.map((size) => [size, 0.2 * Math.sqrt(size)]))).toBeCloseTo(0.5);
    expect(exponent(sizes.map((size) => [size, 50 / size]))).toBeCloseTo(-1);
    // By hand: the logarithms lie at 1, 2, 3 and 0, 0, 3, and the line of least squares through them rises by 1.5.
    expect(exponent([10, 100, 1000].map((size, at) => [size, [1, 1, 1000][at]!]))).toBeCloseTo(1.5);
  });

  test("there is no exponent of one size, nor of a cost that is zero or below", () => {
    expect(exponent([])).toBeNaN();
    expect(exponent([[10, 5]])).toBeNaN();
    expect(
      exponent([
        [10, 5],
        [100, 0],
      ]),
    ).toBeNaN();
    expect(
      exponent([
        [10, 5],
        [100, -1],
      ]),
    ).toBeNaN();
  });

  test("several servers are as good as the busiest of them lets them be", () => {
    expect(linearity(24, [12, 12])).toBe(1);
    expect(linearity(24, [8, 8, 8])).toBe(1);
    // Half as much again in the busiest: two thirds.
    expect(linearity(24, [18, 6])).toBeCloseTo(2 / 3);
    // Evenly, but each cycle costs twice as much in all.
    expect(linearity(24, [24, 24])).toBe(0.5);
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
