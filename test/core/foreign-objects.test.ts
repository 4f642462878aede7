/**
 * Answers, signals, names and errors are objects of other code: they may throw when they are read, or say something
 * else the next time. None of it may crash the process, hang a caller, leave a lock held, or be believed.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holding } from "../../src/contract/backend.ts";
import type { Lease } from "../../src/core/api.ts";
import { LockBackendError, LockClosedError, LockLostError } from "../../src/contract/errors.ts";
import { createLocks } from "../../src/core/locks.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { failure, stage } from "./scripted.ts";

/** A variable, for the linter, which takes an object with this field for a mistake. */
const THEN: string = ["th", "en"].join("");
const boom = (): never => {
  throw new Error("boom");
};
/** An object of which one field throws. */
const throwing = (field: string, rest: object = {}): object =>
  Object.defineProperty({ ...rest }, field, { get: boom, enumerable: true });
/** A holding of which one field is right at every other look only. */
const flipping = (field: string, value: unknown): object => {
  let looks = 0;
  const get = (): unknown => (looks++ % 2 === 0 ? value : undefined);
  const rest = { name: "a", holder: "them", fence: 1n, heldMs: 1, remainingMs: 1, meta: {} };
  return Object.defineProperty(rest, field, { get, enumerable: true });
};
/** An object that throws whatever is asked of it; not thenable, so that a promise can bring it. */
const hostile = (): object =>
  new Proxy({}, { get: (_, field) => (field === "then" ? undefined : boom()), has: boom, ownKeys: boom });
const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};

const unhandled: unknown[] = [];
const note = (error: unknown): void => void unhandled.push(error);

beforeEach(() => {
  unhandled.length = 0;
  process.on("unhandledRejection", note);
});

/** An unhandled rejection is reported at the end of the turn. */
afterEach(async () => {
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", note);
  expect(unhandled).toEqual([]);
});

