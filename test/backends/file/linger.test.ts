/** `linger` in a directory: a cycle in memory costs no call to the disk, and a dead process's lock is not kept for its sake. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { claim, eventually, granted, grantedAtLast, Scratch } from "./peers.ts";

const real: Disk = { ...disk };
let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

test("the next claim of the process costs no call to the disk", async () => {
  // Time stands still: nothing is renewed.
  const clock = new FakeClock();
  const locks = createLocks(scratch.open({ clock }), { clock, ttl: "20m", linger: "2m" });
  await (await locks.acquire("a lock")).release();
  const calls: string[] = [];
  for (const name of Object.keys(real) as (keyof Disk)[]) {
    Object.assign(disk, {
      [name]: (...args: never[]) => {
        calls.push(name);
        return (real[name] as (...all: never[]) => unknown)(...args);
      },
    });
  }
  for (let cycle = 0; cycle < 20; cycle++) await (await locks.acquire("a lock")).release();
  expect(calls).toEqual([]);
  Object.assign(disk, real);
  await locks.close();
  expect((await scratch.open().inspect("a lock")).held).toEqual([]);
});

test("leases with and without linger do not share a lease file", async () => {
  const backend = scratch.open();
  const [plain, lingers] = [claim({ name: "one" }), claim({ name: "two", lingerMs: 40 })];
  for (const wish of [plain, lingers]) await granted(backend, wish);
  const shown = (await scratch.open().query("")).held.map(({ name, lingerMs }) => [name, lingerMs]);
  expect(shown.toSorted()).toEqual([
    ["one", undefined],
    ["two", 40],
  ]);
});

test("a process that died while its hold lingered leaves nothing behind for its ttl: its death is seen", async () => {
  const peer = await scratch.peer();
  const wish = claim({ ttlMs: 1_200_000, lingerMs: 120_000 });
  expect(await peer.attempt(wish)).toMatchObject({ granted: true, mayLinger: true });
  await peer.die();
  const backend = scratch.open();
  await grantedAtLast(backend, claim({ ttlMs: 1_200_000 }));
});

test("a waiter of another process makes it go back, also where no socket brings the news", async () => {
  const lingering = createLocks(scratch.open({ hints: "poll" }), { ttl: "20m", linger: "2m" });
  const other = createLocks(scratch.open({ hints: "poll" }));
  await (await lingering.acquire("a lock")).release();
  const lease = await eventually("it comes back", () => other.acquire("a lock", { wait: "2m" }));
  await lease.release();
  await Promise.all([lingering.close(), other.close()]);
});
