/** What the drop-in for redis-semaphore must hold to when answers come late or never, servers hang, and calls are sent again. */
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { memory } from "../../../src/backends/memory/index.ts";
import { extend } from "../../../src/drop-ins/rolling/generated/scripts.ts";
import { createLocks } from "../../../src/index.ts";
import type { RedisServer } from "../../../src/lab/servers/redis.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { door, faultyClient, loseNextReply, watchedClient } from "../faulty.ts";
import { type Servers, startServers } from "../servers.ts";
import { KINDS, type Options, ours } from "./both.ts";

const { LostLockError, Mutex, MultiSemaphore, RedlockMutex, Semaphore, TimeoutError } = ours;
const ONCE: Options = { acquireAttemptsLimit: 1, lockTimeout: 60_000 };
const ALONE = KINDS.filter(({ servers }) => servers === 1);

let lab: Servers;
let keys = 0;

beforeAll(async () => {
  lab = await startServers(3);
});
afterAll(() => lab[Symbol.asyncDispose]());

const newKey = (): string => `faults${++keys}`;
const server = (at = 0): RedisServer => lab.servers[at] as RedisServer;

/** Collects what onLockLost is called with. */
function losses(): { readonly lost: Error[]; readonly onLockLost: (error: Error) => void } {
  const lost: Error[] = [];
  return { lost, onLockLost: (error) => void lost.push(error) };
}

/** Servers of its own, whose last one does not answer. */
async function oneHung(count: number): Promise<Servers> {
  const own = await startServers(count);
  onTestFinished(() => own[Symbol.asyncDispose]());
  await Promise.all(own.raws.map((raw) => raw.ping()));
  const last = own.servers.at(-1) as RedisServer;
  last.pause();
  onTestFinished(() => last.resume());
  return own;
}

async function exists(key: string, raw: Redis = lab.raw): Promise<boolean> {
  return (await raw.exists(key)) === 1;
}

describe("an answer that comes late", () => {
  test.each(ALONE)("$name: is not believed, and what it took is given back", async ({ make, prefix }) => {
    const { proxy, client } = await faultyClient(server());
    const key = newKey();
    // The script is known there, so that the next answer is about the lock.
    const other = make(ours, [client], newKey(), ONCE);
    await other.acquire();
    await other.release();
    proxy.hang("replies");
    const tried = make(ours, [client], key, { acquireAttemptsLimit: 1, lockTimeout: 1000 }).tryAcquire();
    await eventually("it is taken", async () => ((await exists(prefix + key)) ? true : undefined));
    await eventually("it is over", async () => ((await exists(prefix + key)) ? undefined : true));
    await proxy.heal();
    expect(await tried).toBe(false);
    await client.ping();
    expect(await exists(prefix + key)).toBe(false);
  });

  test("of a refresh is a loss, and reported when the lock's time is over", async () => {
    const { proxy, client } = await faultyClient(server());
    const { lost, onLockLost } = losses();
    const mutex = new Mutex(client, newKey(), { lockTimeout: 600, refreshInterval: 100, onLockLost });
    await mutex.acquire();
    proxy.hang("replies");
    await eventually("its loss is reported", () => (lost.length > 0 ? true : undefined));
    expect([lost[0] instanceof LostLockError, mutex.isAcquired, mutex.signal.aborted]).toEqual([true, false, true]);
    await proxy.heal();
    await client.ping();
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect([lost.length, mutex.isAcquired]).toEqual([1, false]);
  });

  test("is counted from the question, with a part kept back because clocks run differently", async () => {
    const timers = vi.spyOn(globalThis, "setTimeout");
    onTestFinished(() => timers.mockRestore());
    const mutex = new Mutex(lab.raw, newKey(), { lockTimeout: 20_000, refreshInterval: 0 });
    await mutex.acquire();
    const trustMs = 20_000 * 0.99 - 2;
    const last = Number(timers.mock.calls.at(-1)?.[1]);
    expect([last <= trustMs, last > trustMs - 15_000]).toEqual([true, true]);
    await mutex.release();
  });

  test("of a refresh of an earlier time says nothing about this one", async () => {
    const key = newKey();
    const [late, refreshed] = [door(), door()];
    const { lost, onLockLost } = losses();
    let isFirst = true;
    await lab.raw.script("LOAD", extend.source);
    // The first refresh is asked between the two times, finds nothing, and its answer comes during the second.
    const client = {
      eval: lab.raw.eval.bind(lab.raw),
      evalsha: async (...args: Parameters<Redis["evalsha"]>) => {
        const isRefresh = isFirst && mutex.isAcquired && args.length === 5;
        if (!isRefresh) return await lab.raw.evalsha(...args);
        isFirst = false;
        await lab.raw.del(`mutex:${key}`);
        const reply = await lab.raw.evalsha(...args);
        refreshed.open();
        await late.passed;
        return reply;
      },
    } as unknown as Redis;
    const mutex = new Mutex(client, key, { lockTimeout: 60_000, refreshInterval: 30, onLockLost });
    await mutex.acquire();
    await refreshed.passed;
    await mutex.release();
    await mutex.acquire();
    late.open();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect([lost.length, mutex.isAcquired]).toEqual([0, true]);
    await mutex.release();
  });
});