describe("S157: grants that cannot be read", () => {
  const grant = { granted: true, fence: 7n, run: 1 };
  const answers: Record<string, () => object> = {
    granted: () => throwing("granted", grant),
    fence: () => throwing("fence", grant),
    run: () => throwing("run", grant),
    ttlMs: () => throwing("ttlMs", grant),
    fromMs: () => throwing("fromMs", grant),
    everything: hostile,
  };
  for (const [field, answer] of Object.entries(answers)) {
    for (const verb of ["acquire", "tryAcquire"] as const) {
      test(`${field} throws: ${verb}() rejects with what the backend did`, async () => {
        const { backend, locks, other } = stage();
        backend.interfere.attempt = async (pass) => {
          await pass();
          return answer();
        };
        const error = await failure(locks[verb]("a"));
        expect(error).toBeInstanceOf(LockBackendError);
        expect(error["fatal"]).toBe(true);
        expect(error.message).toContain("answered with an object that cannot be read (boom)");
        expect(error.message).toContain("mistake in the backend");
        await locks.close();
        expect(await other().tryAcquire("a")).not.toBeNull();
      });
    }
  }

  test("in the answer to a swap, and in news: it is not believed", async () => {
    const { backend, clock, locks } = stage();
    const first = await locks.acquire("a");
    const second = failure(locks.acquire("a", { wait: "5s" }));
    await clock.advance(20);
    backend.interfere.swap = async () => hostile();
    const releasing = first.release();
    await clock.advance(10_000);
    expect(await second).toBeInstanceOf(LockBackendError);
    expect(["released", "unknown"]).toContain(await releasing);
    const waited = stage();
    const rival = await waited.other().acquire("a");
    waited.backend.watch = async () => hostile() as never;
    const waiting = failure(waited.locks.acquire("a", { wait: "2s" }));
    await waited.clock.advance(5000);
    expect((await waiting)["code"]).toBe("ERR_LOCK_BACKEND");
    await rival.release();
  });

  test("one that says something else the next time is believed as it was when it was looked at, or not at all", async () => {
    const { backend, clock, locks } = stage();
    let looks = 0;
    backend.interfere.attempt = async (pass) => {
      const answer = (await pass()) as { fence: bigint };
      const { fence } = answer;
      return Object.defineProperty({ ...answer }, "fence", { get: () => (looks++ === 0 ? fence : "seven") });
    };
    const lease = await locks.acquire("a");
    expect(typeof lease.fence).toBe("bigint");
    expect(await lease.release()).toBe("released");
    // News that is a grant at the first look and none at the second.
    const flipped = stage();
    const rival = await flipped.other().acquire("a");
    flipped.backend.watch = async () => {
      let seen = 0;
      return Object.defineProperty({ fence: 9n, run: 1 }, "granted", { get: () => seen++ === 0 }) as never;
    };
    const waiting = failure(flipped.locks.acquire("a", { wait: "2s" }));
    await flipped.clock.advance(5000);
    expect((await waiting)["code"]).toBe("ERR_LOCK_TIMEOUT");
    await rival.release();
    await clock.settle();
  });

  test("an error that cannot be inspected keeps no request waiting", async () => {
    const { backend, clock, locks, other } = stage();
    await other().acquire("a");
    const error = new Proxy(new Error("down"), { getPrototypeOf: boom });
    backend.interfere.attempt = () => Promise.reject(error);
    const waiting = failure(locks.acquire("a", { wait: "2s" }));
    const later = failure(locks.acquire("b", { wait: "3s" }));
    await clock.advance(2000);
    expect((await waiting)["code"]).toBe("ERR_LOCK_BACKEND");
    await clock.advance(1000);
    expect((await later)["code"]).toBe("ERR_LOCK_BACKEND");
  });

  test("refusals: holders and pauses that throw spoil neither the wait nor the message", async () => {
    const refusals = [
      throwing("heldBy", { granted: false }),
      throwing("retryMs", { granted: false, heldBy: [] }),
      { granted: false, heldBy: [], retryMs: Symbol("soon") },
      { granted: false, heldBy: hostile() },
      { granted: false, heldBy: [throwing("holder")] },
      { granted: false, heldBy: [throwing("heldMs", { holder: "them", fence: 1n })] },
      { granted: false, heldBy: [{ holder: "them", fence: Symbol("1"), heldMs: 1, remainingMs: 1 }] },
      { granted: false, heldBy: [{ holder: "them", fence: 1n, heldMs: 1n, remainingMs: 1 }] },
      { granted: false, heldBy: [{ holder: "them", fence: 1n, heldMs: "long", remainingMs: Number.NaN }] },
      { granted: false, heldBy: [flipping("holder", "them"), flipping("fence", 1n), flipping("heldMs", 1)] },
      { granted: false, heldBy: { filter: () => [{}], map: () => [{}], length: 1 } },
    ];
    for (const refusal of refusals) {
      const { backend, clock, locks } = stage();
      backend.interfere.attempt = async () => refusal;
      const waiting = failure(locks.acquire("a", { wait: "2s" }));
      const trying = locks.tryAcquire("b").catch((error: unknown) => error);
      const once = failure(locks.acquire("c", { wait: 0 }));
      await clock.advance(10_000);
      for (const error of [await waiting, await once]) {
        expect(error["code"]).toMatch(/^ERR_LOCK_(TIMEOUT|BACKEND)$/);
        for (const { holder, fence, heldMs, remainingMs } of (error["heldBy"] ?? []) as readonly Holding[]) {
          expect([typeof holder, typeof fence, typeof heldMs]).toEqual(["string", "bigint", "number"]);
          expect(Number.isFinite(heldMs + remainingMs)).toBe(true);
        }
      }
      const answer = await trying;
      if (answer !== null) expect(answer).toBeInstanceOf(LockBackendError);
      await locks.close();
      expect(clock.timers).toBe(0);
    }
  });
});

/** Promises of the language whose methods throw, or cannot be looked at. */
const PROMISES: Record<string, (value: unknown) => Promise<unknown>> = {
  "throws in then()": (value) => Object.assign(Promise.resolve(value), { [THEN]: boom }),
  "throws in catch()": (value) => Object.assign(Promise.resolve(value), { catch: boom }),
  "has a then() that cannot be read": (value) => Object.defineProperty(Promise.resolve(value), THEN, { get: boom }),
};

