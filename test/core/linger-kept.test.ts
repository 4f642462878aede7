/** How long a hold that lingers is kept, seen at the store: tries of others would make it go back, and so hide that. */
import { expect, test } from "vitest";
import type { LocksOptions } from "../../src/core/api.ts";
import type { Clock } from "../../src/contract/clock.ts";
import type { Hold } from "../../src/core/hold.ts";
import { Lingering } from "../../src/core/linger.ts";
import { gate, type Stage, stage } from "./scripted.ts";

const LINGER: LocksOptions = { linger: 100, ttl: 1000 };

function stepsOf({ backend }: Stage): readonly string[] {
  return backend.steps.map(({ step }) => step).filter((step) => step !== "renew");
}

test("what is released while the locks close goes back at once", async () => {
  const set = stage(LINGER);
  const lease = await set.locks.acquire("a");
  const work = gate();
  const running = set.locks.run("b", () => work.opened);
  await set.clock.advance(0);
  const closing = set.locks.close();
  await lease.release();
  await set.clock.advance(0);
  expect(stepsOf(set)).toEqual(["attempt", "attempt", "release"]);
  work.open();
  await running;
  await closing;
});

test("a try here that cannot use it is asked for right behind its release", async () => {
  const set = stage(LINGER);
  await (await set.locks.acquire("a")).release();
  expect(await set.locks.tryAcquire("a", { ttl: 2000 })).not.toBe(null);
  expect(stepsOf(set)).toEqual(["attempt", "release", "attempt"]);
});

test("a grant that says that it is wanted does not linger, until a renewal says that it is not", async () => {
  const set = stage(LINGER);
  set.backend.interfere.attempt = async (pass) => ({ ...((await pass()) as object), wanted: true });
  await (await set.locks.acquire("a")).release();
  expect(stepsOf(set)).toEqual(["attempt", "release"]);
  const lease = await set.locks.acquire("a");
  await set.clock.advance(400);
  expect(set.backend.count("renew")).toBe(1);
  await lease.release();
  expect(stepsOf(set)).toEqual(["attempt", "release", "attempt"]);
});

test("with less than half of its time left, it goes back with its release", async () => {
  const set = stage(LINGER);
  // It has no answer, which is no failure yet.
  set.backend.interfere.renew = () => new Promise(() => {});
  const early = await set.locks.acquire("early");
  await set.clock.advance(450);
  await early.release();
  expect(stepsOf(set)).toEqual(["attempt"]);
  await set.clock.advance(100);
  const late = await set.locks.acquire("late");
  await set.clock.advance(550);
  await late.release();
  expect(stepsOf(set)).toEqual(["attempt", "release", "attempt", "release"]);
});

test("its timer keeps the process alive: what lingers is to be given back", () => {
  const alive: unknown[] = [];
  const clock: Clock = {
    now: () => 0,
    wall: () => 0,
    setTimer: (_, __, keepsAlive) => alive.push(keepsAlive),
    clearTimer: () => {},
  };
  new Lingering(clock).begin({ options: { lingerMs: 50 } } as Hold, 0);
  expect(alive).toEqual([true]);
});

test.each([
  ["reserves no second fence", { run: 1 }],
  ["does not say that it may", { mayLinger: false }],
])("a grant that %s goes back with its release", async (_, terms) => {
  const set = stage(LINGER);
  set.backend.interfere.attempt = async (pass) => ({ ...((await pass()) as object), ...terms });
  await (await set.locks.acquire("a")).release();
  expect(stepsOf(set)).toEqual(["attempt", "release"]);
});

test("what is lost while nothing uses it is given back at once: the store may have it still", async () => {
  const set = stage(LINGER);
  const lease = await set.locks.acquire("a");
  await set.clock.advance(300);
  await lease.release();
  expect(stepsOf(set)).toEqual(["attempt"]);
  set.backend.interfere.renew = async () => [{ held: false }];
  await set.clock.advance(60);
  expect(set.backend.count("renew")).toBe(1);
  expect(stepsOf(set)).toEqual(["attempt", "release"]);
});
