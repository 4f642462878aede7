/** `linger`: a hold that no request here wants is kept for a moment, and the next one takes it in memory. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, expect, test } from "vitest";
import type { AcquireOptions, Lease, Locks, LocksOptions } from "../../src/core/api.ts";
import { createLocks } from "../../src/core/locks.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { failure, gate, type Stage, stage } from "./scripted.ts";

const LINGER: LocksOptions = { linger: 50, ttl: 1000 };
const ABILITIES = ["steal", "waiters"] as const;

async function cycle(locks: Locks, options: AcquireOptions = {}): Promise<bigint> {
  const lease = await locks.acquire("a", options);
  lease.assertHeld();
  expect(await lease.release()).toBe("released");
  return lease.fence;
}

function stepsOf({ backend }: Stage): readonly string[] {
  return backend.steps.map(({ step }) => step).filter((step) => step !== "renew");
}

/** Whether a claim of another process may have the lock at once. */
async function isFree({ other, clock }: Stage): Promise<boolean> {
  const plain = other();
  const lease = await plain.tryAcquire("a");
  await lease?.release();
  await clock.advance(0);
  return lease !== null;
}

describe("the next local claim", () => {
  test("takes it in memory, with the next fence of its run, and after its moment it goes back", async () => {
    const set = stage(LINGER);
    const fences = [await cycle(set.locks), await cycle(set.locks), await cycle(set.locks)];
    expect(fences).toEqual([0n, 1n, 2n].map((more) => fences[0]! + more));
    await set.clock.advance(49);
    expect(stepsOf(set)).toEqual(["attempt"]);
    await set.clock.advance(1);
    expect(stepsOf(set)).toEqual(["attempt", "release"]);
    expect(await cycle(set.locks)).toBeGreaterThan(fences[2]!);
    await set.locks.close();
    expect(stepsOf(set)).toEqual(["attempt", "release", "attempt", "release"]);
  });

  test("begins a moment anew with each release", async () => {
    const set = stage(LINGER);
    for (let round = 0; round < 10; round++) {
      await cycle(set.locks);
      await set.clock.advance(40);
    }
    expect(stepsOf(set)).toEqual(["attempt"]);
    await set.clock.advance(10);
    expect(stepsOf(set)).toEqual(["attempt", "release"]);
  });

  test("asks the store when the run is spent: its release and the next claim are one step", async () => {
    const set = stage(LINGER);
    let last = 0n;
    for (let round = 0; round < 130; round++) {
      const fence = await cycle(set.locks);
      expect(fence).toBeGreaterThan(last);
      last = fence;
    }
    expect(stepsOf(set)).toEqual(["attempt", "swap", "swap"]);
  });

  test("may be a try, or one that does not wait", async () => {
    const set = stage(LINGER);
    const first = await cycle(set.locks);
    const tried = await set.locks.tryAcquire("a");
    expect(tried?.fence).toBe(first + 1n);
    expect(await set.locks.tryAcquire("a")).toBe(null);
    await tried?.release();
    expect(await cycle(set.locks, { wait: 0 })).toBe(first + 2n);
    expect(stepsOf(set)).toEqual(["attempt"]);
  });

  test("takes over a hold that is older than a turn, as long as no other process wants it", async () => {
    const set = stage(LINGER);
    const lease = await set.locks.acquire("a");
    const next = set.locks.acquire("a");
    await set.clock.advance(400);
    await lease.release();
    expect((await next).fence).toBe(lease.fence + 1n);
    await (await next).release();
    expect(set.backend.count("attempt")).toBe(1);
  });

  test.each<[string, AcquireOptions]>([
    ["another ttl", { ttl: 2000 }],
    ["another linger", { linger: 20 }],
    ["no linger", { linger: 0 }],
    ["shared mode", { mode: "shared" }],
    ["a minHold", { minHold: 10 }],
    ["a lockDelay", { lockDelay: 10 }],
    ["no renewal", { renew: false }],
  ])("with %s does not take it: it goes back first", async (_, options) => {
    const set = stage(LINGER);
    const first = await cycle(set.locks);
    const lease = await set.locks.acquire("a", options);
    expect(lease.fence).toBeGreaterThan(first + 1n);
    expect(set.store.view()[0]?.held.length).toBe(1);
    await lease.release();
    await set.clock.advance(0);
    const tried = await set.locks.tryAcquire("a", { ttl: 3000 });
    expect(tried === null).toBe("minHold" in options);
  });

  test("of once() does not take it, and learns what is kept", async () => {
    const set = stage(LINGER);
    await set.other().once("a", { keep: "1h" }, () => 1);
    await cycle(set.locks);
    expect(await set.locks.once("a", { keep: "1h" }, () => 2)).toMatchObject({ value: 1, replayed: true });
    await expect(set.locks.outcome("a")).resolves.toMatchObject({ state: "done" });
  });

  test("is no re-entry: the lease that was released is over", async () => {
    const { locks } = stage(LINGER);
    await locks.run("a", async (outer) => {
      await outer.release();
      const inner = await locks.acquire("a");
      expect(inner.fence).toBe(outer.fence + 1n);
      expect(outer.remaining()).toBe(0);
      await inner.release();
    });
  });
});

