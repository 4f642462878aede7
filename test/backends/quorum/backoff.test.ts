import { describe, expect, test } from "vitest";
import type { Vote } from "../../../src/contract/backend.ts";
import { Backoff, freeInMs } from "../../../src/backends/quorum/backoff.ts";
import { seeded } from "../../../src/testing/index.ts";

describe("the backoff of a refused claim", () => {
  const held = (remainingMs: number): Vote => ({ vote: "held", by: "x", fence: 1n, remainingMs });

  test("knows when a majority is free again if no lease is renewed", () => {
    expect(freeInMs([held(100), held(300), held(200), held(50), held(400)], 5)).toBe(200);
    expect(freeInMs([held(100), held(300), held(200)], 5)).toBe(100);
    expect(freeInMs([held(100), { vote: "granted" }, { vote: "granted" }], 5)).toBe(0);
    expect(freeInMs([held(0), held(0), held(0)], 5)).toBe(Infinity);
    // One that has seen a higher ballot is free, and votes for the next.
    expect(freeInMs([held(100), { vote: "low", fence: 1n }, { vote: "low", fence: 1n }], 3)).toBe(0);
  });

  test("doubles with every refusal, up to a second, and is never a busy loop", () => {
    const backoff = new Backoff();
    const votes = [held(60_000), held(60_000), held(60_000)];
    const pauses = Array.from({ length: 12 }, () => backoff.afterDefeat(votes, 5, 30_000, seeded(3)));
    expect(Math.min(...pauses)).toBeGreaterThan(10);
    expect(pauses.at(-1)).toBeGreaterThan(500);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(1000);
  });

  test("spreads split votes further apart each time", () => {
    const backoff = new Backoff();
    const votes: Vote[] = [held(100), held(100), { vote: "granted" }, { vote: "granted" }];
    const dice = { id: () => "", fraction: () => 0.999 };
    const pauses = Array.from({ length: 10 }, () => backoff.afterDefeat(votes, 5, 30_000, dice));
    for (const [index, pause] of pauses.entries()) expect(pause).toBeGreaterThanOrEqual(pauses[index - 1] ?? 0);
    expect(pauses.at(-1)).toBeGreaterThan(200);
  });
});
