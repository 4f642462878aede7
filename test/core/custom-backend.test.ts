/** Backends that others write: what they answer is looked at, and whatever they do, nothing hangs and everything is said. */
import { describe, expect, test } from "vitest";
import type { Backend, Claim, Granted } from "../../src/contract/backend.ts";
import { LockBackendError, LockLostError } from "../../src/contract/errors.ts";
import { createLocks } from "../../src/core/locks.ts";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { failure, stage } from "./scripted.ts";

const never = (): Promise<never> => new Promise(() => {});
const throws = (): never => {
  throw new Error("thrown, not rejected");
};

/** Memory, with some of its verbs replaced. */
function custom(verbs: object): { clock: FakeClock; backend: Backend; make: () => ReturnType<typeof createLocks> } {
  const clock = new FakeClock();
  const backend: Backend = Object.assign(memory({ store: memoryStore({ clock }) }), { name: "custom" }, verbs);
  return { clock, backend, make: () => createLocks(backend, { clock }) };
}

describe("grants that cannot be", () => {
  const grants: Record<string, Partial<Record<keyof Granted, unknown>>> = {
    "a fence that is a number": { fence: 7 },
    "a fence that is a text": { fence: "7" },
    "no fence": { fence: undefined },
    "fence 0": { fence: 0n },
    "a fence below 0": { fence: -1n },
    "a fence above the greatest": { fence: 2n ** 63n },
    "a run beyond the greatest": { fence: 2n ** 63n - 1n, run: 64 },
    "run 0": { run: 0 },
    "run NaN": { run: Number.NaN },
    "ttlMs 0": { ttlMs: 0 },
    "ttlMs NaN": { ttlMs: Number.NaN },
    "ttlMs below 0": { ttlMs: -5 },
    "ttlMs Infinity": { ttlMs: Infinity },
    "ttlMs as a text": { ttlMs: "3000" },
    "fromMs of the wall clock": { fromMs: 1.7e12 },
    "fromMs NaN": { fromMs: Number.NaN },
  };
  for (const [what, grant] of Object.entries(grants)) {
    test(`S157: ${what} is an error that says so, and what the store gave goes back to it`, async () => {
      const { backend, locks, other } = stage();
      backend.interfere.attempt = async (pass) => ({ ...((await pass()) as object), ...grant });
      const error = await failure(locks.acquire("a", { wait: "1m" }));
      expect(error).toBeInstanceOf(LockBackendError);
      expect(error["fatal"]).toBe(true);
      const [[field]] = Object.entries(grant) as [[string, unknown]];
      if (grant[field as keyof Granted] !== undefined)
        expect(error.message).toMatch(new RegExp(`granted it with.*${field} `));
      expect(error.message).toContain("mistake in the backend");
      expect(await failure(locks.tryAcquire("b"))).toBeInstanceOf(LockBackendError);
      await locks.close();
      expect(await other().tryAcquire("a")).not.toBeNull();
    });
  }

  test("S157: the same from watch() is never believed", async () => {
    const { clock, store, other } = stage();
    const holder = await other().acquire("a");
    const backend: Backend = Object.assign(memory({ store }), {
      watch: async () => ({ granted: true, fence: 5, run: 1 }),
    });
    const waiting = failure(createLocks(backend, { clock }).acquire("a", { wait: "2s" }));
    await clock.advance(5000);
    expect(await waiting).toBeInstanceOf(LockBackendError);
    await holder.release();
  });

  test("S157: a watch() that always has a grant that is over is not asked without end", async () => {
    const { clock, store, other } = stage();
    const holder = await other().acquire("a");
    await clock.advance(30_000);
    let watches = 0;
    const backend: Backend = Object.assign(memory({ store }), {
      // Would spin through microtasks for ever where nothing counts them: an error ends this test instead.
      watch: async () => {
        if (++watches > 5000) throw new Error("asked without end");
        return { granted: true as const, fence: 5n, run: 1, fromMs: 0 };
      },
    });
    const waiting = failure(createLocks(backend, { clock }).acquire("a", { wait: "2s" }));
    await clock.advance(5000);
    expect(await waiting).toBeInstanceOf(Error);
    expect(watches).toBeLessThan(1000);
    await holder.release();
  });

  test("S157: grants that are always over before they begin are asked for with pauses, until the wait is over", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = async (pass) => ({ ...((await pass()) as object), ttlMs: 1 });
    const waiting = failure(locks.acquire("a", { wait: "10s" }));
    await clock.advance(10_000);
    const error = await waiting;
    expect(error).toBeInstanceOf(LockBackendError);
    expect(error.message).toContain("over too soon");
    expect(backend.count("attempt")).toBeLessThan(40);
  });

  test("S157: a renewal from the future, or from no clock, proves nothing", async () => {
    for (const fromMs of [Infinity, 1.7e12, "now"]) {
      const { backend, clock, locks } = stage();
      backend.interfere.renew = async (_, claims) => claims.map(() => ({ held: true, fromMs }));
      const lease = await locks.acquire("a", { ttl: "3s" });
      await clock.advance(3000);
      expect(lease.remaining()).toBe(0);
      expect(lease.signal.aborted).toBe(true);
    }
  });

  test("S157: a holder that cannot be shown does not spoil the message, and a pause that is none is ours", async () => {
    for (const heldBy of [undefined, "another", [undefined], [{ holder: 5 }]]) {
      const { backend, clock, locks } = stage();
      backend.interfere.attempt = async () => ({ granted: false, heldBy, retryMs: Number.NaN });
      const waiting = failure(locks.acquire("a", { wait: "10s" }));
      await clock.advance(10_000);
      expect((await waiting)["code"]).toBe("ERR_LOCK_TIMEOUT");
      expect(backend.count("attempt")).toBeLessThan(40);
    }
  });
});

