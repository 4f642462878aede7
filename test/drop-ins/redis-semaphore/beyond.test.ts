/** Where the drop-in must differ from redis-semaphore 5 for the better, what it adds, and what old and new pods are to each other. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { memory } from "../../../src/backends/memory/index.ts";
import { redisPlain } from "../../../src/backends/redis-plain/index.ts";
import { createLocks } from "../../../src/index.ts";
import type { Locks } from "../../../src/core/api.ts";
import type { RedisServer } from "../../../src/lab/servers/redis.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { type Servers, startServers } from "../servers.ts";
import { BOTH, KINDS, type Library, type Options, ours } from "./both.ts";

const { LostLockError, Mutex, MultiSemaphore, RedlockMultiSemaphore, RedlockMutex, Semaphore, TimeoutError } = ours;
const theirs = BOTH[0]![1];
const ONCE: Options = { acquireAttemptsLimit: 1, lockTimeout: 60_000 };

let lab: Servers;
let keys = 0;

beforeAll(async () => {
  lab = await startServers(3);
});
afterAll(() => lab[Symbol.asyncDispose]());

const newKey = (): string => `beyond${++keys}`;

function cleanLocks(): Locks {
  const locks = createLocks(memory());
  onTestFinished(() => locks.close());
  return locks;
}

describe.each(KINDS)("$name, beside redis-semaphore itself on the same keys", ({ make, holders }) => {
  const sides: readonly (readonly [string, Library, Library])[] = [
    ["an old pod", theirs, ours],
    ["a new pod", ours, theirs],
  ];

  test.each(sides)("%s excludes the other", async (_, first, second) => {
    const key = newKey();
    const held = Array.from({ length: holders }, () => make(first, lab.raws, key, ONCE));
    for (const lock of held) expect(await lock.tryAcquire()).toBe(true);
    expect(await make(second, lab.raws, key, ONCE).tryAcquire()).toBe(false);
    await held[0]!.release();
    const next = make(second, lab.raws, key, ONCE);
    expect(await next.tryAcquire()).toBe(true);
    expect(await make(first, lab.raws, key, ONCE).tryAcquire()).toBe(false);
    for (const lock of [...held, next]) await lock.release();
  });

  test.each(sides)("%s acquires it, and the other keeps and releases it", async (_, first, second) => {
    const key = newKey();
    const here = make(first, lab.raws, key, { ...ONCE, refreshInterval: 0 });
    await here.acquire();
    const there = make(second, lab.raws, key, { ...ONCE, identifier: here.identifier, acquiredExternally: true });
    await there.acquire();
    await there.release();
    const all = Array.from({ length: holders }, () => make(first, lab.raws, key, ONCE));
    for (const lock of all) expect(await lock.tryAcquire()).toBe(true);
    for (const lock of all) await lock.release();
  });
});

test("when an old pod is killed, a new one has its mutex after its time", async () => {
  const key = newKey();
  const { host, port, password } = lab.servers[0] as RedisServer;
  const order = JSON.stringify({ client: { host, port, password }, key, lockTimeout: 1000 });
  const child = spawn(process.execPath, [join(import.meta.dirname, "old-pod.mjs"), order]);
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  expect(await new Mutex(lab.raw, key, ONCE).tryAcquire()).toBe(false);
  child.kill("SIGKILL");
  const mutex = new Mutex(lab.raw, key, { acquireTimeout: 60_000 });
  await mutex.acquire();
  await mutex.release();
});

describe("for the better", () => {
  test("a fence rises from one holder to the next, on one server", async () => {
    const key = newKey();
    const [one, two] = [new Mutex(lab.raw, key), new Mutex(lab.raw, key)];
    expect(one.fence).toBeUndefined();
    await one.acquire();
    const fence = one.fence as bigint;
    await one.release();
    await two.acquire();
    expect(two.fence).toBeGreaterThan(fence);
    await two.release();
    const several = new RedlockMutex([...lab.raws], key);
    await several.acquire();
    expect(several.fence).toBeUndefined();
    await several.release();
  });

  test("`signal` aborts with the loss, and without refreshes when its time is over", async () => {
    const key = newKey();
    const options = { lockTimeout: 10_000, refreshInterval: 50, onLockLost: () => undefined };
    const kept = new Mutex(lab.raw, key, options);
    await kept.acquire();
    await lab.raw.del(`mutex:${key}`);
    await eventually("it aborts", () => (kept.signal.aborted ? true : undefined));
    expect(kept.signal.reason).toBeInstanceOf(LostLockError);
    const short = new Mutex(lab.raw, newKey(), { lockTimeout: 200, refreshInterval: 0 });
    await short.acquire();
    await eventually("it aborts", () => (short.signal.aborted ? true : undefined));
    expect(short.isAcquired).toBe(true);
    await short.release();
  });

  test("a refresh that fails does not end the process: the lock is lost when its time is over", async () => {
    const lost: Error[] = [];
    const mutex = new Mutex(lab.raw, newKey(), {
      lockTimeout: 500,
      refreshInterval: 50,
      onLockLost: (error) => void lost.push(error),
    });
    await mutex.acquire();
    let failures = 0;
    Object.assign(mutex, { _refresh: () => (failures++, Promise.reject(new Error("Connection is closed."))) });
    await eventually("its loss is reported", () => (lost.length > 0 ? true : undefined));
    expect(lost[0]).toBeInstanceOf(LostLockError);
    expect(failures).toBeGreaterThan(1);
  });

  test("a try of one that holds it takes nothing away from itself", async () => {
    const key = newKey();
    const mutex = new RedlockMutex([...lab.raws], key, ONCE);
    await mutex.acquire();
    expect(await mutex.tryAcquire()).toBe(false);
    for (const raw of lab.raws) expect(await raw.get(`mutex:${key}`)).toBe(mutex.identifier);
    await mutex.release();
  });

  test("permits of a try without a majority are given back", async () => {
    const key = newKey();
    for (const raw of lab.raws.slice(0, 2)) await raw.zadd(`semaphore:${key}`, Date.now(), "aaa");
    expect(await new RedlockMultiSemaphore([...lab.raws], key, 2, 2, ONCE).tryAcquire()).toBe(false);
    expect(await lab.raws[2]!.zcard(`semaphore:${key}`)).toBe(0);
  });

  test("a refresh under way during a release writes nothing again", async () => {
    const key = newKey();
    // The third server has not got the lock, and its answers come late.
    const gate: { hold?: Promise<void> } = {};
    const late = {
      evalsha: async (...args: Parameters<Redis["evalsha"]>) => (await gate.hold, lab.raws[2]!.evalsha(...args)),
      eval: async (...args: Parameters<Redis["eval"]>) => (await gate.hold, lab.raws[2]!.eval(...args)),
    };
    const mutex = new RedlockMutex([lab.raws[0]!, lab.raws[1]!, late], key, { ...ONCE, refreshInterval: 0 });
    await lab.raws[2]!.set(`mutex:${key}`, "other");
    await mutex.acquire();
    await lab.raws[2]!.del(`mutex:${key}`);
    let go = (): void => {};
    gate.hold = new Promise((resolve) => (go = resolve));
    const refreshed = (mutex as unknown as { _refresh(): Promise<boolean> })._refresh();
    const released = mutex.release();
    go();
    expect(await refreshed).toBe(true);
    await released;
    await new Promise((resolve) => setImmediate(resolve));
    for (const raw of lab.raws) expect(await raw.exists(`mutex:${key}`)).toBe(0);
  });

  test("a lockTimeout below 100 ms is raised to it", async () => {
    const key = newKey();
    await lab.raw.set(`mutex:${key}`, "other", "PX", 1);
    const mutex = new Mutex(lab.raw, key, { lockTimeout: 1, refreshInterval: 0, acquireTimeout: 60_000 });
    const trusted = performance.now() + 100;
    await mutex.acquire();
    await eventually("it is over", () => (mutex.signal.aborted ? true : undefined));
    expect(performance.now()).toBeGreaterThanOrEqual(trusted - 1);
  });

  test("a permit with a longer time is not cut short by one of ours with a shorter", async () => {
    const key = newKey();
    const long = new Semaphore(lab.raw, key, 1, { lockTimeout: 60_000, refreshInterval: 0 });
    const short = new Semaphore(lab.raw, key, 1, { lockTimeout: 100, refreshInterval: 0, acquireTimeout: 500 });
    await long.acquire();
    expect(await short.tryAcquire()).toBe(false);
    expect(await lab.raw.zrange(`semaphore:${key}`, 0, -1)).toEqual([long.identifier]);
    expect(await lab.raw.pttl(`semaphore:${key}`)).toBeGreaterThan(500);
    // A process that takes it over with a shorter time finds it, too.
    const options = { lockTimeout: 100, identifier: long.identifier, acquiredExternally: true } as const;
    const handler = new Semaphore(lab.raw, key, 1, options);
    expect(await handler.tryAcquire()).toBe(true);
    await handler.release();
    await short.acquire();
    await short.release();
  });

  test("permits of ours without refreshes end by their own time, also for one with a longer", async () => {
    const key = newKey();
    const gone = new Semaphore(lab.raw, key, 1, { lockTimeout: 200, refreshInterval: 0 });
    await gone.acquire();
    // It keeps the key for longer.
    await lab.raw.pexpire(`semaphore:${key}`, 60_000);
    const next = new Semaphore(lab.raw, key, 1, { lockTimeout: 60_000, acquireTimeout: 60_000 });
    await next.acquire();
    await next.release();
  });
});

describe("with `locks`: the clean layout", () => {
  test("a mutex is a lease, shown with its identifier", async () => {
    const [key, locks] = [newKey(), cleanLocks()];
    const mutex = new Mutex(lab.raw, key, { locks });
    await mutex.acquire();
    const { held } = await locks.inspect(`mutex:${key}`);
    expect(held.map(({ meta, fence }) => [meta["identifier"], fence])).toEqual([[mutex.identifier, mutex.fence]]);
    expect(await new Mutex(lab.raw, key, { ...ONCE, locks }).tryAcquire()).toBe(false);
    await expect(new Mutex(lab.raw, key, { locks, acquireTimeout: 20 }).acquire()).rejects.toThrow(TimeoutError);
    const waiting = new Mutex(lab.raw, key, { locks });
    const acquired = waiting.acquire();
    await mutex.release();
    await acquired;
    expect(mutex.isAcquired).toBe(false);
    await waiting.release();
    expect(await locks.isHeld(`mutex:${key}`)).toBe(false);
    expect(await lab.raw.exists(`mutex:${key}`)).toBe(0);
  });

  test("it never re-enters, also inside run() of these locks", async () => {
    const [key, locks] = [newKey(), cleanLocks()];
    await locks.run(`mutex:${key}`, async () => {
      expect(await new Mutex(lab.raw, key, { ...ONCE, locks }).tryAcquire()).toBe(false);
    });
    await locks.run(`semaphore:${key}`, { limit: 2 }, async () => {
      expect(await new MultiSemaphore(lab.raw, key, 2, 2, { ...ONCE, locks }).tryAcquire()).toBe(false);
    });
  });

  test("refreshes renew it, and it ends by its time without them", async () => {
    const [key, locks] = [newKey(), cleanLocks()];
    const mutex = new Mutex(lab.raw, key, { locks, lockTimeout: 1000, refreshInterval: 50 });
    await mutex.acquire();
    let leastMs = Infinity;
    await eventually("it was renewed", async () => {
      const leftMs = (await locks.inspect(`mutex:${key}`)).held[0]!.remainingMs;
      leastMs = Math.min(leastMs, leftMs);
      return leftMs > leastMs ? true : undefined;
    });
    mutex.stopRefresh();
    await eventually("it is over", async () => ((await locks.isHeld(`mutex:${key}`)) ? undefined : true));
  });

  test("its loss is reported at once", async () => {
    const [key, locks] = [newKey(), cleanLocks()];
    const lost: Error[] = [];
    const onLockLost = (error: Error): void => void lost.push(error);
    const mutex = new Mutex(lab.raw, key, { locks, lockTimeout: 3_600_000, onLockLost });
    await mutex.acquire();
    await locks.forceRelease(`mutex:${key}`, { fence: mutex.fence as bigint, reason: "test" });
    await eventually("its loss is reported", () => (lost.length > 0 ? true : undefined));
    expect(lost[0]).toBeInstanceOf(LostLockError);
    expect([mutex.isAcquired, mutex.signal.aborted, lost.length]).toEqual([false, true, 1]);
    await mutex.release();
  });

  test("permits are taken all or none, and given back", async () => {
    const [key, locks] = [newKey(), cleanLocks()];
    const one = new Semaphore(lab.raw, key, 3, { ...ONCE, locks });
    const two = new MultiSemaphore(lab.raw, key, 3, 2, { ...ONCE, locks });
    const more = new MultiSemaphore(lab.raw, key, 3, 2, { ...ONCE, locks });
    expect(await one.tryAcquire()).toBe(true);
    expect(await two.tryAcquire()).toBe(true);
    expect(await more.tryAcquire()).toBe(false);
    await one.release();
    expect(await more.tryAcquire()).toBe(false);
    expect((await locks.inspect(`semaphore:${key}`)).held).toHaveLength(2);
    await two.release();
    expect(await more.tryAcquire()).toBe(true);
    await more.release();
    expect(await locks.isHeld(`semaphore:${key}`)).toBe(false);
  });

  test("`locks` over plain keys exclude old pods", async () => {
    const key = newKey();
    const locks = createLocks(redisPlain(lab.raw));
    onTestFinished(() => locks.close());
    const mutex = new Mutex(lab.raw, key, { locks });
    await mutex.acquire();
    expect(await new theirs.Mutex(lab.raw, key, ONCE).tryAcquire()).toBe(false);
    await mutex.release();
    const old = new theirs.Mutex(lab.raw, key, ONCE);
    expect(await old.tryAcquire()).toBe(true);
    expect(await new Mutex(lab.raw, key, { ...ONCE, locks }).tryAcquire()).toBe(false);
    await old.release();
  });

  test("what it cannot do is refused", () => {
    const locks = cleanLocks();
    expect(() => new Mutex(lab.raw, "key", { locks, identifier: "a", acquiredExternally: true })).toThrow(
      /no `acquiredExternally` beside `locks`/,
    );
    expect(() => new Mutex(lab.raw, "key", { locks: {} as Locks })).toThrow(/Expected `locks`/);
  });
});
