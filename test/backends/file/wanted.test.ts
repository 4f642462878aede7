/** Holders learn that their lock is wanted: the right ones, once, and without a call to the disk that is not needed. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claim, eventually, granted, Scratch } from "./peers.ts";

const real: Disk = { ...disk };
let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

/** The names of the calls to the disk that a step makes. */
async function callsOf(step: () => Promise<unknown>): Promise<string[]> {
  const calls: string[] = [];
  for (const name of Object.keys(real) as (keyof Disk)[]) {
    Object.assign(disk, {
      [name]: (...args: never[]) => {
        calls.push(name);
        return (real[name] as (...all: never[]) => unknown)(...args);
      },
    });
  }
  await step();
  Object.assign(disk, real);
  return calls;
}

test("of many leases that share a file, the one whose lock another process waits for learns it, and no other", async () => {
  const [peer, backend] = [await scratch.peer(), scratch.open()];
  const long = "ä".repeat(400);
  const claims = ["one", "two", long].map((name) => claim({ name }));
  for (const wish of claims) expect(await peer.attempt(wish)).toMatchObject({ granted: true, mayLinger: true });
  const waiters = [claim({ name: "two" }), claim({ name: "two" }), claim({ name: long })];
  for (const wish of waiters) expect(await backend.attempt(wish)).toMatchObject({ granted: false });
  const reported = await eventually("both learn it", async () => {
    const reports = await peer.call<readonly object[]>("reports");
    return reports.length >= 2 ? reports : undefined;
  });
  expect(reported).toEqual([{ wanted: claims[1]!.id }, { wanted: claims[2]!.id }]);
});

test("a lease that outlives its process may not linger: no process would hear that it is wanted", async () => {
  expect(await granted(scratch.open({ detached: true }), claim())).toMatchObject({ mayLinger: false });
});

test("a holder without a socket learns it once each time that a queue begins", async () => {
  const clock = new FakeClock();
  const [holder, backend] = [scratch.open({ clock, hints: "poll" }), scratch.open({ clock, hints: "poll" })];
  const reported: string[] = [];
  holder.listen({ lost: () => {}, doubt: () => {}, wanted: (id) => reported.push(id) });
  const wish = claim();
  await granted(holder, wish);
  holder.expectWanted(wish);
  await clock.advance(500);
  expect(reported).toEqual([]);
  for (let times = 1; times <= 2; times++) {
    const waiter = claim();
    await backend.attempt(waiter);
    await clock.advance(500);
    expect(reported).toHaveLength(times);
    await backend.release(waiter);
    await clock.advance(500);
  }
  await holder.release(wish);
  await clock.advance(500);
  expect(reported).toEqual([wish.id, wish.id]);
});

test("a holder without a socket that asks twice to learn it is looked after once", async () => {
  const clock = new FakeClock();
  const holder = scratch.open({ clock, hints: "poll" });
  const wish = claim();
  await granted(holder, wish);
  const before = clock.timers;
  holder.expectWanted(wish);
  holder.expectWanted(wish);
  expect(clock.timers - before).toBe(1);
  await holder.release(wish);
});

describe("while no claim waits", () => {
  test("to take and release a lock costs a link each, and two looks", async () => {
    // Time stands still: a lease file that is too old would be renewed.
    const backend = scratch.open({ clock: new FakeClock() });
    const [first, wish] = [claim(), claim()];
    await granted(backend, first);
    await backend.release(first);
    expect(await callsOf(() => backend.attempt(wish))).toEqual(["link", "exists"]);
    const released = await callsOf(() => backend.release(wish));
    expect(released.filter((call) => call !== "exists" && call !== "list")).toEqual(["link"]);
  });

  test("a renewal costs one more look at each lock: whether it has a queue", async () => {
    // Time stands still: a lease file that is too old would be renewed.
    const backend = scratch.open({ clock: new FakeClock() });
    const claims = ["one", "two", "three"].map((name) => claim({ name }));
    for (const wish of claims) await granted(backend, wish);
    const calls = await callsOf(() => backend.renew(claims));
    const each = (name: string): number => calls.filter((call) => call === name).length;
    expect({ all: calls.length, utimes: each("utimes"), times: each("times"), exists: each("exists") }).toEqual({
      all: 11,
      utimes: 1,
      times: 1,
      exists: 9,
    });
  });
});

test.each([
  ["none waits", 0],
  ["another waits", 1],
])("who is handed a lock knows whether it is wanted, and need not read the queue: %s", async (_what, others) => {
  const [peer, backend] = [await scratch.peer(), scratch.open()];
  const [holder, next] = [claim(), claim()];
  await peer.attempt(holder);
  await backend.attempt(next);
  const watched = backend.watch(next, new AbortController().signal);
  for (let at = 0; at < others; at++) await scratch.open().attempt(claim());
  let grant: unknown;
  const calls = await callsOf(async () => {
    await peer.call("release", holder);
    grant = await watched;
  });
  expect(grant).toMatchObject({ granted: true });
  expect((grant as { wanted?: boolean }).wanted ?? false).toBe(others > 0);
  expect(calls).not.toContain("list");
});

test("a claim that queues before the next holder has heard of its grant: the grant says it, or a message", async () => {
  const [before, holder, waiter] = [scratch.open(), scratch.open(), scratch.open()];
  const reported: string[] = [];
  holder.listen({ lost: () => {}, doubt: () => {}, wanted: (id) => reported.push(id) });
  const [first, next, last] = [claim(), claim(), claim()];
  await granted(before, first);
  expect(await holder.attempt(next)).toMatchObject({ position: 1 });
  const watched = holder.watch(next, new AbortController().signal);
  // In the middle of the hand-over, before the message about it: that says that no claim waits.
  let queued: Promise<object> | undefined;
  disk.exists = (path) => {
    if (queued === undefined && /\/q\/.*\/\d+-/.test(path)) queued = waiter.attempt(last);
    return real.exists(path);
  };
  await before.release(first);
  Object.assign(disk, real);
  expect(await queued).toMatchObject({ position: 1 });
  const grant = await watched;
  expect(grant).toMatchObject({ granted: true });
  await eventually("it learns it", async () => grant?.wanted === true || reported.includes(next.id) || undefined);
});