describe("verbs that throw, never settle, or answer nothing", () => {
  test("S157: query()", async () => {
    for (const query of [throws, () => Promise.reject("a text"), () => "text", () => undefined, () => ({ held: 5 })]) {
      const { clock, make } = custom({ query });
      expect(await failure(make().query())).toBeInstanceOf(LockBackendError);
      expect(clock.timers).toBe(0);
    }
  });

  test("S157: forceRelease()", async () => {
    const options = { fence: 1n, reason: "because" };
    for (const forceRelease of [throws, () => Promise.reject(null)]) {
      const { clock, make } = custom({ forceRelease });
      expect(await failure(make().forceRelease("a", options))).toMatchObject({ code: "ERR_LOCK_BACKEND", lock: "a" });
      expect(clock.timers).toBe(0);
    }
    const { clock, make } = custom({ forceRelease: never });
    const forcing = failure(make().forceRelease("a", options));
    await clock.advance(10_000);
    expect(await forcing).toMatchObject({ code: "ERR_LOCK_BACKEND", lock: "a" });
  });

  test("S157: renew() is a loss in time, and release() an answer in time", async () => {
    for (const verb of [throws, never, () => undefined, () => Promise.reject("a text"), () => [null]]) {
      const { clock, make } = custom({ renew: verb, release: verb });
      const locks = make();
      const lease = await locks.acquire("a", { ttl: "3s" });
      const kept = await locks.acquire("b", { ttl: "3s" });
      const releasing = lease.release().catch((error: unknown) => (error as Error).name);
      await clock.advance(3000);
      expect(kept.signal.aborted).toBe(true);
      expect(["lost", "unknown", "released", "LockBackendError"]).toContain(await releasing);
      const closing = locks.close().catch((error: unknown) => error);
      await clock.advance(60_000);
      await closing;
      expect(clock.timers).toBe(0);
    }
  });

  test("S157: swap() and attempt()", async () => {
    for (const verb of [throws, never, () => undefined, () => 5, () => Promise.reject("a text")]) {
      const { clock, backend, make } = custom({});
      const locks = make();
      const lease = await locks.acquire("a", { ttl: "3s" });
      const waiting = failure(locks.acquire("a", { ttl: "3s", wait: "5s" }));
      await clock.advance(20);
      Object.assign(backend, { swap: verb, attempt: verb });
      const releasing = lease.release();
      await clock.advance(10_000);
      await releasing;
      expect(await waiting).toBeInstanceOf(LockBackendError);
      const closing = locks.close().catch((error: unknown) => error);
      await clock.advance(60_000);
      await closing;
      expect(clock.timers).toBe(0);
    }
  });

  test("S157: a watch() that ignores its signal, throws, or says `ask again` for ever delays no request", async () => {
    for (const watch of [never, throws, () => undefined, async () => undefined, () => Promise.reject("a text")]) {
      const clock = new FakeClock();
      const store = memoryStore({ clock });
      const holder = await createLocks(memory({ store }), { clock }).acquire("a");
      let asked = 0;
      const inner = memory({ store });
      const attempt = inner.attempt.bind(inner);
      const backend: Backend = Object.assign(inner, {
        watch,
        attempt: (claim: Parameters<typeof attempt>[0]) => {
          asked++;
          return attempt(claim);
        },
      });
      const locks = createLocks(backend, { clock });
      const waiting = locks.acquire("a", { wait: Infinity });
      await clock.advance(20_000);
      expect(asked).toBeLessThan(100);
      await holder.release();
      await clock.advance(20_000);
      (await waiting).assertHeld();
      await locks.close();
      expect(clock.timers).toBe(0);
    }
  });

  test("S157: close() and listen()", async () => {
    for (const close of [throws, () => Promise.reject("a text"), () => Promise.reject(null)]) {
      expect(await failure(custom({ close }).make().close())).toBeInstanceOf(LockBackendError);
    }
    await custom({ close: () => undefined })
      .make()
      .close();
    const { clock, make } = custom({ close: never });
    const closing = failure(make().close());
    await clock.advance(10_000);
    expect(await closing).toBeInstanceOf(LockBackendError);
    expect(() => custom({ listen: throws }).make()).toThrow(LockBackendError);
  });

  test("S157: expectWanted(), which only saves time", async () => {
    const { make } = custom({ expectWanted: throws });
    const locks = make();
    const lease = await locks.acquire("a", { ttl: 1000, linger: 50 });
    expect(lease.wanted.aborted).toBe(false);
    expect(await lease.release()).toBe("released");
    await locks.close();
  });

  test("S157: an error that cannot be shown, and a reason that is not text, are reported all the same", async () => {
    const unshowable = { toString: throws };
    const { clock: time, make } = custom({ attempt: () => Promise.reject(unshowable) });
    const trying = failure(make().tryAcquire("a"));
    await time.advance(1000);
    expect((await trying).message).toContain("cannot be shown");
    for (const reason of [Symbol("gone"), unshowable, undefined]) {
      const { backend, clock, locks } = stage();
      backend.interfere.renew = async (_, claims) => claims.map(() => ({ held: false, reason }));
      const lease = await locks.acquire("a", { ttl: "3s" });
      await clock.advance(1500);
      expect(lease.signal.aborted).toBe(true);
      expect(await lease.release()).toBe("lost");
    }
  });
});