describe("another process", () => {
  test("that waits is served at once by one that lingers", async () => {
    const set = stage(LINGER);
    const fence = await cycle(set.locks);
    const waiting = set.other().acquire("a");
    await set.clock.advance(0);
    expect((await waiting).fence).toBeGreaterThan(fence);
    expect(stepsOf(set)).toEqual(["attempt", "release"]);
  });

  test("that waits for a lock in use gets it with its release", async () => {
    const set = stage(LINGER);
    const lease = await set.locks.acquire("a");
    const waiting = set.other().acquire("a");
    await set.clock.advance(0);
    await lease.release();
    await set.clock.advance(0);
    expect((await waiting).fence).toBeGreaterThan(lease.fence);
  });

  test("is served at once where the news of it has overtaken the grant", async () => {
    const set = stage(LINGER);
    const reply = gate();
    set.backend.interfere.attempt = async (pass) => {
      const answer = await pass();
      await reply.opened;
      return answer;
    };
    const acquiring = set.locks.acquire("a");
    await set.clock.advance(0);
    const waiting = set.other().acquire("a");
    await set.clock.advance(0);
    reply.open();
    await (await acquiring).release();
    await set.clock.advance(0);
    (await waiting).assertHeld();
  });

  test("is heard of by a renewal where the news was lost", async () => {
    const set = stage({ linger: 100, ttl: 1000 });
    set.backend.listen({ lost: () => undefined, doubt: () => undefined, wanted: () => undefined });
    await cycle(set.locks);
    const waiting = set.other().acquire("a");
    let held: Lease | undefined;
    void waiting.then((lease) => (held = lease));
    for (let ms = 0; ms < 400 && held === undefined; ms += 20) {
      await cycle(set.locks).catch(() => undefined);
      await set.clock.advance(20);
    }
    expect(held).toBeDefined();
    await held?.release();
  });

  test("that tries gets a lock that no work uses", async () => {
    const set = stage(LINGER);
    await cycle(set.locks);
    const tried = await set.other().tryAcquire("a");
    expect(tried).not.toBe(null);
    await tried?.release();
    await cycle(set.locks);
    const result = await set.other().tryRun("a", () => 7);
    expect(result).toEqual({ ran: true, value: 7 });
    await cycle(set.locks);
    const once = await set.other().acquire("a", { wait: 0 });
    await once.release();
  });

  test("that tries a lock in use has its no in bounded time, and leaves nothing behind", async () => {
    const set = stage(LINGER);
    const lease = await set.locks.acquire("a");
    const [tried, once] = [set.other().tryAcquire("a"), failure(set.other().acquire("a", { wait: 0 }))];
    await set.clock.advance(0);
    // The second is behind the first, which would get it.
    expect(set.store.view()[0]?.queued.length).toBe(1);
    await set.clock.advance(100);
    expect(await tried).toBe(null);
    expect(await once).toMatchObject({ name: "LockTimeoutError", heldBy: [{ fence: lease.fence, lingerMs: 50 }] });
    expect(set.store.view()[0]?.queued.length).toBe(0);
    // It knows that it is wanted no longer only by its next renewal.
    await lease.release();
    expect(await isFree(set)).toBe(true);
  });

  test("that tries gets a lock whose work ends meanwhile", async () => {
    const set = stage(LINGER);
    const lease = await set.locks.acquire("a");
    const tried = set.other().tryAcquire("a");
    await set.clock.advance(30);
    await lease.release();
    await set.clock.advance(0);
    expect(await tried).not.toBe(null);
  });

  test("that tries behind others has its no at once, and within its own time limit", async () => {
    const set = stage(LINGER);
    const lease = await set.locks.acquire("a");
    const quick = set.other().tryAcquire("a", { timeout: 10 });
    await set.clock.advance(6);
    expect(await quick).toBe(null);
    const waiting = set.other().acquire("a");
    await set.clock.advance(0);
    const tried = set.other().tryAcquire("a");
    await set.clock.advance(0);
    expect(await tried).toBe(null);
    await lease.release();
    await (await waiting).release();
  });

  test("that tries where the holder does not linger is asked once", async () => {
    const set = stage();
    const holder = await set.other().acquire("a");
    expect(await set.locks.tryAcquire("a")).toBe(null);
    expect(stepsOf(set)).toEqual(["attempt"]);
    await holder.release();
  });
});

