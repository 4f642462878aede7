/** Those who do not wait: "busy" is said only of a lock that was, between the call and the answer; and it takes few questions. */
import { describe, expect, test } from "vitest";
import type { Backend, Claim, Granted } from "../../src/contract/backend.ts";
import { LockBackendError, LockTimeoutError } from "../../src/contract/errors.ts";
import { createLocks } from "../../src/core/locks.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { failure, gate, type Stage, stage } from "./scripted.ts";

/** A store without a queue, as a quorum is: a waiter asks again now and then, and gets no position. */
function polling({ backend, clock }: Stage): Backend {
  return {
    name: "polling",
    attempt: (claim) => backend.attempt({ ...claim, queues: false }),
    renew: (claims, fences) => backend.renew(claims, fences),
    release: (claim) => backend.release(claim),
    query: (prefix) => backend.query(prefix),
    inspect: (name) => backend.inspect(name),
    forceRelease: (name, fence, by, reason) => backend.forceRelease(name, fence, by, reason),
    close: () => clock.settle(),
  };
}

/** Locks whose news of a grant stays on its way until the gate is opened. */
function withSlowNews({ clock, store }: Stage): {
  readonly locks: ReturnType<typeof createLocks>;
  readonly open: () => void;
} {
  const inner = memory({ store });
  const { opened, open } = gate();
  const watch = async (claim: Claim, signal: AbortSignal): Promise<Granted | undefined> => {
    const news = await inner.watch!(claim, signal);
    await opened;
    return news;
  };
  return { locks: createLocks(Object.assign(memory({ store }), { watch }), { clock, holder: "here:1" }), open };
}

describe("a free lock is not called busy", () => {
  test("S142: while another request here waits for it at a store without a queue", async () => {
    const world = stage();
    const locks = createLocks(polling(world), { clock: world.clock });
    const rival = await world.other().acquire("a");
    const waiting = locks.acquire("a", { wait: "1m" });
    await world.clock.settle();
    expect(await locks.tryAcquire("a")).toBeNull();
    await rival.release();
    // The waiter has not asked again yet, and the lock is free.
    const lease = (await locks.tryAcquire("a"))!;
    expect(lease).not.toBeNull();
    await lease.release();
    await world.clock.advance(2000);
    await (await waiting).release();
  });

  test("S142: nor is a try held up by those who wait there", async () => {
    const world = stage();
    const locks = createLocks(polling(world), { clock: world.clock });
    await world.other().acquire("a");
    const waiting = failure(locks.acquire("a", { wait: "1m" }));
    await world.clock.settle();
    const asked = world.backend.count("attempt");
    // No time passes.
    expect(await locks.tryAcquire("a")).toBeNull();
    expect(world.backend.count("attempt")).toBe(asked + 1);
    await locks.close();
    await waiting;
  });

  test("S142: shared, while the grant of a reader here is on its way", async () => {
    const world = stage();
    const { locks, open } = withSlowNews(world);
    const writer = await world.other().acquire("a");
    const waiting = locks.acquire("a", { mode: "shared", meta: { n: "1" } });
    await world.clock.settle();
    await writer.release();
    const lease = await locks.tryAcquire("a", { mode: "shared" });
    expect(lease).not.toBeNull();
    open();
    (await waiting).assertHeld();
    lease!.assertHeld();
  });

  test("S142: with a limit, while the grant of another request here is on its way and there is room beside it", async () => {
    const world = stage();
    const { locks, open } = withSlowNews(world);
    const others = [await world.other().acquire("a", { limit: 2 }), await world.other().acquire("a", { limit: 2 })];
    const waiting = locks.acquire("a", { limit: 2 });
    await world.clock.settle();
    for (const other of others) await other.release();
    const lease = await locks.tryAcquire("a", { limit: 2 });
    expect(lease).not.toBeNull();
    expect(await locks.tryAcquire("a", { limit: 2 })).toBeNull();
    open();
    (await waiting).assertHeld();
    lease!.assertHeld();
  });

  test("S142: on the word of a lease that may have ended while the machine slept", async () => {
    const { backend, clock, locks } = stage();
    const old = await locks.acquire("a");
    expect(await locks.tryAcquire("a")).toBeNull();
    clock.suspend(60_000);
    await backend.release(backend.steps[0]!.claims[0]!);
    const lease = (await locks.tryAcquire("a"))!;
    lease.assertHeld();
    // No longer in doubt: the new grant is proof.
    expect(() => old.assertHeld()).toThrow(/no longer knows it/);
    expect(await old.release()).toBe("lost");
    expect(await lease.release()).toBe("released");
  });

  test("S142: for a request that was refused before it came", async () => {
    const { backend, clock, locks, other } = stage();
    const rival = await other().acquire("a");
    const answer = gate();
    backend.interfere.attempt = async (pass) => {
      backend.interfere.attempt = undefined;
      const said = await pass();
      await answer.opened;
      return said;
    };
    const early = locks.tryAcquire("a");
    await clock.settle();
    await rival.release();
    const late = [locks.tryAcquire("a"), locks.tryAcquire("a")];
    answer.open();
    expect(await early).toBeNull();
    expect((await Promise.all(late)).filter((lease) => lease !== null)).toHaveLength(1);
  });

  test("S142: nor while a waiter here is asked for that gives up", async () => {
    const { backend, clock, locks } = stage();
    const answer = gate();
    backend.interfere.attempt = async (pass) => {
      backend.interfere.attempt = undefined;
      await answer.opened;
      return await pass();
    };
    const waiting = failure(locks.acquire("a", { wait: 10 }));
    const trying = locks.tryAcquire("a");
    await clock.advance(10);
    expect(await waiting).toBeInstanceOf(LockTimeoutError);
    expect(await trying).not.toBeNull();
    answer.open();
  });
});

