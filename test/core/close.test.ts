/** The graceful end. */
import { expect, test } from "vitest";
import { LockClosedError, LockLostError } from "../../src/contract/errors.ts";
import { createLocks } from "../../src/core/locks.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { subscribe } from "../../src/core/subscribe.ts";
import { failure, gate, stage } from "./scripted.ts";

test("close stops acquiring, tells the work, waits for it, then releases and closes the backend", async () => {
  const { clock, backend, locks, other } = stage();
  const log: string[] = [];
  const finish = gate();
  const working = locks.run("a", async ({ signal }) => {
    signal.addEventListener("abort", () => log.push("aborted"));
    await finish.opened;
    log.push("settled");
  });
  await other().acquire("b");
  await clock.settle();
  const waiting = failure(locks.acquire("b"));
  await clock.settle();
  const closing = locks.close().then(() => log.push("closed"));
  await clock.settle();
  expect(await waiting).toBeInstanceOf(LockClosedError);
  expect(await failure(locks.acquire("c"))).toBeInstanceOf(LockClosedError);
  expect(log).toEqual(["aborted"]);
  expect(backend.count("release")).toBe(1);
  finish.open();
  await working;
  await closing;
  expect(log).toEqual(["aborted", "settled", "closed"]);
  expect(backend.closed).toBe(true);
  const there = other();
  expect(await there.tryAcquire("a")).not.toBeNull();
  expect((await there.query()).pending).toHaveLength(0);
});

test("the work is still held while it winds down", async () => {
  const { clock, locks } = stage();
  const finish = gate();
  const working = locks.run("a", async (lease) => {
    await finish.opened;
    lease.assertHeld();
  });
  await clock.settle();
  const closing = locks.close();
  await clock.advance(60_000);
  finish.open();
  await working;
  await closing;
});

test("after the grace period close rejects, names what runs, and releases nothing under it", async () => {
  const { clock, backend, locks, other } = stage();
  const finish = gate();
  const working = locks.run("a", () => finish.opened);
  await clock.settle();
  const closing = failure(locks.close({ grace: "5s" }));
  await clock.advance(5000);
  const error = await closing;
  expect(error).toBeInstanceOf(LockClosedError);
  expect(error.message).toContain("a");
  await clock.advance(120_000);
  expect(await other().tryAcquire("a")).toBeNull();
  finish.open();
  await working;
  await clock.settle();
  expect(backend.closed).toBe(true);
  expect(await other().tryAcquire("a")).not.toBeNull();
});

test("with force it releases under a function that still runs, which learns that its lease is lost", async () => {
  const { clock, locks, other } = stage();
  const finish = gate();
  let held: unknown;
  const working = locks.run("a", async (lease) => {
    const { signal } = lease;
    await finish.opened;
    held = await failure(Promise.resolve().then(() => lease.assertHeld()));
    return signal.aborted;
  });
  await clock.settle();
  const closing = locks.close({ grace: "5s", force: true });
  await clock.advance(5000);
  await closing;
  expect(await other().tryAcquire("a")).not.toBeNull();
  finish.open();
  const error = await failure(working);
  expect(error).toBeInstanceOf(LockLostError);
  expect(error["result"]).toBe(true);
  expect(held).toBeInstanceOf(LockLostError);
  expect(held).toMatchObject({ reason: "the locks were closed" });
});

test("leases from acquire() are aborted and released", async () => {
  const { locks, other } = stage();
  const lease = await locks.acquire("a");
  const { signal } = lease;
  await locks.close();
  expect(signal.reason).toBeInstanceOf(LockClosedError);
  expect(await other().tryAcquire("a")).not.toBeNull();
  expect(await lease.release()).toBe("lost");
});

test("closing twice is closing once, and disposal closes", async () => {
  const { backend, locks } = stage();
  await Promise.all([locks.close(), locks.close()]);
  await locks[Symbol.asyncDispose]();
  expect(backend.closings).toBe(1);
  const disposed = stage();
  await disposed.locks[Symbol.asyncDispose]();
  expect(disposed.backend.closings).toBe(1);
});

test("a grace that is no duration is refused", async () => {
  const { locks } = stage();
  await expect(locks.close({ grace: "soon" as never })).rejects.toThrow(/grace/);
});

test("nothing is left: no timer, no claim", async () => {
  const { clock, locks, other } = stage();
  await locks.acquire("a");
  void locks.acquire("a").catch(() => {});
  await clock.settle();
  await locks.close();
  await clock.settle();
  const there = other();
  expect(await there.query()).toMatchObject({ held: [], pending: [] });
  expect(clock.timers).toBe(0);
});

