/** Small bugs that lived: each test here is red with one that `npm run mutate` put in and that no other test noticed. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { getEventListeners } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { queryObjects } from "node:v8";
import { afterAll, describe, expect, test, vi } from "vitest";
import { Deadlines, type Deadline } from "../../src/contract/deadlines.ts";
import type { Backend, Claim, Holding } from "../../src/contract/backend.ts";
import { readBlockers } from "../../src/contract/answer.ts";
import { printable } from "../../src/contract/foreign.ts";
import { jitter, systemChance } from "../../src/contract/random.ts";
import { got } from "../../src/contract/argument-error.ts";
import { SleepDetector, systemClock } from "../../src/contract/clock.ts";
import { RenewalGroup } from "../../src/core/renewal-group.ts";
import { Engine } from "../../src/core/engine.ts";
import type { HeldLease } from "../../src/core/lease.ts";
import { checkOptions } from "../../src/core/options.ts";
import { formatMs, toMs } from "../../src/contract/duration.ts";
import { LockBackendError, type LockLostError, LockTimeoutError, messageOf, quote } from "../../src/contract/errors.ts";
import { Hold } from "../../src/core/hold.ts";
import { LocalQueue } from "../../src/core/local-queue.ts";
import { createLocks } from "../../src/core/locks.ts";
import { RenewThread } from "../../src/core/renew-thread.ts";
import { mistakenGrant } from "../../src/contract/backend-mistake.ts";
import { clippedSnapshot } from "../../src/core/snapshot.ts";
import { defaultUrl, resolveUrl } from "../../src/backends/url-source.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { insides } from "../../src/core/inside.ts";
import { failure, gate, stage } from "./scripted.ts";

describe("the watchdog", () => {
  test("one whose maxHold ends leaves those renewed that were renewed together with it", async () => {
    const { clock, locks } = stage();
    // They are renewed together after 9 to 10 s and after 18 to 20 s; the one ends long before the third time.
    const [long, short] = await Promise.all([locks.acquire("a"), locks.acquire("b", { maxHold: "21s" })]);
    await clock.advance(120_000);
    expect(short.remaining()).toBe(0);
    long.assertHeld();
  });

  test("a failed renewal is not asked for again at once", async () => {
    const { clock, backend, locks } = stage({ chance: { ...systemChance, fraction: () => 0.999 } });
    await locks.acquire("a");
    backend.interfere.renew = () => Promise.reject(new Error("cut off"));
    while (backend.count("renew") === 0) await clock.step();
    // Two thirds of 30 s are left: the pause is an eighth of that, or by dice down to half of it.
    await clock.advance(2000);
    expect(backend.count("renew")).toBe(1);
    await clock.advance(1000);
    expect(backend.count("renew")).toBe(2);
  });

  test.each([
    ["the store failed", "its ttl passed while the store did not confirm it (", /\((?:[2-9]|\d\d+) renewals failed\)$/],
    ["nothing was heard", "its ttl passed before it could be renewed (", /\(the event loop was blocked/],
  ])("a loss says why: %s", async (what, start, end) => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.renew = () =>
      what === "the store failed" ? Promise.reject(new Error("cut off")) : new Promise(() => {});
    await clock.advance(30_000);
    const { reason } = lease.signal.reason as LockLostError;
    expect(reason.startsWith(start)).toBe(true);
    expect(reason).toMatch(end);
  });
});

describe("what is asked again", () => {
  test("a release that fails is asked for again soon, and ever more slowly", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a");
    backend.interfere.release = () => Promise.reject(new Error("cut off"));
    const released = lease.release();
    await clock.advance(300);
    expect(backend.count("release")).toBeGreaterThanOrEqual(5);
    await clock.advance(9700);
    expect(backend.count("release")).toBeLessThanOrEqual(27);
    expect(await released).toBe("unknown");
  });

  test("a lease taken seconds after another is not renewed as early as that one", async () => {
    const { clock, backend, locks } = stage();
    await locks.acquire("a");
    await clock.advance(6000);
    await locks.acquire("b");
    await clock.advance(4000);
    expect(
      backend.steps.filter(({ step }) => step === "renew").map(({ claims }) => claims.map(({ name }) => name)),
    ).toEqual([["a"]]);
  });
});

test("a renewing thread that dies at once is not started again at once", async () => {
  const clock = new FakeClock();
  const renewer = { module: "node:nothing", data: undefined };
  const thread = new RenewThread({ ...memory({ clock }), renewer } as Backend, clock, () => {});
  const claim = { id: "1", name: "a", ttlMs: 30_000 } as Claim;
  const granted = { granted: true, fence: 1n, run: 1 } as const;
  const sleep = new SleepDetector(clock);
  const grant = {
    granted,
    sent: sleep.sentNow(),
    heardAtMs: clock.now(),
    trustedUntilMs: clock.now() + 29_000,
    echoes: false,
  };
  thread.keep(
    new Hold(
      {
        over: () => "lost",
        lose: () => undefined,
        endIdle: () => undefined,
        behind: () => undefined,
        isAwaited: false,
      },
      sleep,
      claim,
      checkOptions({ renew: "thread" }, {}),
      grant,
    ),
  );
  await clock.advance(0);
  // A real thread, which needs some time to fail.
  await vi.waitFor(() => expect(clock.nextDueMs).toBe(clock.now() + 1000), { timeout: 120_000 });
  const diedMs = clock.now();
  await clock.step();
  expect(clock.now() - diedMs).toBe(1000);
  await thread.close();
});

test("a grant in a message is believed while a third of its ttl is left", async () => {
  const { clock, backend, locks, other } = stage();
  await other().acquire("a");
  const old = { granted: true, fence: 99n, run: 1, fromMs: clock.now() - 15_000 } as const;
  // Once: where it is not believed, the next one never comes.
  const news = [Promise.resolve(old)];
  backend.watch = () => news.pop() ?? new Promise(() => {});
  const waiting = locks.acquire("a", { ttl: "30s", wait: "1s" });
  await clock.advance(1000);
  expect((await waiting).fence).toBe(99n);
  expect(backend.count("attempt")).toBe(1);
});

test("a failure also reaches the hold that took over the heapIndex of the one that had asked", async () => {
  const { backend, clock, locks } = stage();
  const { opened, open } = gate();
  backend.interfere.attempt = async () => {
    await opened;
    throw new LockBackendError("scripted", "a", "it cannot be", { fatal: true });
  };
  const abort = new AbortController();
  const first = failure(locks.acquire("a", { signal: abort.signal }));
  const second = failure(locks.acquire("a"));
  await clock.settle();
  abort.abort();
  backend.interfere.attempt = undefined;
  open();
  await first;
  expect((await second).message).toContain("it cannot be");
  expect(backend.count("attempt")).toBe(1);
});

test("query() refuses options that it does not know, by name", async () => {
  const { locks } = stage();
  await expect(locks.query("", { ttl: "1s" } as object)).rejects.toThrow("Unknown option `ttl`");
  expect(await locks.query("", { timeout: "1s", signal: new AbortController().signal })).toMatchObject({ held: [] });
});

test("a ttl that was used once leaves nothing in the watchdog", async () => {
  const { clock, locks } = stage();
  const before = queryObjects(RenewalGroup, { format: "count" });
  for (let ttl = 1000; ttl < 1200; ttl++) await (await locks.acquire("a", { ttl })).release();
  await clock.advance(10_000);
  expect(queryObjects(RenewalGroup, { format: "count" }) - before).toBeLessThan(20);
});

describe("timers", () => {
  test("of the system keep the process alive only when asked to", () => {
    const [idle, alive] = [false, true].map(
      (kept) => systemClock.setTimer(() => {}, 1e6, kept || undefined) as NodeJS.Timeout,
    );
    expect([idle!.hasRef(), alive!.hasRef()]).toEqual([false, true]);
    systemClock.keepAlive!(idle, true);
    systemClock.keepAlive!(alive, false);
    expect([idle!.hasRef(), alive!.hasRef()]).toEqual([true, false]);
    systemClock.clearTimer(idle);
    systemClock.clearTimer(alive);
  });

  test("of an alarm keep it alive while a bell is set", () => {
    const kept: boolean[] = [];
    const clock = {
      now: () => 0,
      wall: () => 0,
      setTimer: (_: () => void, __: number, alive?: boolean) => `timer ${kept.push(alive === true)}`,
      clearTimer: () => {},
      keepAlive: (_: unknown, alive: boolean) => void kept.push(alive),
    };
    const alarm = new Deadlines<Deadline>(clock, true, () => {});
    const [one, other] = [1, 2].map(() => ({ atMs: 0, heapIndex: -1 })) as [Deadline, Deadline];
    alarm.set(one, 1000);
    alarm.set(other, 2000);
    alarm.clear(one);
    expect(kept).toEqual([true]);
    alarm.clear(other);
    expect(kept).toEqual([true, false]);
    alarm.clear(other);
    alarm.set(one, 3000);
    alarm.set(other, 3000);
    expect(kept).toEqual([true, false, true]);
  });
});

describe("words", () => {
  test.each([
    [-1, "0 ms"],
    [0.4, "0 ms"],
    [999, "999 ms"],
    [1000, "1 s"],
    [2549, "2.5 s"],
    [59_999, "60 s"],
    [60_000, "1 m"],
    [200_000, "3 m 20 s"],
    [3_599_999, "59 m 59 s"],
    [3_600_000, "1 h"],
    [3_900_000, "1 h 5 m"],
    [Infinity, "for ever"],
  ])("%d ms are %s", (ms, text) => {
    expect(formatMs(ms)).toBe(text);
  });

  test("durations are read in their units", () => {
    expect(["7ms", "2s", "5m", "1h", 9].map((text) => toMs(text, "ttl"))).toEqual([7, 2000, 300_000, 3_600_000, 9]);
    expect(() => toMs("5", "ttl")).toThrow("Expected `ttl` to be a duration above 0, such as");
    expect(() => toMs(11, "ttl", { maxMs: 10 })).toThrow(
      "Expected `ttl` to be a duration above 0 up to 10 ms, such as",
    );
  });

  test("a time-out says who is in the way, and how many more", () => {
    const holding = {
      name: "a",
      mode: "shared",
      limit: 1,
      holder: "me",
      fence: 5n,
      heldMs: 2000,
      remainingMs: 1,
      meta: {},
    } as Holding;
    const said = (count: number): string => new LockTimeoutError("a", 100, Array<Holding>(count).fill(holding)).message;
    expect(said(0)).toMatch(/^Lock "a" is not free; gave up after 100 ms\./);
    expect(said(1)).toMatch(/^Lock "a" is held by me \(fence 5\) for 2 s; gave up/);
    expect(said(3)).toMatch(/^Lock "a" is held by me \(fence 5\) for 2 s and 2 more; gave up/);
  });

  test("an error without a message is reported by what it has", () => {
    const coded = Object.assign(new Error(""), { code: "ECONNREFUSED" });
    expect(messageOf(coded)).toBe("ECONNREFUSED");
    expect(messageOf(Object.assign(new TypeError(""), { code: 5 }))).toBe("TypeError");
    expect(messageOf(new AggregateError([coded, coded, new Error("b")]))).toBe("ECONNREFUSED; b");
    expect(messageOf(new AggregateError([]))).toBe("AggregateError");
    expect(messageOf("text")).toBe("text");
  });

  test("a cause is there only where one was given", () => {
    expect("cause" in new LockBackendError("memory", "a", "b")).toBe(false);
    expect(new LockBackendError("memory", "a", "b", { cause: 5 }).cause).toBe(5);
  });

  test("a name that is too long to read is cut", () => {
    expect(quote("x".repeat(120))).toBe(`"${"x".repeat(120)}"`);
    expect(quote("x".repeat(121))).toBe(`"${"x".repeat(117)}…"`);
  });

  test("a grant that cannot be is shown, a bigint as such", () => {
    const { message } = mistakenGrant("own", "a", { granted: true, fence: -5n, run: 1 });
    expect(message).toContain("granted it with fence -5n, run 1. ");
    expect(mistakenGrant("own", "a", { granted: true, fence: 5 as unknown as bigint, run: 1 }).message).toContain(
      "fence 5, ",
    );
  });
});

test("work that fails without a loss keeps its error exactly as it was", async () => {
  const { locks } = stage();
  const thrown = new Error("mine");
  await expect(
    locks.run("a", () => {
      throw thrown;
    }),
  ).rejects.toBe(thrown);
  expect(Object.hasOwn(thrown, "cause")).toBe(false);
});

test("a backend without swap() lets the next one in by a question of its own", async () => {
  const { backend, locks } = stage();
  Object.assign(backend, { swap: undefined });
  // With a maxHold each lease is one holder's own, and goes back to the store.
  const [first, next] = [1, 2].map(() => locks.acquire("a", { maxHold: "1m" }));
  expect(await (await first!).release()).toBe("released");
  expect((await next!).fence).toBeGreaterThan((await first!).fence);
});

describe("who holds", () => {
  test.each([true, false])("the watchdog knows exactly the holds that there are, renew: %s", async (renew) => {
    const clock = new FakeClock();
    const engine = new Engine(memory({ clock }), { clock });
    const options = checkOptions({ renew }, {});
    const take = (name: string): Promise<HeldLease> => engine.take(name, options, "queue", 1000) as Promise<HeldLease>;
    const leases = await Promise.all(["a", "b", "c", "d"].map(take));
    const names = (): string[] => engine.watchdog.all.map(({ claim }) => claim.name).toSorted();
    expect(names()).toEqual(["a", "b", "c", "d"]);
    await leases[1]!.release();
    expect(names()).toEqual(["a", "c", "d"]);
    await leases[3]!.release();
    await leases[0]!.release();
    expect(names()).toEqual(["c"]);
    await leases[2]!.release();
    expect(names()).toEqual([]);
  });
});

describe("a caller that is answered at once leaves nothing behind:", () => {
  test("no timer, and no listener on the signal", async () => {
    const { clock, locks } = stage();
    const { signal } = new AbortController();
    await locks.acquire("shared", { mode: "shared" });
    await locks.acquire("a");
    const before = clock.timers;
    expect(await locks.acquire("shared", { mode: "shared", signal })).toBeTruthy();
    expect(await locks.tryAcquire("a", { signal })).toBeNull();
    await expect(locks.acquire("a", { wait: 0, signal })).rejects.toThrow("is held by");
    expect(getEventListeners(signal, "abort")).toEqual([]);
    expect(clock.timers).toBe(before);
  });
});

test("what a store says of holders and of forced releases is cut to what our own doors let in", () => {
  const long = { holder: "h".repeat(300), meta: { note: "n".repeat(5000), more: "m" } };
  const one = { name: "a", mode: "exclusive", limit: 1, fence: 1n, heldMs: 1, remainingMs: 1, ...long } as const;
  const short = { ...one, holder: "me", meta: { note: "n" } };
  const force = { name: "a", fence: 1n, by: "b".repeat(300), reason: "r".repeat(2000), agoMs: 1 };
  const { held, forced } = clippedSnapshot({ held: [short, one], pending: [], forced: [force] });
  expect(held[0]).toBe(short);
  expect(held[1]!.holder).toBe(`${"h".repeat(199)}…`);
  expect(Object.keys(held[1]!.meta)).toEqual(["note"]);
  expect(held[1]!.meta["note"]).toHaveLength(4096 - "note".length - 6);
  expect(forced).toEqual([{ ...force, by: `${"b".repeat(199)}…`, reason: `${"r".repeat(999)}…` }]);
});

test("a field for which nothing is left is left out, and not shown as empty", () => {
  const meta = { a: "x".repeat(4096 - 7 - 7), b: "y" };
  const one = { name: "a", mode: "exclusive", limit: 1, fence: 1n, heldMs: 1, remainingMs: 1, holder: "me" } as const;
  const { held } = clippedSnapshot({ held: [{ ...one, meta }], pending: [], forced: [] });
  expect(held[0]!.meta).toEqual({ a: meta.a });
});

test.each([
  [{}, true],
  [{ renew: false }, false],
  [{ maxHold: "5s" }, false],
] as const)("a claim says whether its lease is renewed without an end: %j", async (options, renewed) => {
  const { backend, locks } = stage();
  await (await locks.acquire("a", options)).release();
  expect(backend.steps[0]?.claims).toMatchObject([{ renewed }]);
});

test("of the queues that are in use, only those are looked at that are meant", async () => {
  const { locks } = stage();
  await (await locks.acquire("idle")).release();
  const leases = await Promise.all(["a", "b"].map((name) => locks.acquire(name)));
  const { engine } = insides.get(locks)!;
  expect(engine.queues((name) => name !== "a").map(({ name }) => name)).toEqual(["b"]);
  await Promise.all(leases.map((lease) => lease.release()));
});

describe("where a URL comes from", () => {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-url-"));
  afterAll(() => rmSync(dir, { recursive: true }));
  const inFile = (text: string): string => {
    writeFileSync(join(dir, "url"), text);
    return resolveUrl(`@file:${join(dir, "url")}`, {}, "--url");
  };

  test("HOLDFAST_URL, or the embedded store", () => {
    expect(defaultUrl({})).toBe("file:");
    expect(defaultUrl({ HOLDFAST_URL: "redis://a" })).toBe("redis://a");
    expect(defaultUrl({ HOLDFAST_URL: "@env:OTHER", OTHER: " redis://a\n" })).toBe("redis://a");
    expect(() => defaultUrl({ HOLDFAST_URL: " " })).toThrow("got an empty text");
  });

  test("another variable, which must have one", () => {
    const env = { EMPTY: " ", AGAIN: "@env:EMPTY" };
    expect(() => resolveUrl("@env:NONE", env, "--url")).toThrow(
      /"NONE", which --url names, to hold a URL; it is not set$/,
    );
    expect(() => resolveUrl("@env:constructor", env, "--url")).toThrow("it is not set");
    expect(() => resolveUrl("@env:EMPTY", env, "--url")).toThrow("it does not");
    expect(() => resolveUrl("@env:AGAIN", env, "--url")).toThrow("it does not");
    expect(() => resolveUrl("@other", env, "--url")).toThrow("Expected --url to be a URL, @env:NAME or @file:PATH");
  });

  test("a file, which holds it and nothing else", () => {
    const longest = `redis://${"a".repeat(8192 - "redis://".length)}`;
    expect(inFile(" redis://a \n")).toBe("redis://a");
    expect(inFile(longest)).toBe(longest);
    for (const text of [
      "",
      " \n",
      "@env:A",
      "redis://a redis://b",
      "redis://a\0",
      `${longest}a`,
      `${longest}${" ".repeat(9000)}`,
    ]) {
      expect(() => inFile(text)).toThrow("to hold one URL and nothing else");
    }
    expect(() => resolveUrl(`@file:${join(dir, "none")}`, {}, "--url")).toThrow(
      /to name a file that can be read.*\(ENOENT\)$/,
    );
  });
});

describe("a release", () => {
  test("of a lost lease resolves when the store has answered", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a", { ttl: "3s" });
    clock.block(3000);
    const answer = gate();
    backend.interfere.release = async (pass) => {
      await answer.opened;
      return await pass();
    };
    let released: unknown;
    const done = lease.release().then((result) => (released = result));
    await clock.settle();
    expect([released, backend.count("release")]).toEqual([undefined, 1]);
    answer.open();
    expect(await done).toBe("lost");
  });

  test("with a minHold does not let the next one in by a swap: nothing is free to be swapped", async () => {
    const { backend, clock, locks } = stage();
    const lease = await locks.acquire("a", { minHold: "5s" });
    const next = locks.acquire("a");
    await clock.settle();
    expect(await lease.release()).toBe("released");
    const beganMs = clock.now();
    await clock.advance(10_000);
    await next;
    expect(backend.count("swap")).toBe(0);
    const { heldMs } = (await locks.query("a")).held[0]!;
    expect(clock.now() - heldMs - beganMs).toBeGreaterThanOrEqual(5000);
  });

  test("by force ends the lease with that fence, and not the one before it", async () => {
    const { locks } = stage();
    const [one, two] = await Promise.all([locks.acquire("a", { limit: 2 }), locks.acquire("a", { limit: 2 })]);
    expect(two.fence).toBe(one.fence + 1n);
    await locks.forceRelease("a", { fence: two.fence, reason: "stuck" });
    one.assertHeld();
    expect(() => two.assertHeld()).toThrow("ended by force by here:1: stuck");
  });
});

describe("one who", () => {
  test("tries a lock with a short ttl on a silent store has an answer within that ttl", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = () => new Promise(() => {});
    const tried = failure(locks.tryAcquire("a", { ttl: "2s" }));
    const startedMs = clock.now();
    let failedMs = 0;
    void tried.then(() => (failedMs = clock.now()));
    await clock.advance(30_000);
    expect((await tried).message).toContain("could not be asked (no answer for 2 s)");
    expect(failedMs - startedMs).toBe(2000);
  });

  test("stops waiting leaves no timer behind, also where the backend never stops watching", async () => {
    const { backend, clock, other } = stage();
    await other().acquire("a", { renew: false });
    const locks = createLocks(backend, { clock: clock.owned("here") });
    let watched = 0;
    backend.watch = () => {
      watched++;
      return new Promise(() => {});
    };
    const abort = new AbortController();
    const waiting = failure(locks.acquire("a", { signal: abort.signal }));
    await clock.settle();
    expect(watched).toBe(1);
    abort.abort();
    await waiting;
    await locks.close();
    expect(clock.timersOf("here")).toBe(0);
  });

  test("uses a lock once leaves nothing of it in the process for ever", async () => {
    const { locks } = stage();
    const before = queryObjects(LocalQueue, { format: "count" });
    for (let at = 0; at < 1000; at++) await (await locks.acquire(`once:${at}`)).release();
    expect(queryObjects(LocalQueue, { format: "count" }) - before).toBeLessThan(300);
  });

  test("asks for a thread of a backend that has none learns what to do instead", async () => {
    const { locks } = stage();
    const error = await failure(locks.acquire("a", { renew: "thread" }));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain("cannot be renewed from a thread. Open it by URL with connect(), or use");
  });
});

test("a lease tells for how long it has been held", async () => {
  const clock = new FakeClock();
  const engine = new Engine(memory({ clock }), { clock });
  const lease = (await engine.take("a", checkOptions({}, {}), "queue", 1000)) as HeldLease;
  await clock.advance(2000);
  expect(lease.describe()).toMatchObject({ heldMs: 2000, remainingMs: 30_000 - 302 - 2000 });
  await lease.release();
});

describe("what everything rests on:", () => {
  test("deadlines come in their order, however they were set, moved and cleared before", () => {
    // A fixed sequence that looks random enough.
    let state = 7;
    const dice = (sides: number): number => (state = (state * 48_271) % 2_147_483_647) % sides;
    const deadlines = new Deadlines<Deadline>(new FakeClock(), false, () => {});
    const entries = Array.from({ length: 40 }, (): Deadline => ({ atMs: 0, heapIndex: -1 }));
    const set = new Set<Deadline>();
    for (let step = 0; step < 3000; step++) {
      const entry = entries[dice(entries.length)]!;
      const move = dice(8);
      if (move < 5) {
        deadlines.set(entry, dice(1000));
        set.add(entry);
      } else if (move < 6) {
        deadlines.clear(entry);
        set.delete(entry);
      } else {
        const untilMs = dice(1000);
        const first = Math.min(...[...set].map(({ atMs }) => atMs));
        const taken = deadlines.take(untilMs);
        expect(taken?.atMs).toBe(first <= untilMs ? first : undefined);
        if (taken !== undefined) set.delete(taken);
      }
      expect(deadlines.size).toBe(set.size);
    }
  });

  test("a delay that Node cannot keep is not turned into none", async () => {
    const warnings: string[] = [];
    const note = ({ name }: Error): void => void warnings.push(name);
    process.on("warning", note);
    const timers = [2 ** 31 - 1, 2 ** 31, 2 ** 40].map((ms) => systemClock.setTimer(() => {}, ms));
    // Warnings come in a turn of their own.
    await new Promise((resolve) => setImmediate(resolve));
    for (const timer of timers) systemClock.clearTimer(timer);
    process.off("warning", note);
    expect(warnings).not.toContain("TimeoutOverflowWarning");
  });

  test("clocks that run apart a little are no sleep; where there was one, what is short counts too", () => {
    const clock = new FakeClock();
    const sleep = new SleepDetector(clock);
    const { period } = sleep.sentNow();
    clock.suspend(1500);
    expect(sleep.sleptMs(period, clock.now())).toBe(0);
    clock.suspend(2500);
    expect(sleep.sleptMs(period, clock.now())).toBe(4000);
    clock.suspend(1000);
    expect(sleep.sleptMs(period, clock.now())).toBe(5000);
  });

  test("a random factor lies between its bounds", () => {
    const at = (fraction: number): number => jitter(1000, 0.5, 0.75, { ...systemChance, fraction: () => fraction });
    expect([at(0), at(0.5), at(1)]).toEqual([500, 625, 750]);
  });

  test("a quarantine is reported with what is left of it, and not when it is over", () => {
    const refused = { granted: false, heldBy: [], quarantineMs: 5000 } as const;
    expect(readBlockers(refused, 1000)).toEqual({ heldBy: [], quarantineMs: 4000 });
    expect(readBlockers(refused, 5000)).toEqual({ heldBy: [], quarantineMs: undefined });
    expect(readBlockers(undefined, 0)).toEqual({ heldBy: [], quarantineMs: undefined });
  });

  test("what was passed is shown whole, or with its length; what cannot be printed as an escape", () => {
    expect(got("x".repeat(40))).toBe(`"${"x".repeat(40)}"`);
    expect(got("x".repeat(41))).toMatch(/^"x{39}…" \(41 characters\)$/);
    expect(printable("a\u0001\u00ff\u202e")).toBe("a\\x01ÿ\\u{202e}");
  });
});

describe("who asks, and what is asked for again:", () => {
  test("that a writer is refused says nothing of a reader that tries beside it", async () => {
    const { locks, other } = stage();
    await other().acquire("a", { mode: "shared" });
    // The first question is out alone; the second leaves when all three stand there.
    const tries = [locks.tryAcquire("a"), locks.tryAcquire("a"), locks.tryAcquire("a", { mode: "shared" })];
    const [first, second, reader] = await Promise.all(tries);
    expect([first, second]).toEqual([null, null]);
    reader!.assertHeld();
  });

  test("one who waits behind a try that gets no answer learns that, and not that the lock is busy", async () => {
    const { backend, clock, locks } = stage();
    backend.interfere.attempt = () => new Promise(() => {});
    const tried = failure(locks.tryAcquire("a", { timeout: "20s" }));
    const waited = failure(locks.acquire("a", { wait: 1500 }));
    await clock.advance(1500);
    expect(await waited).toBeInstanceOf(LockBackendError);
    expect((await waited).message).toContain("no answer for 1.5 s");
    await clock.advance(20_000);
    await tried;
  });

  test("after a failure the store is asked again soon, whatever it had said before of when to ask", async () => {
    const { backend, clock, locks } = stage();
    let asked = 0;
    backend.interfere.attempt = async (pass) => {
      asked++;
      if (asked === 1) return { granted: false, heldBy: [], retryMs: 30_000 };
      if (asked === 2) throw new Error("cut off");
      return await pass();
    };
    // The first news is a reason to ask again at once; later there is none.
    const news = [Promise.resolve(undefined)];
    backend.watch = () => news.pop() ?? new Promise(() => {});
    const waiting = locks.acquire("a", { wait: "1m" });
    await clock.advance(1000);
    (await waiting).assertHeld();
    expect(asked).toBe(3);
  });

  test("a claim that is no longer wanted is released until its lock delay would be over, too", async () => {
    const { backend, clock, locks, other } = stage();
    await other().acquire("a");
    const abort = new AbortController();
    const waiting = failure(locks.acquire("a", { ttl: "10s", lockDelay: "60s", signal: abort.signal }));
    await clock.settle();
    backend.interfere.release = () => Promise.reject(new Error("cut off"));
    abort.abort();
    await waiting;
    await clock.advance(75_000);
    const before = backend.count("release");
    await clock.advance(4000);
    expect(backend.count("release")).toBeGreaterThan(before);
    // Then the store has let go by itself.
    await clock.advance(10_000);
    const last = backend.count("release");
    await clock.advance(60_000);
    expect(backend.count("release")).toBe(last);
  });

  test("news of a loss that overtakes its grant is of that claim, whatever other locks are waited for", async () => {
    const { backend, clock, locks, other } = stage();
    await other().acquire("a");
    void failure(locks.acquire("a"));
    await clock.settle();
    const answer = gate();
    backend.interfere.attempt = async (pass) => {
      const granted = await pass();
      backend.interfere.attempt = undefined;
      await answer.opened;
      return granted;
    };
    const waiting = locks.acquire("b");
    await clock.settle();
    const [claim] = backend.steps.at(-1)!.claims;
    backend.listener!.lost(claim!.id, { kind: "gone" });
    answer.open();
    await clock.advance(1000);
    (await waiting).assertHeld();
    const claims = backend.steps.filter(({ step }) => step === "attempt").map(({ claims: [asked] }) => asked!);
    expect(claims.filter(({ name }) => name === "b").at(-1)!.id).not.toBe(claim!.id);
    await locks.close({ force: true });
  });

  test("a wait at a backend that tells no news ends with who is in the way", async () => {
    const { backend, clock, locks, other } = stage();
    Object.assign(backend, { watch: undefined });
    await other().acquire("a");
    const waiting = failure(locks.acquire("a", { wait: "5s" }));
    await clock.advance(5000);
    expect(await waiting).toBeInstanceOf(LockTimeoutError);
    expect((await waiting).message).toContain("is held by there:2");
  });

  test("a try that was refused while a subscriber closed the locks is refused, and nothing else", async () => {
    const { locks, other } = stage();
    await other().acquire("a");
    const close = (): void => void locks.close();
    subscribe("tracing:holdfast:acquire:asyncEnd", close);
    try {
      expect(await locks.tryAcquire("a")).toBeNull();
    } finally {
      unsubscribe("tracing:holdfast:acquire:asyncEnd", close);
    }
    await expect(locks.tryAcquire("a")).rejects.toMatchObject({ code: "ERR_LOCK_CLOSED" });
  });
});
