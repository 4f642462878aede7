/** A release that comes when its claim has ended, or is repeated: it ends nothing of another claim, and says what was so. */
import { existsSync, readdirSync, rmdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { type Disk, disk } from "../../../src/backends/file/disk.ts";
import { createLocks } from "../../../src/core/locks.ts";
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

const SHARED = { mode: "shared", renewed: false } as const;

describe("S167: a claim that has ended, whose lease file serves another claim", () => {
  test("is released again, because it was given up while it was asked for: the other one keeps the lock", async () => {
    const [ours, others] = [createLocks(scratch.open()), createLocks(scratch.open())];
    const terms = { ttl: 60_000, wait: 60_000, renew: false } as const;
    const reason = new Error("not wanted any more");
    const abort = new AbortController();
    const givenUp = ours.acquire("a lock", { ...terms, signal: abort.signal });
    abort.abort(reason);
    const lease = await ours.acquire("a lock", terms);
    await expect(givenUp).rejects.toBe(reason);
    // Whatever was still to be released has been by now: it is sent in the same turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    expect(await others.tryAcquire("a lock")).toBeNull();
    expect(await lease.release()).toBe("released");
    await Promise.all([ours.close(), others.close()]);
  });

  test("is released again, because two deadlines passed while the event loop was blocked: the other one keeps the lock", async () => {
    const clock = new FakeClock();
    const [ours, others] = [createLocks(scratch.open({ clock }), { clock }), scratch.open({ clock, hints: "poll" })];
    const holder = claim();
    await granted(others, holder);
    const terms = { ttl: 60_000, renew: false } as const;
    const reader = ours.acquire("a lock", { ...terms, mode: "shared", wait: 100 });
    // With other options than the next one, which would go on with its claim otherwise.
    const writer = ours.acquire("a lock", { ...terms, wait: 100, maxHold: 50_000 });
    const late = Promise.allSettled([reader, writer]);
    const next = ours.acquire("a lock", { ...terms, wait: 60_000 });
    await eventually("one claim waits", async () => ((await others.query("")).pending.length === 1 ? true : undefined));
    let freed: Promise<unknown> | undefined;
    disk.unlink = (path) => {
      // The reader gives up. The writer behind it asks, gets the lock, and gives up too before it can hear of that.
      if (path.includes("/q/") && freed === undefined) {
        freed = Promise.resolve();
        freed = others.release(holder);
      }
      real.unlink(path);
    };
    await clock.advance(100);
    expect(await late).toMatchObject([{ status: "rejected" }, { status: "rejected" }]);
    expect(await freed).toBe("held");
    const lease = await next;
    await new Promise((resolve) => setImmediate(resolve));
    expect(await others.attempt(claim({ queues: false }))).toMatchObject({ granted: false });
    expect(await lease.release()).toBe("released");
    await ours.close();
  });

  test.each<[string, Partial<Claim>]>([
    ["took the lock", {}],
    ["shares the lock", SHARED],
    ["has one of several places", { limit: 3 }],
  ])("is released and renewed again when the other one %s", async (_what, change) => {
    const backend = scratch.open();
    const [ended, next] = [claim({ renewed: false, ...change }), claim({ renewed: false, ...change })];
    await granted(backend, ended);
    expect(await backend.release(ended)).toBe("held");
    await granted(backend, next);
    expect(readdirSync(join(scratch.dir, "o"))).toHaveLength(1);
    expect(await backend.renew([ended])).toMatchObject([{ held: false }]);
    expect(await backend.release(ended)).toBe("absent");
    expect(await backend.renew([next])).toMatchObject([{ held: true }]);
    expect(await backend.release(next)).toBe("held");
  });

  test("had another ttl at its end: the other one is granted, and kept, for its own", async () => {
    const backend = scratch.open();
    // Shared: a claim that waits takes its place itself, with what is left of its lease file.
    const [ended, holder, next] = [claim(SHARED), claim(), claim(SHARED)];
    await granted(backend, ended);
    expect(await backend.renew([{ ...ended, ttlMs: 1000 }])).toMatchObject([{ held: true }]);
    expect(await backend.release(ended)).toBe("held");
    const other = scratch.open({ hints: "poll" });
    await granted(other, holder);
    expect(await backend.attempt(next)).toMatchObject({ position: 1 });
    expect(await other.release(holder)).toBe("held");
    await granted(backend, next);
    const { held } = await backend.query("");
    expect(held[0]!.remainingMs).toBeGreaterThan(next.ttlMs / 2);
  });
});

describe("a release whose entry was overtaken", () => {
  /** Runs `act` once, when the process checks whether the entry that it has just made is there. */
  function overtaking(entry: number, act: () => unknown): () => boolean {
    let made = false;
    let done = false;
    disk.link = (from, to) => {
      real.link(from, to);
      made ||= basename(to) === String(entry) && /\/e\d+-[^/]*$/.test(dirname(to));
    };
    disk.exists = (path) => {
      if (made && !done && basename(path) === String(entry)) {
        done = true;
        void act();
      }
      return real.exists(path);
    };
    return () => done;
  }

  test("by the end of the epoch says that the claim held", async () => {
    const [a, b] = [scratch.open({ entriesMax: 3 }), scratch.open({ entriesMax: 3 })];
    const [first, second] = [claim(SHARED), claim(SHARED)];
    await granted(a, first);
    await granted(b, second);
    const happened = overtaking(3, () => b.release(second));
    expect(await a.release(first)).toBe("held");
    expect(happened()).toBe(true);
    expect((await a.query("")).held).toEqual([]);
  });

  test("by the waiter that it handed the lock to says so too", async () => {
    const [a, b] = [scratch.open({ entriesMax: 2 }), scratch.open({ entriesMax: 2, hints: "poll" })];
    const [first, second] = [claim({ renewed: false }), claim({ renewed: false })];
    await granted(a, first);
    expect(await b.attempt(second)).toMatchObject({ position: 1 });
    const happened = overtaking(2, () => {
      void b.attempt(second);
      void b.release(second);
    });
    expect(await a.release(first)).toBe("held");
    expect(happened()).toBe(true);
    expect((await a.query("")).held).toEqual([]);
  });
});

test("a release does not end the claim that follows it, though a part of the directory vanished in between", async () => {
  const backend = scratch.open();
  const [first, next] = [claim({ renewed: false }), claim(SHARED)];
  await granted(backend, first);
  let removed = false;
  disk.link = (from, to) => {
    real.link(from, to);
    if (removed || basename(from) !== "f") return;
    removed = true;
    rmdirSync(join(scratch.dir, "t"));
  };
  expect(await backend.swap(first, next)).toMatchObject({ granted: true, released: "held" });
  expect(removed).toBe(true);
  expect(await backend.release(next)).toBe("held");
});

test("a release does not end the claim that follows it, though a cleanup removed the epoch that was prepared for that one", async () => {
  const backend = scratch.open({ entriesMax: 2 });
  const [first, next] = [claim({ renewed: false }), claim(SHARED)];
  await granted(backend, first);
  const doubts: unknown[] = [];
  backend.listen({ lost: () => {}, doubt: () => doubts.push("doubt") });
  let removed = false;
  disk.open = (path) => {
    if (!removed && /\/n\d+-[^/]*\/0$/.test(path)) {
      removed = true;
      rmdirSync(dirname(path));
      expect(existsSync(dirname(path))).toBe(false);
    }
    return real.open(path);
  };
  expect(await backend.swap(first, next)).toMatchObject({ granted: true, released: "held" });
  expect(removed).toBe(true);
  expect(doubts).toEqual([]);
  expect(await backend.release(next)).toBe("held");
});