test.each(["a hold", "a claim that no request wants"])(
  "%s that the store never lets go keeps nothing waiting after it",
  async (what) => {
    const { backend, clock, other } = stage();
    const locks = createLocks(backend, { clock: clock.owned("mine") });
    if (what === "a hold") await locks.acquire("a");
    else await other().acquire("a");
    backend.interfere.release = () => new Promise(() => {});
    if (what !== "a hold") {
      const over = new AbortController();
      const waiting = failure(locks.acquire("a", { signal: over.signal }));
      await clock.settle();
      over.abort();
      await waiting;
    }
    let closed = false;
    const closing = failure(locks.close()).finally(() => (closed = true));
    while (!closed) await clock.advance(100);
    expect((await closing).message).toContain("did not confirm");
    expect(clock.timersOf("mine")).toBe(0);
  },
);

test.each([
  ["whose maxHold is over", { ttl: "30s", maxHold: "1s" }, 0],
  ["in doubt, which was renewed before it was released, and then its trust ended", { ttl: "3s" }, 2900],
] as const)(
  "S132: close() waits for the second asking of a release of a lease %s: the store may have it yet",
  async (_, options, heldMs) => {
    const { clock, backend, locks, other } = stage();
    const answered = gate();
    const never = (): Promise<never> => new Promise(() => {});
    // The first asking is lost: its renewal is carried out, and never answered.
    backend.interfere.renew = async (pass) => (await pass(), await never());
    let isLost = heldMs === 0;
    backend.interfere.release = async (pass) => {
      const wasLost = isLost;
      isLost = false;
      if (wasLost) return await never();
      await answered.opened;
      return await pass();
    };
    const lease = await locks.acquire("a", options);
    await clock.advance(heldMs);
    if (heldMs > 0) clock.suspend(5000);
    const released = lease.release();
    let closed = false;
    const closing = locks.close().then(() => (closed = true));
    await clock.advance(2500);
    expect((await other().query()).held).toHaveLength(1);
    expect(closed).toBe(false);
    answered.open();
    await closing;
    expect((await other().query()).held).toEqual([]);
    await released;
  },
);

test("S132: close() does not count the time in which its own event loop was blocked", async () => {
  const { clock, backend, locks, other } = stage();
  const arrived = gate();
  backend.interfere.attempt = async (pass) => {
    await arrived.opened;
    return await pass();
  };
  backend.interfere.release = async (pass) => {
    await arrived.opened;
    return await pass();
  };
  const running = failure(locks.run("a", () => {}));
  await clock.settle();
  const closing = locks.close();
  await clock.settle();
  clock.block(60_000);
  // Timers come first after that; what has arrived meanwhile is heard behind them.
  await clock.advance(1);
  arrived.open();
  await closing;
  expect(await running).toBeInstanceOf(LockClosedError);
  expect(await other().query()).toMatchObject({ held: [], pending: [] });
});

test("close() waits for as long as the store goes on answering, however many leases there are", async () => {
  const { clock, backend, locks, other } = stage();
  const names = ["a", "b", "c", "d", "e", "f", "g"];
  for (const name of names) await locks.acquire(name, { ttl: "60s" });
  let busyUntilMs = 0;
  const answering = new Map<string, Promise<void>>();
  // One answer in two seconds: in all more than the store's time for being silent.
  backend.interfere.release = async (pass, [claim]) => {
    const id = claim?.id ?? "";
    if (!answering.has(id)) {
      busyUntilMs = Math.max(busyUntilMs, clock.now()) + 2000;
      const waitMs = busyUntilMs - clock.now();
      answering.set(id, new Promise((resolve) => clock.setTimer(() => resolve(), waitMs)));
    }
    await answering.get(id);
    return await pass();
  };
  let closed = false;
  const closing = locks.close().finally(() => (closed = true));
  while (!closed) await clock.advance(100);
  await closing;
  expect(clock.now()).toBeGreaterThanOrEqual(2000 * names.length);
  expect(await other().query()).toMatchObject({ held: [], pending: [] });
});

type Listening = "no one" | "leases" | "acquires" | "contention()";

test.each<Listening>(["no one", "leases", "acquires", "contention()"])(
  "no caller gets a lease that close() has released, whenever that is called; who listens: %s",
  async (listening) => {
    const ends: (() => void)[] = [];
    if (listening === "leases") ends.push(subscribe("hold", () => {}));
    if (listening === "acquires") ends.push(subscribe("acquire", () => {}));
    const over: string[] = [];
    let closed = 0;
    for (const names of ["a", ["a", "b"]]) {
      for (let turns = 0; turns < 30; turns++) {
        const locks = createLocks(memory());
        if (listening === "contention()") await locks.contention();
        const taken = locks.acquire(names).then(
          (lease) => {
            if (lease.remaining() <= 0) over.push(`${String(names)} after ${turns}`);
          },
          (error: unknown) => {
            expect(error).toBeInstanceOf(LockClosedError);
            closed++;
          },
        );
        for (let turn = 0; turn < turns; turn++) await Promise.resolve();
        await Promise.all([locks.close(), taken]);
      }
    }
    for (const end of ends) end();
    expect(over).toEqual([]);
    expect(closed).toBeGreaterThan(1);
  },
);
