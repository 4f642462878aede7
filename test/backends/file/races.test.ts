/** Two processes in the same instant: what one does just before the other's link(2). */
import { closeSync, existsSync, openSync, rmdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { claim, eventually, granted, grantedAtLast, Scratch, sleep } from "./peers.ts";

const real: Disk = { ...disk };

let scratch: Scratch;
beforeEach(() => {
  scratch = new Scratch();
});
afterEach(async () => {
  Object.assign(disk, real);
  await scratch.end();
});

/** Runs `act` once, just before a link whose source matches. The methods do their work before they return. */
function justBefore(source: RegExp, act: () => unknown): () => boolean {
  let done = false;
  disk.link = (from, to) => {
    if (!done && source.test(from)) {
      done = true;
      void act();
    }
    real.link(from, to);
  };
  return () => done;
}

test("a waiter that gives up during the hand-over gets nothing, and the next one gets the lock", async () => {
  const [a, b] = [scratch.open(), scratch.open()];
  const [holder, quitter, next] = [claim(), claim(), claim()];
  await granted(a, holder);
  expect(await b.attempt(quitter)).toMatchObject({ position: 1 });
  expect(await b.attempt(next)).toMatchObject({ position: 2 });
  const happened = justBefore(/\/q\//, () => b.release(quitter));
  expect(await a.release(holder)).toBe("held");
  expect(happened()).toBe(true);
  const { held, pending } = await a.query("");
  expect(held).toHaveLength(1);
  expect(pending).toEqual([]);
  await granted(b, next);
  expect(await b.release(quitter)).toBe("absent");
});

test("a waiter that comes during the release gets the lock, and does not wait for a free one", async () => {
  const [a, b] = [scratch.open(), scratch.open({ hints: "poll" })];
  const [holder, waiter] = [claim({ holder: "first:1" }), claim({ holder: "second:2" })];
  await granted(a, holder);
  const happened = justBefore(/\/f$/, () => b.attempt(waiter));
  expect(await a.release(holder)).toBe("held");
  expect(happened()).toBe(true);
  expect((await a.query("")).held).toMatchObject([{ holder: "second:2" }]);
  await granted(b, waiter);
});

test("of two that saw the same free lock, one gets it and the other one queues", async () => {
  const [a, b] = [scratch.open(), scratch.open()];
  const [first, second] = [claim(), claim()];
  for (const backend of [a, b]) {
    const wish = claim();
    await granted(backend, wish);
    await backend.release(wish);
  }
  const happened = justBefore(/\/o\//, () => b.attempt(second));
  expect(await a.attempt(first)).toMatchObject({ granted: false, position: 1 });
  expect(happened()).toBe(true);
  expect(await b.renew([second])).toMatchObject([{ held: true }]);
  await b.release(second);
  await granted(a, first);
});

test("a link that was delayed in the kernel until its epoch had been emptied is not believed", async () => {
  const [a, b] = [scratch.open({ entriesMax: 4 }), scratch.open({ entriesMax: 4 })];
  const [late, holder] = [claim(), claim()];
  for (const backend of [a, b]) {
    const warm = claim();
    await granted(backend, warm);
    await backend.release(warm);
  }
  let kept: number | undefined;
  let holding: Promise<unknown> | undefined;
  disk.link = (from, to) => {
    if (kept !== undefined || !/\/e\d+-[^/]*\/\d+$/.test(to)) return real.link(from, to);
    // The kernel has found the directory, and waits. Its link will go there, whatever the directory is called by then.
    kept = openSync(dirname(to), "r");
    disk.rmdir = () => {};
    for (let round = 0; round < 3; round++) {
      const other = claim();
      void b.attempt(other);
      void b.release(other);
    }
    holding = b.attempt(holder);
    Object.assign(disk, { rmdir: rmdirSync });
    expect(existsSync(dirname(to))).toBe(false);
    return real.link(from, `/proc/self/fd/${kept}/${basename(to)}`);
  };
  const answer = await a.attempt(late);
  closeSync(kept!);
  expect(await holding).toMatchObject({ granted: true });
  expect(answer).toMatchObject({ granted: false, position: 1 });
  expect(await b.renew([holder])).toMatchObject([{ held: true }]);
  await b.release(holder);
  await grantedAtLast(a, late);
});

test("a lease that ends during its renewal is not revived, and the new holder keeps the lock", async () => {
  const [a, b] = [scratch.open(), scratch.open()];
  const [late, next] = [claim({ ttlMs: 1000 }), claim()];
  await granted(a, late);
  let taken: Promise<unknown> | undefined;
  disk.utimes = (path, mtimeMs) => {
    // The renewal has read the clock, and is then delayed until another process has found the lease over.
    if (taken === undefined) {
      taken = Promise.resolve();
      const endMs = performance.now() + 1010;
      while (performance.now() < endMs);
      taken = b.attempt(next);
    }
    real.utimes(path, mtimeMs);
  };
  expect(await a.renew([late])).toMatchObject([{ held: false }]);
  expect(await taken).toMatchObject({ granted: true });
  expect(await b.renew([next])).toMatchObject([{ held: true }]);
  expect(await a.release(late)).toBe("absent");
});

test("a renewal that came too late does not lengthen the lease for others either", async () => {
  const [a, b] = [scratch.open(), scratch.open()];
  const late = claim({ ttlMs: 1000 });
  await granted(a, late);
  let slow = true;
  disk.utimes = (path, mtimeMs) => {
    real.utimes(path, mtimeMs);
    const endMs = performance.now() + (slow ? 500 : 0);
    slow = false;
    while (performance.now() < endMs);
  };
  await sleep(700);
  expect(await a.renew([late])).toMatchObject([{ held: false }]);
  await granted(b, claim());
});

test("a lock that is removed during an acquire is made again, and acquired", async () => {
  const [a, b] = [scratch.open(), scratch.open()];
  const warm = claim();
  await granted(a, warm);
  await a.release(warm);
  let cleaning: Promise<void> | undefined;
  const happened = justBefore(/\/o\//, () => (cleaning = b.clean(60_000)));
  const wish = claim();
  const answer = await a.attempt(wish);
  await cleaning;
  expect(happened()).toBe(true);
  expect(answer).toMatchObject({ granted: true });
  expect(await b.attempt(claim({ queues: false }))).toMatchObject({ granted: false });
  expect(await a.renew([wish])).toMatchObject([{ held: true }]);
});

test("who ended a lease by force, and why, is known even if that process died before it could write it down", async () => {
  const [a, b] = [scratch.open(), scratch.open()];
  const { fence } = await granted(a, claim());
  disk.link = (from, to) => {
    // As a kill would: after the lease has ended, before the record is written.
    if (/\/f\/[^/]*$/.test(to)) throw new Error("killed");
    real.link(from, to);
  };
  await expect(b.forceRelease("a lock", fence, "ops@testClients", "it hangs")).rejects.toThrow("killed");
  Object.assign(disk, real);
  // The next holder overwrites the only entry that says it, so it is written down first.
  await granted(scratch.open(), claim());
  expect((await scratch.open().query("")).forced).toMatchObject([{ fence, by: "ops@testClients", reason: "it hangs" }]);
});

test("readers that come and go leave the lock to the writer behind them", async () => {
  const backends = [scratch.open(), scratch.open(), scratch.open()];
  const readers = backends.map(() => claim({ mode: "shared" }));
  await Promise.all(backends.map((backend, at) => granted(backend, readers[at]!)));
  const [writer, lateReader] = [claim(), claim({ mode: "shared" })];
  expect(await backends[0]!.attempt(writer)).toMatchObject({ granted: false, position: 1 });
  expect(await backends[1]!.attempt(lateReader)).toMatchObject({ granted: false, position: 2 });
  const watching = backends[0]!.watch(writer, new AbortController().signal);
  await Promise.all(backends.map((backend, at) => backend.release(readers[at]!)));
  await watching;
  await grantedAtLast(backends[0]!, writer);
  await backends[0]!.release(writer);
  await eventually("the late reader is granted", async () =>
    (await backends[1]!.attempt(lateReader)).granted ? true : undefined,
  );
});
