/**
 * A question that the store never answers, because it was lost on its way: its caller waits without success, and no caller after it.
 * However long calls overlap, the lock is not blocked in this process; and a store that is only slow is not flooded.
 */
import { describe, expect, test } from "vitest";
import type { Locks } from "../../src/core/api.ts";
import { gate, type Interference, stage, type Stage } from "./scripted.ts";

const never: Interference = () => new Promise(() => {});

/** The first question of a kind is lost. */
function loseFirst({ backend }: Stage, step: "attempt" | "swap"): void {
  backend.interfere[step] = async (pass, claims) => {
    backend.interfere[step] = undefined;
    return await never(pass, claims);
  };
}

type Take = (locks: Locks) => Promise<{ release(): Promise<unknown> } | null>;

/** One call in each second, none of which waits for another. Says how many had the lock, and how many had an error. */
async function everySecond(
  { clock, locks }: Stage,
  seconds: number,
  take: Take,
): Promise<{ had: number; failed: number }> {
  const count = { had: 0, busy: 0, failed: 0 };
  for (let second = 0; second < seconds; second++) {
    take(locks)
      .then((lease) => (lease === null ? count.busy++ : (count.had++, lease.release())))
      .catch(() => count.failed++);
    await clock.advance(1000);
  }
  return { had: count.had, failed: count.failed };
}

const CALLS: Record<string, Take> = {
  "tries, of 5 s each": (locks) => locks.tryAcquire("a"),
  "tries, of 1.5 s each": (locks) => locks.tryAcquire("a", { timeout: 1500 }),
  "waiters, of 10 s each": (locks) => locks.acquire("a"),
  "waiters with room for three": (locks) => locks.acquire("a", { limit: 3 }),
  "shared tries": (locks) => locks.tryAcquire("a", { mode: "shared" }),
};

describe.each(Object.entries(CALLS))("one question that is never answered, and %s", (_, take) => {
  test("costs those who stood behind it, and no others", async () => {
    const world = stage();
    loseFirst(world, "attempt");
    const { had, failed } = await everySecond(world, 60, take);
    expect(world.backend.interfere.attempt).toBeUndefined();
    expect(failed).toBeLessThanOrEqual(3);
    expect(had).toBeGreaterThanOrEqual(55);
    await world.clock.advance(100_000);
    expect((await world.locks.query("a")).held).toEqual([]);
  });
});

test("a swap that is never answered costs those who stood behind it, and no others", async () => {
  const world = stage();
  const first = await world.locks.acquire("a");
  await world.clock.advance(100);
  loseFirst(world, "swap");
  const { opened, open } = gate();
  void opened.then(() => first.release());
  const counting = everySecond(world, 60, (locks) => {
    const lease = locks.acquire("a");
    open();
    return lease;
  });
  const { had, failed } = await counting;
  expect(world.backend.count("swap")).toBeGreaterThan(0);
  expect(failed).toBeLessThanOrEqual(2);
  expect(had).toBeGreaterThanOrEqual(55);
});

test("a try's question that is never answered does not hold up those who come to wait, nor theirs a try", async () => {
  const world = stage();
  const { backend, clock, locks } = world;
  loseFirst(world, "attempt");
  const lost = locks.tryAcquire("a", { timeout: "20s" });
  lost.catch(() => {});
  await clock.advance(3000);
  const lease = await Promise.race([locks.acquire("a"), clock.advance(1000)]);
  expect(lease).toBeDefined();
  await (lease as { release(): Promise<unknown> }).release();
  loseFirst(world, "attempt");
  const waiting = locks.acquire("b", { wait: "20s" });
  waiting.catch(() => {});
  await clock.advance(3000);
  const tried = await Promise.race([locks.tryAcquire("b"), clock.advance(1000)]);
  expect(tried).not.toBeUndefined();
  expect(backend.interfere.attempt).toBeUndefined();
});

test("S142: a lost question of a waiter with a long ttl holds up those behind it for a bounded time", async () => {
  const world = stage();
  const { backend, clock, locks } = world;
  loseFirst(world, "attempt");
  const first = locks.acquire("a", { ttl: "24h", wait: Infinity });
  const second = locks.acquire("a", { ttl: "24h", wait: Infinity });
  await clock.advance(60_000);
  await (await first).release();
  await clock.settle();
  await (await second).release();
  // A new claim each time: none has two questions out.
  const asked = backend.steps.filter(({ step }) => step === "attempt").map(({ claims }) => claims[0]!.id);
  expect(new Set(asked).size).toBe(asked.length);
  expect((await locks.query("a")).held).toEqual([]);
});

test("a store that never answers such waiters is asked ever more slowly", async () => {
  const { backend, clock, locks } = stage();
  backend.interfere.attempt = never;
  locks.acquire("a", { ttl: "24h", wait: Infinity }).catch(() => {});
  await clock.advance(24 * 3_600_000);
  // After 30 s, 90 s, 210 s and so on, twice as long each time.
  expect(backend.count("attempt")).toBeGreaterThan(5);
  expect(backend.count("attempt")).toBeLessThan(16);
});

describe("a store", () => {
  test.each([
    ["tries", "tryAcquire", { timeout: 1000 }],
    ["waiters", "acquire", { wait: 1000 }],
  ] as const)("that never answers is asked ever more slowly, up to once in a ttl: %s", async (_, verb, options) => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = never;
    for (let round = 0; round < 600; round++) {
      locks[verb]("a", options).catch(() => {});
      await clock.advance(500);
    }
    // 300 s, with a ttl of 30 s: at 0, 2, 6, 14, 30, and then each 30 s.
    expect(backend.count("attempt")).toBeGreaterThan(5);
    expect(backend.count("attempt")).toBeLessThanOrEqual(16);
  });

  test("that is slow gets to answer: no question goes out in the place of one whose asker waits", async () => {
    const world = stage();
    const { backend, clock } = world;
    backend.interfere.attempt = async (pass) => {
      await new Promise<void>((resolve) => clock.setTimer(resolve, 4000));
      return await pass();
    };
    const { had, failed } = await everySecond(world, 60, (locks) => locks.acquire("a", { wait: "1m" }));
    expect(failed).toBe(0);
    expect(had).toBeGreaterThan(10);
    expect(backend.count("attempt") + backend.count("swap")).toBeLessThanOrEqual(60);
    expect(backend.steps.some(({ step }) => step === "release")).toBe(true);
  });
});