describe.each(Object.entries(PROMISES))("S157: a native promise that %s", (_, hostilePromise) => {
  test("from a backend neither hangs a caller nor leaves a lock held", async () => {
    for (const step of ["attempt", "release", "renew", "swap", "query", "close"] as const) {
      const { backend, clock, store } = stage();
      const real = backend[step].bind(backend) as (...args: unknown[]) => Promise<unknown>;
      const broken = Object.assign(backend, {
        // The value is there already, so that only the promise itself is strange.
        [step]: (...args: unknown[]) => hostilePromise(real(...args)),
      });
      const locks = createLocks(broken, { clock });
      const calls = [
        locks.acquire("a", { wait: "2s" }).then((lease) => lease.release()),
        locks.acquire("a", { wait: "2s" }).then((lease) => lease.release()),
        locks.tryAcquire("b").then((lease) => lease?.release()),
        locks.query(),
      ];
      const settled = Promise.allSettled(calls);
      await clock.advance(5000);
      expect((await settled).filter(({ status }) => status === "rejected")).toEqual([]);
      const closing = locks.close().catch(() => {});
      await clock.advance(20_000);
      await closing;
      expect(clock.timers).toBe(0);
      expect((await createLocks(memory({ store }), { clock }).query()).held).toEqual([]);
    }
  });

  test("from work is what it resolves to, or an error; the lock is free either way", async () => {
    const { locks } = stage();
    for (const name of ["a", ["a", "b"]]) {
      const [end] = await Promise.allSettled([locks.run(name, () => hostilePromise(5))]);
      if (end.status === "fulfilled") expect(end.value).toBe(5);
      expect((await locks.query()).held).toEqual([]);
    }
  });
});

test("S157: a store that wants to be asked after a billionth of a millisecond is asked with pauses", async () => {
  const { backend, clock, locks } = stage();
  backend.watch = () => Promise.resolve(undefined);
  backend.interfere.attempt = async () => ({ granted: false, heldBy: [], retryMs: 1e-9 });
  const waiting = failure(locks.acquire("a", { wait: 100 }));
  await clock.advance(100);
  expect((await waiting)["code"]).toBe("ERR_LOCK_TIMEOUT");
  expect(backend.count("attempt")).toBeLessThanOrEqual(120);
});

test("S157: an array of names counts by its items, whatever its iterator says", async () => {
  const { locks } = stage();
  const names = Object.assign(["a", "b"], { [Symbol.iterator]: () => ["c", 5].values() });
  const lease = await locks.acquire(names as readonly string[]);
  expect([...lease.fences.keys()]).toEqual(["a", "b"]);
  await lease.release();
  const holed = Object.assign([] as string[], { length: 2 });
  expect((await failure(locks.acquire(holed))).message).toContain("got undefined");
});

test("S157: close(null) says what it expects, and closes nothing", async () => {
  const { locks } = stage();
  for (const options of [null, 5, "now"]) {
    expect((await failure(locks.close(options as never))).message).toContain("Expected `options` to be an object, got");
  }
  await (await locks.acquire("a")).release();
  await locks.close();
});