describe("a server that hangs", () => {
  test.each(ALONE)("$name: tryAcquire() ends after the lock's time, and leaves nothing", async ({ make, prefix }) => {
    const { proxy, client } = await faultyClient(server());
    const key = newKey();
    proxy.hang();
    const options = { lockTimeout: 300, acquireTimeout: 100 };
    await expect(make(ours, [client], key, options).acquire()).rejects.toThrow(TimeoutError);
    await proxy.heal();
    await client.ping();
    await eventually("it is given back", async () => ((await exists(prefix + key)) ? undefined : true));
  });

  test("abort() is heard in the middle of a try, and what that takes is given back", async () => {
    const { proxy, client } = await faultyClient(server());
    const key = newKey();
    proxy.hang();
    const stop = new AbortController();
    const acquired = new Mutex(client, key, { lockTimeout: 60_000 }).acquire(stop.signal);
    const reason = new Error("enough");
    stop.abort(reason);
    await expect(acquired).rejects.toBe(reason);
    await proxy.heal();
    await client.ping();
    expect(await exists(`mutex:${key}`)).toBe(false);
  });

  test("release() ends after the lock's time, and the signal aborts", async () => {
    const { proxy, client } = await faultyClient(server());
    const mutex = new Mutex(client, newKey(), { lockTimeout: 300 });
    await mutex.acquire();
    proxy.hang();
    await expect(mutex.release()).rejects.toThrow("No answer within 300 ms.");
    await eventually("it aborts", () => (mutex.signal.aborted ? true : undefined));
    await proxy.heal();
  });

  test("one of three: the lock is taken, kept for longer than its time, and released", async () => {
    const own = await oneHung(3);
    const { lost, onLockLost } = losses();
    const mutex = new RedlockMutex([...own.raws], newKey(), { lockTimeout: 1500, refreshInterval: 200, onLockLost });
    await mutex.acquire();
    const startMs = performance.now();
    await eventually("two times its time are over", () => (performance.now() - startMs > 3000 ? true : undefined));
    expect([lost.length, mutex.isAcquired, mutex.signal.aborted]).toEqual([0, true, false]);
    await mutex.release();
  });

  test("one of three, where another is taken: a try ends, and gives its vote back", async () => {
    const own = await oneHung(3);
    const key = newKey();
    await own.raws[1]!.set(`mutex:${key}`, "other");
    const mutex = new RedlockMutex([...own.raws], key, { acquireAttemptsLimit: 1, lockTimeout: 1000 });
    expect(await mutex.tryAcquire()).toBe(false);
    expect(await exists(`mutex:${key}`, own.raw)).toBe(false);
  });
});

test("a majority that fails to answer a refresh has not lost the lock: the next one finds it", async () => {
  const key = newKey();
  const { lost, onLockLost } = losses();
  let failures = 0;
  const failing = lab.raws.slice(1).map((raw) =>
    watchedClient(raw, () => {
      if (mutex.isAcquired && failures < 2 && ++failures) throw new Error("Connection is closed.");
    }),
  );
  const mutex = new RedlockMutex([lab.raw, ...failing], key, {
    lockTimeout: 30_000,
    refreshInterval: 50,
    onLockLost,
  });
  await mutex.acquire();
  const count = failing[0]!.sent.length;
  await eventually("it was refreshed after that, or is lost", () =>
    failing[0]!.sent.length > count + 6 || lost.length > 0 ? true : undefined,
  );
  expect([failures, lost.length, mutex.isAcquired]).toEqual([2, 0, true]);
  await mutex.release();
});