describe("a backend that reports a loss in the middle of a call to it", () => {
  test.each([
    ["the first question", 1],
    ["a later one", 2],
  ])("has each claim back that a listener gives up then: %s", async (_, nth) => {
    const { backend, clock, locks, other, store } = stage();
    const rival = await other().acquire("a");
    const lease = await locks.acquire("b");
    const abort = new AbortController();
    lease.signal.addEventListener("abort", () => abort.abort());
    const { id } = backend.steps[0]!.claims[0]!;
    const attempt = backend.attempt.bind(backend);
    let asked = 0;
    backend.attempt = (claim) => {
      if (++asked === nth) {
        void rival.release();
        backend.listener!.lost(id, { kind: "gone" });
      }
      return attempt(claim);
    };
    // Without news it asks again by itself.
    backend.watch = () => new Promise(() => {});
    const given = failure(locks.acquire("a", { ttl: "3s", signal: abort.signal }));
    while (asked < nth) await clock.step();
    expect((await given).name).toBe("AbortError");
    await lease.release();
    // Long before a ttl ends what was left.
    await clock.advance(1000);
    expect(store.view().flatMap(({ held, queued }) => [...held, ...queued])).toEqual([]);
  });

  test("goes on with the others whose renewals it has answered", async () => {
    const { backend, clock, locks } = stage({ linger: 100, ttl: 1000 });
    const [unknown, idle, gone] = await Promise.all(["unknown", "idle", "gone"].map((name) => locks.acquire(name)));
    const { id } = backend.steps.find(({ claims }) => claims[0]!.name === "unknown")!.claims[0]!;
    backend.interfere.renew = async (_, claims) =>
      claims.map(({ name }) => {
        if (name === "idle") return { held: true, wanted: true };
        return name === "gone" ? { held: false, reason: { kind: "gone" } } : { held: "unknown" };
      });
    backend.interfere.release = async (pass) => {
      backend.listener!.lost(id, { kind: "gone" });
      return await pass();
    };
    await clock.advance(250);
    await idle!.release();
    while (backend.count("renew") === 0) await clock.step();
    // What is wanted and unused went back, and with it the news of another came; the rest of the answer counts all the same.
    expect(backend.count("release")).toBe(1);
    expect([unknown, gone].map((lease) => lease!.signal.aborted)).toEqual([true, true]);
  });
});