describe("S157: renewals and releases that cannot be read", () => {
  test("a renewal that throws is no answer: the lease ends in time, with its signal", async () => {
    const answers: ((claims: readonly unknown[]) => unknown)[] = [
      (claims) => claims.map(() => throwing("held")),
      (claims) => claims.map(() => throwing("fromMs", { held: true })),
      (claims) => claims.map(() => ({ held: true, fromMs: Symbol("now") })),
      (claims) => claims.map(() => ({ held: true, fromMs: 1n })),
      (claims) => claims.map(hostile),
      (claims) => new Proxy([...claims], { get: (all, field) => (field === "0" ? boom() : Reflect.get(all, field)) }),
      (claims) => (claims as unknown[]).splice(0),
    ];
    for (const answer of answers) {
      const { backend, clock, locks } = stage();
      backend.interfere.renew = async (_, claims) => answer(claims);
      const lease = await locks.acquire("a", { ttl: "3s" });
      await clock.advance(1500);
      lease.assertHeld();
      await clock.advance(1500);
      expect(lease.signal.reason).toBeInstanceOf(LockLostError);
      expect(await lease.release()).toBe("lost");
      await locks.close();
      expect(clock.timers).toBe(0);
    }
  });

  for (const [what, answer] of Object.entries({ true: true, false: false, '"ok"': "ok", 1: 1, null: null })) {
    test(`a release that is answered with ${what} is an error that says what it must be`, async () => {
      const { backend, clock, locks } = stage();
      backend.interfere.release = async () => answer;
      const lease = await locks.acquire("a");
      const error = await failure(lease.release());
      expect(error).toBeInstanceOf(LockBackendError);
      expect(error.message).toContain(`answered its release with ${what}`);
      expect(error.message).toContain('Expected "held", "queued" or "absent"');
      expect(await failure(lease.release())).toBe(error);
      expect(lease.remaining()).toBe(0);
      expect(await failure(locks.run("b", () => 5))).toBeInstanceOf(LockBackendError);
      // What the work itself fails with is not hidden by it.
      expect((await failure(locks.run("c", boom))).message).toBe("boom");
      expect((await failure(locks.elect("d", boom))).message).toBe("boom");
      expect(await failure(locks.elect("e", () => {}))).toBeInstanceOf(LockBackendError);
      expect(await failure((await locks.acquire(["f", "g"])).release())).toBeInstanceOf(LockBackendError);
      const lost = await locks.acquire("h");
      backend.listener!.lost(backend.steps.at(-1)!.claims[0]!.id, "broken by hand");
      expect(await lost.release()).toBe("lost");
      await locks.acquire("i");
      await locks.close();
      expect(clock.timers).toBe(0);
    });
  }

  test("the same where it was asked for twice, and in a swap", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a");
    let asked = 0;
    backend.interfere.release = async () => (asked++ === 0 ? boom() : "ok");
    const releasing = failure(lease.release());
    await clock.advance(5000);
    expect((await releasing).message).toContain('answered its release with "ok"');
    const swapped = stage();
    const first = await swapped.locks.acquire("a");
    const second = swapped.locks.acquire("a");
    swapped.clock.block(11);
    swapped.backend.interfere.swap = async (pass) => ({ ...((await pass()) as object), released: "ok" });
    expect((await failure(first.release())).message).toContain('answered its release with "ok"');
    (await second).assertHeld();
  });

  test("errors that throw when they are looked at reach the caller in words", async () => {
    for (const error of [revoked(), hostile()]) {
      const { backend, clock, locks } = stage();
      backend.interfere.attempt = () => Promise.reject(error);
      const trying = failure(locks.tryAcquire("a"));
      await clock.advance(1000);
      expect(await trying).toBeInstanceOf(LockBackendError);
      backend.interfere.attempt = undefined;
      const lease = await locks.acquire("b");
      backend.interfere.release = () => Promise.reject(error);
      const releasing = lease.release();
      await clock.advance(60_000);
      expect(await releasing).toBe("unknown");
      backend.query = () => Promise.reject(error);
      expect(await failure(locks.query())).toBeInstanceOf(LockBackendError);
    }
  });

  test("query() and forceRelease()", async () => {
    const snapshots = [
      [throwing("held"), "what cannot be read ("],
      [{ held: [throwing("holder")], pending: [], forced: [] }, "what cannot be read ("],
      [{ held: [{}], pending: [], forced: [] }, "what cannot be read ("],
      [{ held: [], pending: [], forced: [hostile()] }, "what cannot be read ("],
      [{ held: [], pending: [] }, ""],
      [undefined, "undefined"],
    ] as const;
    for (const [snapshot, words] of snapshots) {
      const { backend, locks } = stage();
      backend.query = async () => snapshot as never;
      const error = await failure(locks.query());
      expect(error).toBeInstanceOf(LockBackendError);
      expect(error.message).toContain(`The scripted backend answered query() with ${words}`);
      expect(error.message).toContain(", not with the lists `held`, `pending` and `forced`.");
    }
    for (const answer of [undefined, "ok", 1, null]) {
      const { backend, locks } = stage();
      backend.forceRelease = async () => answer as never;
      const error = await failure(locks.forceRelease("a", { fence: 1n, reason: "test" }));
      expect(error).toBeInstanceOf(LockBackendError);
      expect(error.message).toContain("answered forceRelease() with");
    }
  });
});

