/** What is over does not linger on, and what lingers is in the way of none: no timer, no try, no claim of the caller's making. */
import { expect, test } from "vitest";
import type { Claim } from "../../src/contract/backend.ts";
import { memory } from "../../src/backends/memory/index.ts";
import type { Clock, Timer } from "../../src/contract/clock.ts";
import type { LocksOptions } from "../../src/core/api.ts";
import { takeByClaim } from "../../src/core/by-claim.ts";
import type { Hold } from "../../src/core/hold.ts";
import { insides } from "../../src/core/inside.ts";
import type { HeldLease } from "../../src/core/lease.ts";
import { Lingering } from "../../src/core/linger.ts";
import { createLocks } from "../../src/core/locks.ts";
import { type Stage, stage } from "./scripted.ts";

const LINGER: LocksOptions = { linger: 100, ttl: 1000 };

function stepsOf({ backend }: Stage): readonly string[] {
  return backend.steps.map(({ step }) => step).filter((step) => step !== "renew");
}

test("a lease with an outcome goes back with it at once, also where it might linger", async () => {
  const set = stage(LINGER);
  const lease = (await set.locks.acquire("a")) as HeldLease;
  await lease.finish({ keepMs: 60_000, value: '{"value":7}' });
  expect(stepsOf(set)).toEqual(["attempt", "release"]);
  expect((await set.other().inspect("a")).held).toEqual([]);
});

test("nor is it handed on in memory, to one who waits for the lock: its outcome goes to the store with it", async () => {
  const set = stage();
  const lease = (await set.locks.acquire("a")) as HeldLease;
  const waiting = set.locks.acquire("a");
  await lease.finish({ keepMs: 60_000, value: '{"value":7}' });
  expect((await waiting).fence).toBeGreaterThan(lease.fence + 1n);
  expect(set.store.inspect("a").outcome?.fence).toBe(lease.fence);
});

test("a hold that goes back before its moment is over leaves no timer that keeps the process alive", async () => {
  const { clock, store, other } = stage();
  const alive = new Set<Timer>();
  const watched: Clock = {
    now: () => clock.now(),
    wall: () => clock.wall(),
    setTimer: (fn, ms, keepsAlive) => {
      const timer = clock.setTimer(() => (alive.delete(timer), fn()), ms);
      if (keepsAlive === true) alive.add(timer);
      return timer;
    },
    clearTimer: (timer) => (alive.delete(timer), clock.clearTimer(timer)),
    keepAlive: (timer, keepsAlive) => void (keepsAlive ? alive.add(timer) : alive.delete(timer)),
  };
  const locks = createLocks(memory({ store }), { clock: watched, ...LINGER });
  await (await locks.acquire("a")).release();
  expect(alive.size).toBe(1);
  await other().acquire("a");
  expect(alive.size).toBe(0);
});

test("a hold that is over leaves no timer that keeps the process alive", () => {
  let alive: boolean | undefined;
  const clock: Clock = {
    now: () => 0,
    wall: () => 0,
    setTimer: (_, __, keepsAlive) => (alive = keepsAlive),
    clearTimer: () => {},
    keepAlive: (_, keepsAlive) => void (alive = keepsAlive),
  };
  const lingering = new Lingering(clock);
  const holds = [1, 2].map(() => ({ options: { lingerMs: 50 } }) as Hold);
  for (const hold of holds) lingering.begin(hold, 0);
  lingering.drop(holds[0]!);
  expect(alive).toBe(true);
  lingering.drop(holds[1]!);
  expect(alive).toBe(false);
});

test("the store is asked to say that it is wanted of each hold that may linger, and of no other", async () => {
  const set = stage(LINGER);
  const expected: string[] = [];
  Object.assign(set.backend, { expectWanted: ({ name }: Claim) => expected.push(name) });
  const plain = await set.locks.acquire("plain", { linger: 0 });
  expect(expected).toEqual([]);
  const lease = await set.locks.acquire("a");
  expect(expected).toEqual(["a"]);
  await lease.release();
  await (await set.locks.tryAcquire("a"))?.release();
  expect(expected).toEqual(["a"]);
  const tried = await set.locks.tryAcquire("b");
  expect(expected).toEqual(["a", "b"]);
  await Promise.all([plain.release(), tried?.release()]);
});

test("who waits is not held up by a try of this process that waits for the lock to come back", async () => {
  const set = stage();
  const holder = await set.other(LINGER).acquire("a");
  const trying = set.locks.tryAcquire("a");
  await set.clock.advance(10);
  // Asked, refused, and asked to queue.
  const before = set.backend.count("attempt");
  const waiting = set.locks.acquire("a");
  await set.clock.advance(0);
  expect(set.backend.count("attempt")).toBe(before + 1);
  expect(set.store.view()[0]?.queued.length).toBe(2);
  await holder.release();
  await set.clock.advance(0);
  await (await trying)?.release();
  await set.clock.advance(0);
  await (await waiting).release();
});

test("a claim of the caller's making does not ask for what lingers here before that has gone back", async () => {
  const set = stage(LINGER);
  await (await set.locks.acquire("a")).release();
  const lease = await takeByClaim(insides.get(set.locks)!, "a", {}, { id: "0123456789abcdefghijkl" });
  expect(lease).not.toBe(null);
  expect(stepsOf(set)).toEqual(["attempt", "release", "attempt"]);
  await lease?.release();
});