describe("a hold that lingers is not handed out", () => {
  test("after it was ended by force", async () => {
    const set = stage(LINGER);
    const lost: unknown[] = [];
    const note = (event: unknown): void => void lost.push(event);
    subscribe("holdfast:lost", note);
    const fence = await cycle(set.locks);
    expect(await set.other().forceRelease("a", { fence, reason: "test" })).toBe(true);
    await set.clock.advance(0);
    const lease = await set.locks.acquire("a");
    expect(lease.fence).toBeGreaterThan(fence + 1n);
    await lease.release();
    expect(await set.locks.forceRelease("a", { fence: lease.fence, reason: "test" })).toBe(true);
    expect(await cycle(set.locks)).toBeGreaterThan(lease.fence + 1n);
    // No work was under it.
    expect(lost).toEqual([]);
    unsubscribe("holdfast:lost", note);
  });

  test("after its time, though no timer has noticed", async () => {
    const set = stage(LINGER);
    set.backend.interfere.renew = () => new Promise(() => {});
    const fence = await cycle(set.locks);
    set.clock.block(1100);
    const lease = await set.locks.acquire("a");
    expect(lease.fence).toBeGreaterThan(fence + 1n);
    await lease.release();
  });

  test("while its renewals fail, and when less than half of its time is left", async () => {
    const set = stage({ linger: 100, ttl: 1000 });
    set.backend.interfere.renew = () => Promise.reject(new Error("down"));
    const fence = await cycle(set.locks);
    for (let ms = 0; ms < 340; ms += 20) {
      expect(await cycle(set.locks)).toBeGreaterThan(fence);
      await set.clock.advance(20);
    }
    const last = await cycle(set.locks);
    expect(set.backend.count("renew")).toBeGreaterThan(0);
    expect(set.backend.count("release") + set.backend.count("swap")).toBeGreaterThan(0);
    expect(last).toBeGreaterThan(fence + 20n);
  });

  test("after the machine slept", async () => {
    const set = stage(LINGER);
    const fence = await cycle(set.locks);
    set.clock.suspend(60_000);
    const lease = await set.locks.acquire("a");
    expect(lease.fence).toBeGreaterThan(fence + 1n);
    await lease.release();
  });

  test("and a lease that was extended, or had an outcome, does not linger at all", async () => {
    const set = stage(LINGER);
    const lease = await set.locks.acquire("a");
    await lease.extend(3000);
    await lease.release();
    expect(set.backend.count("release")).toBe(1);
    await set.locks.once("a", { keep: 1000 }, () => 1);
    expect(set.backend.count("release")).toBe(2);
  });

  test("by a group that did not get all of its locks", async () => {
    const set = stage(LINGER);
    const other = await set.other().acquire("b");
    expect(await set.locks.tryAcquire(["a", "b"])).toBe(null);
    await set.clock.advance(0);
    expect((await set.other().query()).held.map(({ name }) => name)).toEqual(["b"]);
    await other.release();
  });
});

describe("close()", () => {
  test("gives back what lingers, at once, whatever else is running", async () => {
    const set = stage(LINGER);
    await cycle(set.locks);
    const work = gate();
    const running = set.locks.run("b", () => work.opened);
    await set.clock.advance(0);
    const closing = set.locks.close();
    await set.clock.advance(0);
    expect((await set.other().query()).held.map(({ name }) => name)).toEqual(["b"]);
    work.open();
    await running;
    await closing;
  });

  test("has nothing linger that is released while it waits", async () => {
    const set = stage(LINGER);
    const lease = await set.locks.acquire("a");
    const work = gate();
    const running = set.locks.run("b", () => work.opened);
    await set.clock.advance(0);
    const closing = set.locks.close();
    await lease.release();
    expect(await isFree(set)).toBe(true);
    work.open();
    await running;
    await closing;
  });
});