describe("S157: signals of the user's own making", () => {
  const odd = (over: object): AbortSignal => Object.assign(new AbortController().signal, over);

  test("one that cannot be listened to: the error reaches the caller, and nothing is left behind", async () => {
    const calls: Record<string, (locks: ReturnType<typeof stage>["locks"], signal: AbortSignal) => Promise<unknown>> = {
      acquire: (locks, signal) => locks.acquire("a", { signal }),
      tryAcquire: (locks, signal) => locks.tryAcquire("a", { signal }),
      run: (locks, signal) => locks.run("a", { signal }, () => {}),
      group: (locks, signal) => locks.acquire(["a", "b"], { signal }),
      elect: (locks, signal) => locks.elect("a", { signal }, () => {}),
      query: (locks, signal) => locks.query("", { signal }),
    };
    for (const call of Object.values(calls)) {
      const { clock, locks, other } = stage();
      const signal = odd({ addEventListener: boom });
      expect((await failure(call(locks, signal))).message).toBe("boom");
      // Nor is it taken for one that is being listened to.
      expect((await failure(call(locks, signal))).message).toBe("boom");
      await clock.settle();
      expect((await other().query()).held).toEqual([]);
      await locks.close();
      expect(clock.timers).toBe(0);
    }
  });

  test("one that can be listened to the first times only: the leader does not stay elected, and no pause is kept either", async () => {
    for (let good = 0; good < 6; good++) {
      const { clock, locks, other } = stage();
      let left = good;
      const { signal } = new AbortController();
      const listen = signal.addEventListener.bind(signal);
      Object.assign(signal, {
        addEventListener: (...args: Parameters<typeof listen>) => (left-- > 0 ? listen(...args) : boom()),
      });
      const office = failure(locks.elect("a", { signal }, () => {}));
      await clock.advance(10_000);
      expect((await office).message).toBe("boom");
      expect((await other().query()).held).toEqual([]);
      await locks.close();
      expect(clock.timers).toBe(0);
    }
  });

  test("one that cannot be left, or whose reason throws, costs no caller the lease or the answer", async () => {
    const { clock, locks, other } = stage();
    const lease = await locks.acquire("a", { signal: odd({ removeEventListener: boom }) });
    expect(await lease.release()).toBe("released");
    await (await locks.acquire(["a", "b"], { signal: odd({ removeEventListener: boom }) })).release();
    const there = other();
    await there.acquire("c");
    const controller = new AbortController();
    Object.defineProperty(controller.signal, "reason", { get: boom });
    const waiting = failure(locks.acquire("c", { signal: controller.signal, wait: "1m" }));
    await clock.settle();
    controller.abort();
    expect((await waiting).message).toBe("boom");
    await Promise.all([locks.close(), there.close()]);
    expect((await other().query()).pending).toEqual([]);
    expect(clock.timers).toBe(0);
  });

  test("one whose `aborted` throws after the lock was asked for", async () => {
    const { clock, locks, other } = stage();
    for (let good = 0; good < 3; good++) {
      let left = good;
      const { signal } = new AbortController();
      Object.defineProperty(signal, "aborted", { get: () => (left-- > 0 ? false : boom()) });
      const answer = await locks.acquire("a", { signal }).catch((error: unknown) => error);
      if (answer instanceof Error) expect(answer.message).toBe("boom");
      else await (answer as Lease).release();
      await clock.settle();
      expect((await other().query()).held).toEqual([]);
    }
    await locks.close();
    expect(clock.timers).toBe(0);
  });
});

describe("S132: questions under way at close()", () => {
  test("query() and forceRelease() end with the closed error, and keep no timer", async () => {
    const { backend, clock, locks } = stage();
    const hang = (): Promise<never> => new Promise(() => {});
    Object.assign(backend, { query: hang, forceRelease: hang });
    const asking = failure(locks.query());
    const forcing = failure(locks.forceRelease("a", { fence: 1n, reason: "test" }));
    await clock.settle();
    await locks.close();
    expect(await asking).toBeInstanceOf(LockClosedError);
    expect((await asking).message).toContain("query()");
    expect(await forcing).toMatchObject({ code: "ERR_LOCK_CLOSED", lock: "a" });
    expect(clock.timers).toBe(0);
    expect(await failure(locks.query())).toBeInstanceOf(LockClosedError);
  });

  test("work that winds down may still ask", async () => {
    const { locks } = stage();
    const held = await locks.run("a", async () => {
      void locks.close();
      return (await locks.query()).held.length;
    });
    expect(held).toBe(1);
  });
});