describe("a thousand tries at once", () => {
  const thousand = <T>(make: (n: number) => T): T[] => Array.from({ length: 1000 }, (_, n) => make(n));

  test("S142: on a busy lock are two questions, also where each says something else about itself", async () => {
    const same = (): Record<string, string> => ({});
    const other = (n: number): Record<string, string> => ({ n: String(n) });
    for (const [mode, meta] of [
      ["exclusive", same],
      ["exclusive", other],
      ["shared", same],
    ] as const) {
      const world = stage();
      await world.other().acquire("a");
      const answers = await Promise.all(thousand((n) => world.locks.tryAcquire("a", { mode, meta: meta(n) })));
      expect(answers.every((lease) => lease === null)).toBe(true);
      expect(world.backend.count("attempt")).toBeLessThanOrEqual(2);
      expect(world.backend.count("release")).toBe(0);
    }
  });

  test("S142: shared, where each says something else about itself, are a few questions", async () => {
    for (const [options, mostQuestions] of [
      [(n: number) => ({ meta: { n: String(n) } }), 1],
      [(n: number) => ({ ttl: 10_000 + n }), 1000],
    ] as const) {
      const world = stage();
      const writer = await world.other().acquire("a");
      const all = (): Promise<unknown[]> =>
        Promise.all(thousand((n) => world.locks.tryAcquire("a", { mode: "shared", ...options(n) })));
      expect((await all()).every((lease) => lease === null)).toBe(true);
      expect(world.backend.count("attempt")).toBeLessThanOrEqual(16);
      await writer.release();
      // Of another ttl each needs a lease of its own, and one question for it; what only people read is no reason for that.
      const before = world.backend.count("attempt");
      expect((await all()).every((lease) => lease !== null)).toBe(true);
      expect(world.backend.count("attempt") - before).toBe(mostQuestions);
      await world.locks.close();
      expect((await world.other().query()).held).toEqual([]);
    }
  });

  test("S142: `wait: 0` too, and each learns who has the lock", async () => {
    const { backend, locks, other } = stage();
    await other().acquire("a");
    const errors = await Promise.all(thousand(() => failure(locks.acquire("a", { wait: 0 }))));
    for (const error of errors) expect(error).toBeInstanceOf(LockTimeoutError);
    expect(errors.at(-1)!.message).toContain("there:2");
    expect(backend.count("attempt")).toBeLessThanOrEqual(2);
  });

  test("S142: with a limit are as many as may hold, and one more", async () => {
    for (const taken of [0, 1, 3]) {
      const { backend, locks, other } = stage();
      for (let n = 0; n < taken; n++) await other().acquire("a", { limit: 3 });
      const leases = await Promise.all(thousand(() => locks.tryAcquire("a", { limit: 3 })));
      expect(leases.filter((lease) => lease !== null)).toHaveLength(3 - taken);
      expect(backend.count("attempt")).toBeLessThanOrEqual(4);
    }
  });

  test("S142: of a free lock for readers are one, because they share what the first gets", async () => {
    const { backend, locks } = stage();
    const leases = await Promise.all(thousand(() => locks.tryAcquire("a", { mode: "shared" })));
    expect(leases.every((lease) => lease !== null)).toBe(true);
    expect(backend.count("attempt")).toBe(1);
  });

  test("S142: in an outage are a few, and no caller gets the answer that the lock is busy", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = () => Promise.reject(new Error("down"));
    const errors = Promise.all(thousand(() => failure(locks.tryAcquire("a"))));
    await clock.advance(1000);
    for (const error of await errors) expect(error).toBeInstanceOf(LockBackendError);
    expect(backend.count("attempt")).toBeLessThanOrEqual(4);
  });

  test("S142: with another request waiting here are two as well", async () => {
    const { backend, clock, locks, other } = stage();
    await other().acquire("a");
    const waiting = failure(locks.acquire("a", { wait: "1s" }));
    await clock.settle();
    expect(backend.count("attempt")).toBe(1);
    const answers = await Promise.all(thousand(() => locks.tryAcquire("a")));
    expect(answers.every((lease) => lease === null)).toBe(true);
    expect(backend.count("attempt")).toBeLessThanOrEqual(3);
    await clock.advance(1000);
    await waiting;
  });
});

