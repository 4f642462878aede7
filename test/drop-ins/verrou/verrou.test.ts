/** The real Verrou over holdfastStore(): in memory, on files and on Redis; and a lock that is restored by another process's locks. */
import { E_LOCK_NOT_OWNED, LockFactory, Verrou } from "@verrou/core";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { memory } from "../../../src/backends/memory/index.ts";
import type { Backend } from "../../../src/contract/backend.ts";
import type { Locks } from "../../../src/core/api.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { type HoldfastDriver, holdfastStore } from "../../../src/drop-ins/verrou/index.ts";
import { OLDEST, VERROU } from "../../../src/drop-ins/verrou/supported.ts";
import { installedVersion, whyUnsupported } from "../../../src/contract/peer-version.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { type Store, STORES } from "../web-locks/stores.ts";

let count = 0;
let name: string;
beforeEach(() => void (name = `verrou ${++count}`));

describe.each(Object.entries(STORES))("on %s", (kind, start) => {
  /** A lease on files lives with its process. */
  const isExtendedElsewhere = kind !== "file";

  let store: Store;
  let [locks, otherLocks]: [Locks, Locks] = [undefined as never, undefined as never];
  let [driver, otherDriver]: [HoldfastDriver, HoldfastDriver] = [undefined as never, undefined as never];
  let [verrou, other]: [LockFactory, LockFactory] = [undefined as never, undefined as never];

  beforeAll(async () => {
    store = await start();
    [locks, otherLocks] = [await store.client(), await store.client()];
    [driver, otherDriver] = [holdfastStore(locks), holdfastStore(otherLocks)];
    verrou = new Verrou({ default: "main", stores: { main: { driver } } }).use("main");
    other = new LockFactory(otherDriver.factory(), { retry: { delay: 10 } });
  });

  afterAll(() => store.stop());

  test("a lock is exclusive, in one process and between two, also for its own owner", async () => {
    const lock = verrou.createLock(name);
    expect(await lock.isLocked()).toBe(false);
    expect(await lock.acquireImmediately()).toBe(true);
    expect(await lock.isLocked()).toBe(true);
    expect(await other.createLock(name).isLocked()).toBe(true);
    for (const again of [lock, verrou.createLock(name), other.createLock(name), other.restoreLock(lock.serialize())])
      expect(await again.acquireImmediately()).toBe(false);
    await expect(other.createLock(name).release()).rejects.toThrow(E_LOCK_NOT_OWNED);
    const waits = other.createLock(name).run(async () => "turn");
    await lock.release();
    expect(await waits).toEqual([true, "turn"]);
    await expect(lock.release()).rejects.toThrow(E_LOCK_NOT_OWNED);
    expect(await lock.isLocked()).toBe(false);
  });

  test("a lock has a fence that rises, and a signal that says when it is lost", async () => {
    const lock = verrou.createLock(name);
    expect(driver.leaseOf(lock)).toBeUndefined();
    await lock.acquire();
    const first = driver.leaseOf(lock)!;
    expect(first.fence).toBeTypeOf("bigint");
    expect(first.signal.aborted).toBe(false);
    await lock.release();
    expect(driver.leaseOf(lock)).toBeUndefined();
    const next = verrou.createLock(name);
    await next.acquire();
    const lease = driver.leaseOf(next)!;
    expect(lease.fence).toBeGreaterThan(first.fence);
    const { signal } = lease;
    await other.createLock(name).forceRelease();
    await eventually("its signal aborts", () => (signal.aborted ? true : undefined));
    expect(signal.reason).toMatchObject({
      code: "ERR_LOCK_LOST",
      loss: { kind: "forced", reason: "forceRelease() of Verrou" },
    });
    expect(await next.isLocked()).toBe(false);
    await expect(next.extend()).rejects.toThrow(E_LOCK_NOT_OWNED);
    await expect(next.release()).rejects.toThrow(E_LOCK_NOT_OWNED);
  });

  test("a lock that was serialised is extended and released by another process, and its first one hears of it", async () => {
    const lock = verrou.createLock(name, "20s");
    await lock.acquire();
    const { signal } = driver.leaseOf(lock)!;
    const text = JSON.stringify(lock.serialize());
    const restored = other.restoreLock(JSON.parse(text) as ReturnType<typeof lock.serialize>);
    expect(await restored.isLocked()).toBe(true);
    expect(otherDriver.leaseOf(restored)).toBeUndefined();
    if (isExtendedElsewhere) {
      await restored.extend("10m");
      expect((await locks.inspect(name)).held[0]!.remainingMs).toBeGreaterThan(60_000);
    } else {
      await expect(restored.extend("10m")).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
    }
    await restored.release();
    expect(await lock.isLocked()).toBe(false);
    await eventually("the signal of its first process aborts", () => (signal.aborted ? true : undefined));
    await expect(restored.release()).rejects.toThrow(E_LOCK_NOT_OWNED);
    await expect(restored.extend("1s")).rejects.toThrow(E_LOCK_NOT_OWNED);
    await expect(lock.extend("1s")).rejects.toThrow(E_LOCK_NOT_OWNED);
  });

  if (isExtendedElsewhere) {
    test("a lock that another process has extended can be extended and released by its first one, though its lease is over here", async () => {
      const lock = verrou.createLock(name, 3000);
      await lock.acquire();
      await other.restoreLock(lock.serialize()).extend("10m");
      const lease = driver.leaseOf(lock)!;
      await eventually("its lease is over here", () => (lease.remaining() === 0 ? true : undefined));
      expect(await lock.isLocked()).toBe(true);
      await lock.extend("5m");
      await lock.release();
      expect(await lock.isLocked()).toBe(false);
    });
  }

  test("an owner that is not known here proves nothing", async () => {
    const lock = verrou.createLock(name);
    await lock.acquire();
    const forged = other.restoreLock({ ...lock.serialize(), owner: `${lock.getOwner()}x` });
    await expect(forged.release()).rejects.toThrow(E_LOCK_NOT_OWNED);
    await expect(forged.extend("1m")).rejects.toThrow(E_LOCK_NOT_OWNED);
    const [held] = (await locks.inspect(name)).held;
    expect(JSON.stringify(held!.meta)).not.toContain(lock.getOwner());
    await lock.release();
  });

  test("a ttl ends the lock, extend() moves its end, and without a ttl it is renewed", async () => {
    const lock = verrou.createLock(name, "20s");
    await lock.acquire();
    await lock.extend("10m");
    expect((await locks.inspect(name)).held[0]!.remainingMs).toBeGreaterThan(60_000);
    await lock.release();
    const short = verrou.createLock(name, 300);
    await short.acquire();
    await eventually("it is over", async () => ((await short.isLocked()) ? undefined : true));
    await expect(short.release()).rejects.toThrow(E_LOCK_NOT_OWNED);
    const brief = await store.client({ ttl: 1500 });
    const endless = new LockFactory(holdfastStore(brief).factory()).createLock(name, null);
    await endless.acquire();
    await eventually("it is held for longer than one ttl", async () => {
      const [held] = (await brief.inspect(name)).held;
      expect(held, "it is held all the time").toBeDefined();
      return held!.heldMs > 2000 ? true : undefined;
    });
    await endless.release();
  });

  test("what its process does with the lock afterwards is out of the reach of its owner", async () => {
    const lock = verrou.createLock(name, null);
    await lock.acquire();
    const next = locks.acquire(name);
    await lock.release();
    const lease = await next;
    await expect(other.restoreLock(lock.serialize()).release()).rejects.toThrow(E_LOCK_NOT_OWNED);
    expect(await otherLocks.tryAcquire(name)).toBeNull();
    expect(await lease.release()).toBe("released");
  });

  test("run() passes results and errors on, and gives the lock back", async () => {
    const lock = verrou.createLock(name);
    expect(await lock.run(async () => "value")).toEqual([true, "value"]);
    await expect(lock.run(async () => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
    expect(await lock.isLocked()).toBe(false);
    let inside = 0;
    const turns = [verrou, other, verrou, other].map((factory) =>
      factory.createLock(name).run(async () => {
        expect(++inside).toBe(1);
        await Promise.resolve();
        inside--;
      }),
    );
    await Promise.all(turns);
  });

  test("it excludes what is held without Verrou, and is no re-entry", async () => {
    await locks.run(name, async () => {
      expect(await verrou.createLock(name).acquireImmediately()).toBe(false);
      expect(await other.createLock(name).acquireImmediately()).toBe(false);
    });
    const lock = verrou.createLock(name);
    await lock.acquire();
    expect(await otherLocks.tryAcquire(name)).toBeNull();
    await lock.release();
  });

  test("ttls of Verrou that no lease can have are brought to one that it can", async () => {
    const tiny = verrou.createLock(name, 1);
    // It is 100 ms, which a busy machine may take to hear of the grant.
    await eventually("it is granted", async () => ((await tiny.acquire()) ? true : undefined));
    await eventually("it is over", async () => ((await tiny.isLocked()) ? undefined : true));
    const long = verrou.createLock(name, "3d");
    await long.acquire();
    expect(driver.leaseOf(long)!.remaining()).toBeGreaterThan(23 * 3_600_000);
    await long.release();
  });
});

test("a store that does not answer is an error of the store, and no lock is believed to be free or held", async () => {
  const backend = memory();
  let isDown = false;
  const through = <T>(answer: () => Promise<T>): Promise<T> => (isDown ? Promise.reject(new Error("down")) : answer());
  const shaky: Backend = {
    name: "shaky",
    can: backend.can,
    attempt: (claim) => through(() => backend.attempt(claim)),
    renew: (claims, fences) => through(() => backend.renew(claims, fences)),
    release: (claim) => through(() => backend.release(claim)),
    query: (prefix) => through(() => backend.query(prefix)),
    inspect: (key) => through(() => backend.inspect(key)),
    forceRelease: (...given) => through(() => backend.forceRelease(...given)),
    close: async () => {},
  };
  const locks = createLocks(shaky);
  onTestFinished(() => locks.close({ grace: 0, force: true }).catch(() => {}));
  const factory = new LockFactory(holdfastStore(locks).factory());
  const lock = factory.createLock("a", 1000);
  await lock.acquire();
  isDown = true;
  await expect(factory.createLock("b").acquireImmediately()).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
  await expect(lock.isLocked()).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
  await expect(lock.release()).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
  isDown = false;
});

test("only locks of Holdfast can be given, and only supported versions of Verrou", () => {
  expect(() => holdfastStore({} as Locks)).toThrow("Expected `locks` to be those of createLocks() or connect()");
  expect(whyUnsupported(VERROU, installedVersion(VERROU, import.meta.url), OLDEST)).toBeUndefined();
  expect(whyUnsupported(VERROU, "0.4.9", OLDEST)).toContain("npm install @verrou/core@0");
});