describe("S147: names that are none", () => {
  const names: [string, unknown, string][] = [
    ["an object without a prototype", Object.create(null), "an object"],
    ["an object whose toString throws", { toString: boom }, "an object"],
    ["a symbol", Symbol("a"), "Symbol(a)"],
    ["a String object", new String("a"), "an object"],
    ["null", null, "null"],
    ["a proxy", hostile(), "an object"],
    ["an empty array", [], "an empty one"],
  ];
  for (const [what, name, got] of names) {
    test(`${what}: a TypeError that says what was got, from every verb, also inside an array`, async () => {
      const { backend, locks } = stage();
      const given = name as string;
      const list = [name] as string[];
      const calls = [
        locks.run(given, () => {}),
        locks.acquire(given),
        locks.tryAcquire(given),
        locks.elect(given, () => {}),
        locks.forceRelease(given, { fence: 1n, reason: "test" }),
        ...(Array.isArray(name)
          ? []
          : [locks.query(given), locks.run(list, () => {}), locks.acquire(list), locks.tryAcquire(list)]),
      ];
      for (const call of calls) {
        const error = await failure(call);
        expect(error).toBeInstanceOf(TypeError);
        expect(error.message).toMatch(/^Expected `(name|prefix)` to be a string/);
        if (!Array.isArray(name)) expect(error.message).toContain(`got ${got}`);
      }
      expect((await failure(locks.acquire(given))).message).toContain(`got ${got}`);
      expect(backend.steps).toEqual([]);
      // Nothing is taken for work under way.
      await locks.close();
    });
  }

  test("forceRelease() without options", async () => {
    const { locks } = stage();
    for (const options of [undefined, null, 5]) {
      expect((await failure(locks.forceRelease("a", options as never))).message).toMatch(
        /^Expected `options` to be an object/,
      );
    }
  });
});

describe("work and options of the user's own making", () => {
  test("options and metas that throw: the error reaches the caller, and nothing is sent", async () => {
    const { backend, locks } = stage();
    const calls = [
      locks.acquire("a", throwing("ttl")),
      locks.acquire("a", throwing("wait")),
      locks.tryAcquire("a", throwing("mode")),
      locks.acquire("a", { meta: throwing("job") as never }),
      locks.run("a", new Proxy({}, { ownKeys: boom }), () => {}),
      locks.elect("a", throwing("signal"), () => {}),
      locks.query("", throwing("timeout")),
      locks.close(throwing("grace")),
    ];
    for (const call of calls) expect((await failure(call)).message).toBe("boom");
    expect(backend.steps).toEqual([]);
    await locks.run("a", () => {});
    await locks.close();
  });

  test("work whose promise throws when it is followed, and errors that cannot be touched", async () => {
    const { backend, clock, locks, other } = stage();
    const odd = [throwing(THEN), { [THEN]: boom }];
    for (const result of odd) expect((await failure(locks.run("a", () => result as never))).message).toBe("boom");
    // The loss is named as the cause where that can be done; the error of the work comes back all the same.
    const errors = [
      Object.freeze(new Error("mine")),
      Object.defineProperty(new Error("mine"), "cause", { get: boom }),
      Object.defineProperty(new Error("mine"), "cause", { value: undefined, writable: false }),
      revoked(),
    ];
    for (const error of errors) {
      const caught = locks
        .run("b", () => {
          backend.listener!.lost(
            backend.steps.findLast(({ step }) => step === "attempt")!.claims[0]!.id,
            "broken by hand",
          );
          throw error;
        })
        .catch((thrown: unknown) => thrown === error);
      expect(await caught).toBe(true);
    }
    await clock.settle();
    expect((await other().query()).held).toEqual([]);
    await locks.close();
  });

  test("a backend without a name", () => {
    for (const name of [undefined, Symbol("store"), 5]) {
      expect(() => createLocks(Object.assign(memory(), { name }) as never)).toThrow(/Expected `backend` .*name/);
    }
  });
});