describe("what others see", () => {
  test("inspect() shows it as held, and as unused to its own process", async () => {
    const set = stage(LINGER);
    const lease = await set.locks.acquire("a");
    const used = await set.locks.inspect("a");
    expect(used.held).toMatchObject([{ lingerMs: 50, processHolders: 1 }]);
    expect(used.held[0]?.lingering).toBe(undefined);
    await lease.release();
    expect((await set.locks.inspect("a")).held).toMatchObject([{ lingerMs: 50, lingering: true, processHolders: 0 }]);
    expect((await set.locks.query("a")).held).toMatchObject([{ lingering: true }]);
    expect((await set.other().inspect("a")).held).toMatchObject([{ lingerMs: 50, processHolders: 1 }]);
    expect(await set.other().isHeld("a")).toBe(true);
    await set.clock.advance(50);
    expect(await set.other().isHeld("a")).toBe(false);
  });

  test("a lease's events end with its release", async () => {
    const set = stage(LINGER);
    const ended: unknown[] = [];
    const note = (event: unknown): void => void ended.push({ ...(event as object) });
    subscribe("tracing:holdfast:hold:end", note);
    for (let round = 0; round < 2; round++) {
      const lease = await set.locks.acquire("a");
      await set.clock.advance(5);
      await lease.release();
      await set.clock.advance(20);
    }
    unsubscribe("tracing:holdfast:hold:end", note);
    expect(ended).toMatchObject([
      { end: "released", heldMs: 5, localHandOver: false },
      { end: "released", heldMs: 5, localHandOver: true },
    ]);
    await set.clock.advance(50);
    expect(ended.length).toBe(2);
  });
});

describe("the option", () => {
  test.each<[string, AcquireOptions, RegExp]>([
    ["lockDelay", { linger: 50, lockDelay: "1s" }, /no `linger` with this `lockDelay`/],
    ["minHold", { linger: 50, minHold: "1s" }, /no `linger` with this `minHold`/],
    ["maxHold", { linger: 50, maxHold: "1s" }, /no `linger` with this `maxHold`/],
    ["renew", { linger: 50, renew: false }, /no `linger` with this `renew`/],
    ["mode", { linger: 50, mode: "shared" }, /no `linger` with this `mode`/],
    ["limit", { linger: 50, limit: 2 }, /no `linger` with this `limit`/],
    ["ttl", { linger: 101, ttl: 1000 }, /at most a tenth of `ttl`, which is 100 ms, got 101/],
    ["itself", { linger: -1 }, /Expected `linger` to be a duration/],
  ])("contradicts %s", async (_, options, message) => {
    const { locks, backend } = stage();
    expect(await failure(locks.acquire("a", options))).toMatchObject({ code: "ERR_LOCK_ARGUMENT", message });
    const { wait: _wait, ...rest } = options;
    expect(await failure(locks.tryAcquire("a", rest))).toMatchObject({ code: "ERR_LOCK_ARGUMENT", message });
    expect(() => createLocks(backend, options)).toThrow(message);
    expect(backend.steps).toEqual([]);
  });

  test("as a default gives way to what a call asks for", async () => {
    const set = stage(LINGER);
    for (const options of [
      { minHold: 1 },
      { mode: "shared" },
      { renew: false },
      { maxHold: "1s" },
      { limit: 2 },
    ] as const) {
      await (await set.locks.acquire(JSON.stringify(options), options)).release();
      expect(set.backend.steps.at(-1)).toMatchObject({ step: "release", claims: [{ lingerMs: undefined }] });
    }
    await (await set.locks.acquire("short", { ttl: 200 })).release();
    expect(set.backend.steps.at(-1)).toMatchObject({ step: "attempt", claims: [{ lingerMs: 20 }] });
  });

  test("is not for elections and once()", async () => {
    const { locks } = stage(LINGER);
    const more = { linger: 50, keep: "1h" } as const;
    expect((await failure(locks.elect("a", more as object, () => 1))).message).toMatch(/no `linger` for elect\(\)/);
    expect((await failure(locks.once("a", more as { keep: "1h" }, () => 1))).message).toMatch(
      /no `linger` for once\(\)/,
    );
    const stop = new AbortController();
    const electing = locks.elect("a", { signal: stop.signal }, () => stop.abort());
    await electing;
    expect((await locks.inspect("a")).held).toEqual([]);
  });

  test("is refused where the store cannot do it, and not ignored", async () => {
    const backend = Object.assign(memory(), { can: Object.fromEntries(ABILITIES.map((ability) => [ability, true])) });
    const why = /memory store: this backend does not say that it can/;
    expect(() => createLocks(backend, LINGER)).toThrow(why);
    const locks = createLocks(backend);
    expect((await failure(locks.acquire("a", { linger: 50 }))).message).toMatch(why);
    expect((await failure(locks.tryAcquire("a", { linger: 50 }))).message).toMatch(why);
  });
});