describe("a backend that runs code of its users in the middle of a call to it", () => {
  const held = (store: ReturnType<typeof stage>["store"]): number => store.view().flatMap((lock) => lock.held).length;

  /** Does it in the middle of each release from now on. */
  function inRelease({ backend }: ReturnType<typeof stage>, does: () => unknown): void {
    const release = backend.release.bind(backend);
    backend.release = (claim, outcome) => {
      does();
      return release(claim, outcome);
    };
  }

  test("expectWanted() that reports a loss: the signal of the lease says so", async () => {
    const { backend, clock, locks } = stage();
    Object.assign(backend, { expectWanted: ({ id }: Claim) => backend.listener!.lost(id, { kind: "gone" }) });
    let aborted = false;
    const running = failure(
      locks.run("a", { linger: 50, ttl: 1000 }, async ({ signal }) => {
        await clock.sleep(10);
        ({ aborted } = signal);
      }),
    );
    expect(await running).toBeInstanceOf(LockLostError);
    expect(aborted).toBe(true);
  });

  test("expectWanted() that gives the request up: no lease is left behind", async () => {
    const { backend, clock, locks, store } = stage();
    const abort = new AbortController();
    Object.assign(backend, { expectWanted: () => abort.abort() });
    const lease = await locks.acquire("a", { linger: 50, ttl: 1000, signal: abort.signal }).catch(() => undefined);
    await lease?.release();
    await clock.advance(100);
    expect(held(store)).toBe(0);
  });

  test("a release that releases the same lease is the same release", async () => {
    const all = stage();
    const lease = await all.locks.acquire("a");
    let inner: Promise<unknown> | undefined;
    inRelease(all, () => (inner = lease.release()));
    expect([await lease.release(), await inner, lease.signal.aborted]).toEqual(["released", "released", false]);
  });

  test("a release that gives all others up, too: each claim goes, and nothing is thrown", async () => {
    const all = stage();
    const { clock, locks, other, store } = all;
    const rivals = await Promise.all([1, 2, 3, 4].map(() => other().acquire("a", { limit: 4 })));
    const aborts = rivals.map(() => new AbortController());
    const given = aborts.map(({ signal }) => failure(locks.acquire("a", { limit: 4, wait: "1m", signal })));
    await clock.advance(100);
    expect(store.view().flatMap(({ queued }) => queued)).toHaveLength(4);
    inRelease(all, () => aborts.forEach((abort) => abort.abort()));
    // A listener that throws ends the process.
    const thrown: unknown[] = [];
    const hear = (error: unknown): void => void thrown.push(error);
    const listeners = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException").on("uncaughtException", hear);
    try {
      aborts[0]!.abort();
      expect((await Promise.all(given)).map(({ name }) => name)).toEqual(Array(4).fill("AbortError"));
      await clock.advance(100);
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off("uncaughtException", hear);
      for (const listener of listeners) process.on("uncaughtException", listener);
    }
    expect(thrown).toEqual([]);
    expect(store.view().flatMap(({ queued }) => queued)).toEqual([]);
    for (const rival of rivals) await rival.release();
  });

  test("a release that gives up the try whose claim is replaced: it is not asked for again", async () => {
    const all = stage();
    const { backend, clock, locks, store } = all;
    const abort = new AbortController();
    backend.interfere.attempt = async (pass) => {
      const answer = await pass();
      await clock.sleep(100);
      return answer;
    };
    const tried = failure(locks.tryAcquire("a", { signal: abort.signal }));
    await clock.settle();
    inRelease(all, () => abort.abort());
    backend.listener!.lost(backend.steps[0]!.claims[0]!.id, { kind: "gone" });
    expect((await tried).name).toBe("AbortError");
    await clock.advance(500);
    expect(backend.count("attempt")).toBe(1);
    expect(held(store)).toBe(0);
  });
});