describe("beside those who wait", () => {
  test("a request that comes while a try is under way waits for that answer, and asks no question of its own", async () => {
    const { backend, clock, locks } = stage();
    const trying = locks.tryAcquire("a");
    const waiting = locks.acquire("a");
    const lease = (await trying)!;
    await clock.settle();
    expect(backend.count("attempt")).toBe(1);
    expect(await lease.release()).toBe("released");
    await (await waiting).release();
    expect(backend.count("attempt")).toBe(1);
  });

  test("a try that comes while a waiter is asked for is refused with what the waiter gets", async () => {
    const { backend, locks } = stage();
    const waiting = locks.acquire("a");
    expect(await locks.tryAcquire("a")).toBeNull();
    expect(backend.count("attempt")).toBe(1);
    await (await waiting).release();
  });

  test("tries without end do not keep a waiter from its place in the store's queue", async () => {
    const { backend, clock, locks, other } = stage();
    const rival = await other().acquire("a");
    // Each of two tries is followed by another: a question of theirs is out all the time.
    let tries = 0;
    const storm = (): Promise<unknown> => locks.tryAcquire("a").then(() => (++tries < 100 ? storm() : undefined));
    const storms = [storm(), storm()];
    const waiting = locks.acquire("a");
    await Promise.all(storms);
    const places = backend.steps.map(({ claims }) => claims[0]!.queues);
    expect(places.indexOf(true)).toBeLessThan(5);
    await rival.release();
    await clock.settle();
    await (await waiting).release();
  });

  test("a waiter in the store's queue learns nothing of a try whose question hangs", async () => {
    const { backend, clock, locks, other } = stage();
    await other().acquire("a");
    const waiting = failure(locks.acquire("a", { wait: "4s" }));
    await clock.settle();
    backend.interfere.attempt = (pass, [claim]) => (claim!.queues ? pass() : new Promise(() => {}));
    const trying = failure(locks.tryAcquire("a"));
    await clock.advance(4000);
    expect(await waiting).toBeInstanceOf(LockTimeoutError);
    await clock.advance(1000);
    expect(await trying).toBeInstanceOf(LockBackendError);
  });

  test("a waiter behind a try whose question hangs says that the store does not answer", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = () => new Promise(() => {});
    const trying = failure(locks.tryAcquire("a"));
    const waiting = failure(locks.acquire("a", { wait: "3s" }));
    await clock.advance(5000);
    // It was asked for by itself when the try counted as lost.
    expect((await waiting).message).toContain("no answer for 1 s");
    expect((await trying).message).toContain("no answer for 5 s");
  });

  test("tries for other terms do not go out beside one that a waiter lets come back first: it would wait for ever", async () => {
    const { backend, clock, locks } = stage();
    const answer = gate();
    const asked: string[] = [];
    backend.interfere.attempt = async (pass, [claim]) => {
      asked.push(`${claim!.mode} ${claim!.ttlMs}`);
      if (asked.length === 1) await answer.opened;
      return await pass();
    };
    const first = locks.tryAcquire("a", { mode: "shared", ttl: "10s" });
    await clock.settle();
    const writer = locks.acquire("a", { wait: "1m" });
    const later = (["20s", "30s"] as const).map((ttl) => locks.tryAcquire("a", { mode: "shared", ttl }));
    await clock.settle();
    expect(asked).toEqual(["shared 10000"]);
    answer.open();
    await clock.settle();
    // The waiter is next, and those who came after it find it there.
    expect(asked[1]).toBe("exclusive 30000");
    await (await first)!.release();
    await clock.advance(100);
    await (await writer).release();
    await Promise.all(later);
  });

  test("a try whose question the store never answers is asked for anew", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = () => {
      backend.interfere.attempt = undefined;
      return new Promise(() => {});
    };
    const trying = locks.tryAcquire("a", { timeout: "1m", ttl: "3s" });
    await clock.advance(6000);
    expect(await trying).not.toBeNull();
  });

  test("news of a try's claim that overtakes its grant makes that grant worth nothing", async () => {
    const { backend, clock, locks } = stage();
    const answer = gate();
    backend.interfere.attempt = async (pass, [claim]) => {
      backend.interfere.attempt = undefined;
      const granted = await pass();
      backend.listener!.lost(claim!.id, "ended by force");
      await answer.opened;
      return granted;
    };
    const trying = locks.tryAcquire("a");
    await clock.settle();
    answer.open();
    await clock.advance(100);
    const lease = (await trying)!;
    lease.assertHeld();
    expect(backend.steps.filter(({ step }) => step === "attempt").map(({ claims }) => claims[0]!.id)).toHaveLength(2);
    expect((await locks.query("a")).held.map(({ fence }) => fence)).toEqual([lease.fence]);
  });
});