describe("a question that is sent again", () => {
  test.each(ALONE)("$name: finds the lock that it took the first time", async ({ make, prefix, holders }) => {
    const { proxy, client } = await faultyClient(server());
    const key = newKey();
    const others = Array.from({ length: holders }, () => make(ours, [client], key, ONCE));
    for (const other of others) await other.acquire();
    // Its permit, or its permits, are the last.
    await others[0]!.release();
    const lost = loseNextReply(proxy);
    const lock = make(ours, [client], key, ONCE);
    const tried = lock.tryAcquire();
    await lost;
    expect(await tried).toBe(true);
    for (const one of [...others, lock]) await one.release();
    expect(await exists(prefix + key)).toBe(false);
  });

  test.each(KINDS)("$name: but one object that asks twice at once has it once", async ({ make, holders }) => {
    const key = newKey();
    const others = Array.from({ length: holders - 1 }, () => make(ours, lab.raws, key, ONCE));
    for (const other of others) await other.acquire();
    const lock = make(ours, lab.raws, key, ONCE);
    const tried = await Promise.all([lock.tryAcquire(), lock.tryAcquire(), lock.tryAcquire()]);
    // Of a quorum, each may get votes that the others need.
    expect(tried.filter(Boolean).length).toBeLessThanOrEqual(1);
    for (const one of [...others, lock]) await one.release();
  });

  test("and two that share an identifier exclude each other, as in redis-semaphore", async () => {
    const key = newKey();
    const options = { ...ONCE, identifier: "shared" };
    const [one, two] = [new Mutex(lab.raw, key, options), new Mutex(lab.raw, key, options)];
    expect([await one.tryAcquire(), await two.tryAcquire()]).toEqual([true, false]);
    await one.release();
    const [three, four] = [new Semaphore(lab.raw, key, 1, options), new MultiSemaphore(lab.raw, key, 1, 1, options)];
    expect([await three.tryAcquire(), await four.tryAcquire()]).toEqual([true, false]);
    await three.release();
  });
});

test("with `locks`: an object that takes another permit instead of its first has lost nothing", async () => {
  const locks = createLocks(memory());
  onTestFinished(() => locks.close());
  const { lost, onLockLost } = losses();
  const semaphore = new Semaphore(lab.raw, newKey(), 2, { locks, onLockLost });
  await semaphore.acquire();
  await semaphore.acquire();
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([lost.length, semaphore.isAcquired, semaphore.signal.aborted]).toEqual([0, true, false]);
  await semaphore.release();
});

test("fewer permits than one are refused: they would always be had, and hold nothing", () => {
  for (const permits of [-1, 0.5]) {
    const make = (): unknown => new MultiSemaphore(lab.raw, newKey(), 2, permits);
    expect(make).toThrow(/Expected `permits` to be at least 1/u);
  }
});

test("a refresh that a release overtakes reports no loss", async () => {
  const { lost, onLockLost } = losses();
  const real = lab.raws[0] as Redis;
  const order: string[] = [];
  let freed = (): void => undefined;
  let refreshed = (): void => undefined;
  const isFreed = new Promise<void>((resolve) => (freed = resolve));
  const isRefreshed = new Promise<void>((resolve) => (refreshed = resolve));
  // The first call takes it. The second, a refresh, is on its way until the third, its release, is carried out, and is answered first.
  const call = async (verb: "eval" | "evalsha", args: readonly unknown[]): Promise<unknown> => {
    order.push(verb);
    const at = order.length;
    if (at === 2) await isFreed;
    const answer = await (real[verb] as (...all: unknown[]) => Promise<unknown>).apply(real, [...args]);
    if (at === 3) {
      freed();
      await isRefreshed;
    }
    if (at === 2) setImmediate(refreshed);
    return answer;
  };
  const key = newKey();
  // So that no call finds its script missing.
  const before = new Mutex(real, key, { lockTimeout: 60_000, refreshInterval: 10 });
  await before.acquire();
  await eventually("it was refreshed", async () => ((await real.pttl(`mutex:${key}`)) > 0 ? true : undefined));
  await new Promise((resolve) => setTimeout(resolve, 50));
  await before.release();
  const client = {
    eval: (...args: readonly unknown[]) => call("eval", args),
    evalsha: (...args: readonly unknown[]) => call("evalsha", args),
  };
  const mutex = new Mutex(client as unknown as Redis, key, { lockTimeout: 60_000, refreshInterval: 10, onLockLost });
  await mutex.acquire();
  await eventually("a refresh is on its way", () => (order.length === 2 ? true : undefined));
  await mutex.release();
  expect(order).toHaveLength(3);
  expect(lost).toEqual([]);
});
