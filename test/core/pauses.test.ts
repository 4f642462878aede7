/** How soon a store that fails, or refuses, is asked again: at known instants, ever more slowly, and never so slowly that a ttl is missed. */
import { describe, expect, test } from "vitest";
import { systemChance } from "../../src/contract/random.ts";
import type { LocksOptions } from "../../src/core/api.ts";
import { failure, type Stage, stage } from "./scripted.ts";
// Loaded now: a dynamic import takes no simulated time.
import "../../src/core/extend.ts";

type Step = "attempt" | "renew" | "release";

/** A store that fails one kind of request, and the pauses between these. All dice are the same. */
function failing(
  step: Step,
  fraction: number,
  options: LocksOptions = {},
): Stage & { readonly pauses: () => number[] } {
  const world = stage({ chance: { ...systemChance, fraction: () => fraction }, ...options });
  const askedMs: number[] = [];
  world.backend.interfere[step] = () => {
    askedMs.push(world.clock.now());
    return Promise.reject(new Error("cut off"));
  };
  return { ...world, pauses: () => askedMs.slice(1).map((atMs, index) => Math.round(atMs - askedMs[index]!)) };
}

describe("lease.extend()", () => {
  const asked = async (ttlMs: number, fraction: number): Promise<number[]> => {
    const { clock, locks, pauses } = failing("renew", fraction);
    const lease = await locks.acquire("a", { ttl: ttlMs, renew: false });
    const extended = failure(lease.extend());
    await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(ttlMs);
    await extended;
    return pauses();
  };

  test("twice as long each time, up to a second", async () => {
    expect((await asked(30_000, 0)).slice(0, 10)).toEqual([5, 10, 20, 40, 80, 160, 320, 500, 500, 500]);
    expect((await asked(30_000, 1)).slice(0, 10)).toEqual([10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
  });

  test("and up to an eighth of the ttl", async () => {
    expect((await asked(800, 1)).slice(0, 7)).toEqual([10, 20, 40, 80, 100, 100, 100]);
  });
});

describe("an acquire", () => {
  const asked = async (ttlMs: number, fraction: number, ms: number): Promise<number[]> => {
    const { clock, locks, pauses } = failing("attempt", fraction);
    const waiting = failure(locks.acquire("a", { ttl: ttlMs, wait: ms }));
    await clock.advance(ms + 1000);
    await waiting;
    return pauses();
  };

  test("twice as long each time, up to a second", async () => {
    expect((await asked(30_000, 1, 5000)).slice(0, 8)).toEqual([20, 40, 80, 160, 320, 640, 1000, 1000]);
    expect((await asked(30_000, 0, 5000)).slice(0, 8)).toEqual([10, 20, 40, 80, 160, 320, 500, 500]);
  });

  test("and up to a third of the ttl", async () => {
    expect((await asked(300, 1, 2000)).slice(0, 5)).toEqual([20, 40, 80, 100, 100]);
  });
});

test("a release: once more at once, and then twice as long each time, up to a second, as long as the store may hold the lease", async () => {
  const { clock, backend, locks, pauses } = failing("release", 1);
  const lease = await locks.acquire("a", { ttl: "10s" });
  const released = lease.release();
  await clock.advance(30_000);
  expect(await released).toBe("unknown");
  expect(pauses().slice(0, 9)).toEqual([0, 20, 40, 80, 160, 320, 640, 1000, 1000]);
  const asked = backend.count("release");
  await clock.advance(600_000);
  expect(backend.count("release")).toBe(asked);
});
