/** `lease.extend()`: one confirmed renewal, for the same ttl or another one. Belief never outlasts the store's lease. */
import { describe, expect, test, vi } from "vitest";
import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { quorum } from "../../src/backends/quorum/index.ts";
import { LockBackendError, LockLostError } from "../../src/contract/errors.ts";
import { systemChance } from "../../src/contract/random.ts";
import { HeldLease } from "../../src/core/lease.ts";
import { createLocks } from "../../src/core/locks.ts";
import type { LocksOptions } from "../../src/core/api.ts";
import { failure, gate, stage as stageOf, type Stage } from "./scripted.ts";

/** Renewals come at times that are known: what happens between two of them is what these tests are about. */
const stage = (options: LocksOptions = {}): Stage =>
  stageOf({ chance: { ...systemChance, fraction: () => 0.5 }, ...options });

/** How long the store keeps the lock from now on. */
async function keptMs({ store, clock }: Stage, name = "a"): Promise<number> {
  const { held } = await createLocks(memory({ store }), { clock }).inspect(name);
  return held[0]?.remainingMs ?? 0;
}

/** The first step of extend() is to load its module, which takes as long as it takes. */
async function untilAsked({ backend }: Stage): Promise<void> {
  while (backend.count("renew") === 0) await new Promise((resolve) => setImmediate(resolve));
}

describe("lease.extend()", () => {
  test("renews now, and resolves to what remains", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    await world.clock.advance(5000);
    expect(lease.remaining()).toBeLessThan(25_000);
    expect(await lease.extend()).toBe(lease.remaining());
    expect(lease.remaining()).toBeGreaterThan(29_000);
    expect(world.backend.count("renew")).toBe(1);
    await lease.release();
  });

  test("with a longer ttl it and all renewals from then on are for that one", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    expect(await lease.extend("10m")).toBeGreaterThan(590_000);
    expect(await keptMs(world)).toBeGreaterThanOrEqual(lease.remaining());
    await world.clock.advance(150_000);
    expect(world.backend.count("renew"), "a third of ten minutes has not passed").toBe(1);
    await world.clock.advance(100_000);
    expect(world.backend.count("renew")).toBe(2);
    expect(world.backend.steps.at(-1)?.claims[0]?.ttlMs).toBe(600_000);
    expect(lease.remaining()).toBeGreaterThan(500_000);
    expect(await keptMs(world)).toBeGreaterThanOrEqual(lease.remaining());
    await lease.release();
  });

  test("a shorter ttl takes nothing away now, and counts from the next renewal", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    await world.clock.advance(1000);
    expect(await lease.extend("3s")).toBeGreaterThan(29_000);
    await world.clock.advance(1000);
    expect(world.backend.steps.at(-1)?.claims[0]?.ttlMs).toBe(3000);
    expect(lease.remaining()).toBeLessThan(3000);
    lease.assertHeld();
    await world.clock.advance(60_000);
    lease.assertHeld();
    expect(world.backend.count("renew")).toBeGreaterThan(60);
    expect(await lease.release()).toBe("released");
  });

  test("a ttl that the store refuses for good rejects at once, and the lease goes on as before", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    const cause = new LockBackendError("memory", "a", "Its ttl is longer than `maxTtl`.", { fatal: true });
    world.backend.interfere.renew = (pass, claims) =>
      claims[0]?.ttlMs === 30_000 ? pass() : Promise.resolve([{ held: "unknown", cause }]);
    const extended = lease.extend("10m").catch((error: unknown) => error);
    await untilAsked(world);
    await world.clock.advance(1000);
    expect(world.backend.count("renew"), "it was not asked again").toBe(1);
    expect(await extended).toBe(cause);
    expect(await lease.extend()).toBeGreaterThan(29_000);
    await lease.release();
  });

  test("the signal aborts in time when renewals for a shorter ttl end", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    await lease.extend("3s");
    await world.clock.advance(1000);
    expect(lease.remaining()).toBeLessThan(3000);
    world.backend.interfere.renew = () => Promise.reject(new Error("cut off"));
    const untilMs = world.clock.now() + lease.remaining();
    let abortedMs = Infinity;
    lease.signal.addEventListener("abort", () => (abortedMs = world.clock.now()));
    await world.clock.advance(60_000);
    expect(abortedMs).toBeLessThanOrEqual(untilMs);
  });

  test("a renewal for the ttl from before that is answered late counts neither for the new ttl nor against it", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    const { opened, open } = gate();
    world.backend.interfere.renew = async (pass, claims) => {
      const answers = await pass();
      if (claims[0]?.ttlMs === 30_000) await opened;
      return answers;
    };
    await world.clock.advance(10_000);
    expect(world.backend.count("renew"), "its answer is on the way").toBe(1);
    const extended = await lease.extend("2m");
    await world.clock.advance(2000);
    open();
    await world.clock.settle();
    expect(lease.remaining()).toBe(extended - 2000);
    expect(await keptMs(world)).toBeGreaterThanOrEqual(lease.remaining());
    await lease.release();
  });

  test("a renewal that left later, for the ttl from before, does not hide a longer one", async () => {
    // The watchdog renews as early as it may.
    const chance = { ...systemChance, fraction: () => 0 };
    const world = stage({ ttl: "30s", chance });
    const lease = await world.locks.acquire("a");
    const { opened, open } = gate();
    world.backend.interfere.renew = async (pass, claims) => {
      const answers = await pass();
      if (claims[0]?.ttlMs === 120_000) await opened;
      return answers;
    };
    const extended = lease.extend("2m");
    await untilAsked(world);
    // The answer is slow, but no third of the ttl; meanwhile the watchdog renews for 30 s.
    await world.clock.advance(9900);
    expect(world.backend.count("renew")).toBe(2);
    open();
    expect(await extended).toBe(120_000 - 9900 - 1202);
    await lease.release();
  });

  test("a renewal that left later, for the ttl from before, does not count for the new one when it is answered last", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    const [long, short] = [gate(), gate()];
    world.backend.interfere.renew = async (pass, claims) => {
      const answers = await pass();
      await (claims[0]?.ttlMs === 120_000 ? long : short).opened;
      return answers;
    };
    const extended = lease.extend("2m");
    await vi.waitFor(() => expect(world.backend.count("renew")).toBe(1), 60_000);
    await world.clock.advance(9800);
    expect(world.backend.count("renew"), "the lease's own renewal is out, too").toBe(2);
    long.open();
    const remaining = await extended;
    short.open();
    await world.clock.settle();
    expect(lease.remaining()).toBe(remaining);
    expect(await keptMs(world)).toBeGreaterThanOrEqual(lease.remaining());
    await lease.release();
  });

  test("an answer that is lost is asked for again; the lease's own renewals go on", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    let lost = 3;
    world.backend.interfere.renew = async (pass) => {
      const answers = await pass();
      if (lost-- > 0) throw new Error("cut off");
      return answers;
    };
    const extended = lease.extend();
    await untilAsked(world);
    await world.clock.advance(2000);
    expect(await extended).toBeGreaterThan(29_000);
    expect(world.backend.count("renew")).toBe(4);
    await lease.release();
  });

  test("one that hangs is asked for again, and the lease is lost when nothing is answered", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    world.backend.interfere.renew = () => new Promise(() => {});
    const extended = failure(lease.extend());
    await untilAsked(world);
    await world.clock.advance(60_000);
    expect(await extended).toBeInstanceOf(LockLostError);
    expect(lease.signal.aborted).toBe(true);
  });

  test("a yes that comes after trust has ended revives nothing", async () => {
    const world = stage({ ttl: "30s", renew: false });
    const lease = await world.locks.acquire("a");
    const { opened, open } = gate();
    world.backend.interfere.renew = async (pass) => {
      const answers = await pass();
      await opened;
      return answers;
    };
    await world.clock.advance(25_000);
    const extended = failure(lease.extend());
    await untilAsked(world);
    world.clock.block(10_000);
    open();
    await world.clock.settle();
    expect(await extended).toBeInstanceOf(LockLostError);
    expect(lease.remaining()).toBe(0);
  });

  test("a lease that is not renewed can be extended, and ends when it is not", async () => {
    const world = stage({ ttl: "30s", renew: false });
    const lease = await world.locks.acquire("a");
    await world.clock.advance(25_000);
    expect(await lease.extend()).toBeGreaterThan(29_000);
    await world.clock.advance(25_000);
    expect(await lease.extend("1m")).toBeGreaterThan(59_000);
    await world.clock.advance(55_000);
    lease.assertHeld();
    expect(world.backend.count("renew")).toBe(2);
    await world.clock.advance(10_000);
    expect(() => lease.assertHeld()).toThrow(LockLostError);
    expect(await failure(lease.extend())).toBeInstanceOf(LockLostError);
  });

  test.each([true, false] as const)("time that the machine slept is not believed in (renew: %s)", async (renew) => {
    const world = stage({ ttl: "30s", renew });
    const lease = await world.locks.acquire("a");
    await lease.extend("10m");
    world.clock.suspend(300_000);
    expect(await lease.extend("30s")).toBeLessThanOrEqual(await keptMs(world));
    await lease.release();
  });

  test("a lease in doubt is asked for, and held when the store says so", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    world.clock.suspend(5000);
    expect(await lease.extend()).toBeGreaterThan(29_000);
    lease.assertHeld();
    await lease.release();
  });

  test("one that the store has given away is lost", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    world.backend.interfere.renew = async (pass, claims) => {
      for (const claim of claims) await world.backend.release(claim);
      return await pass();
    };
    const error = await failure(lease.extend());
    expect(error).toBeInstanceOf(LockLostError);
    expect(lease.signal.reason).toBe(error);
  });

  test("released meanwhile, it rejects at once, though the store is silent", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    world.backend.interfere.renew = () => new Promise(() => {});
    const extended = failure(lease.extend());
    await untilAsked(world);
    await world.clock.settle();
    expect(await lease.release()).toBe("released");
    await world.clock.settle();
    expect(await extended).toMatchObject({ name: "LockLostError", loss: { kind: "released" } });
    expect(await failure(lease.extend())).toMatchObject({ loss: { kind: "released" } });
    await world.locks.close();
    expect(world.clock.timers).toBe(0);
  });

  test("close() ends one that has no answer", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    world.backend.interfere.renew = () => new Promise(() => {});
    const extended = failure(lease.extend());
    await untilAsked(world);
    await world.clock.settle();
    const closed = world.locks.close();
    await world.clock.advance(30_000);
    await closed;
    expect(await extended).toBeInstanceOf(LockLostError);
    expect(world.clock.timers).toBe(0);
  });

  test("it does not move the end of maxHold", async () => {
    const world = stage({ ttl: "30s", maxHold: "20s" });
    const lease = await world.locks.acquire("a");
    expect(await lease.extend("10m")).toBe(20_000);
    await world.clock.advance(20_000);
    expect(lease.signal.reason).toMatchObject({ loss: { kind: "max-hold" } });
  });

  test("a re-entry extends the common hold, and a group all of its locks", async () => {
    const world = stage({ ttl: "30s" });
    await world.locks.run("a", async (outer) => {
      await world.locks.run("a", (inner) => inner.extend("5m"));
      expect(outer.remaining()).toBeGreaterThan(290_000);
    });
    await world.locks.run(["b", "c"], async (lease) => {
      expect(await lease.extend("5m")).toBe(lease.remaining());
      expect(lease.remaining()).toBeGreaterThan(290_000);
      for (const name of ["b", "c"]) expect(await keptMs(world, name)).toBeGreaterThanOrEqual(lease.remaining());
    });
  });

  test("what was extended for another ttl is not handed on in memory to one that asked for the first", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    const next = world.locks.acquire("a");
    await lease.extend("10m");
    await lease.release();
    await (await next).extend();
    expect(await keptMs(world)).toBeLessThanOrEqual(30_000);
    await (await next).release();
  });

  test("two hundred extensions leave nothing behind that the next one would have to wake", async () => {
    const world = stage({ ttl: "30s", renew: false });
    const lease = await world.locks.acquire("a");
    const woken = vi.spyOn(HeldLease.prototype, "peek");
    for (let count = 0; count < 200; count++) await lease.extend();
    expect(woken).toHaveBeenCalledTimes(200);
    woken.mockRestore();
    await lease.release();
  });

  test("a refusal that will not change is no reason to ask again: it rejects, and the lease goes on", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    const cause = new LockBackendError("scripted", "a", "`maxTtl` is 1m", { fatal: true });
    world.backend.interfere.renew = (pass, claims) =>
      claims[0]!.ttlMs > 60_000 ? Promise.resolve([{ held: "unknown", cause }]) : pass();
    const error = failure(lease.extend("2m"));
    await world.clock.settle();
    expect(await error).toBe(cause);
    expect(await lease.extend("1m")).toBeGreaterThan(59_000);
    await lease.release();
  });

  test("a quorum that may not hold for so long says so", async () => {
    const members = [1, 2, 3].map(() => memory({ store: memoryStore() }));
    await using locks = createLocks(quorum(members, { maxTtl: "1m" }), { ttl: "30s" });
    const lease = await locks.acquire("a");
    expect((await failure(lease.extend("2m"))).message).toMatch(/maxTtl/);
    expect(await lease.extend("1m")).toBeGreaterThan(50_000);
  });

  test("a longer one without an answer counts when the lock is given back: it is asked for until the store must have let go", async () => {
    const world = stage({ ttl: "3s" });
    const lease = await world.locks.acquire("a");
    world.backend.interfere.renew = async (pass) => {
      await pass();
      throw new Error("the reply is lost");
    };
    world.backend.interfere.release = () => Promise.reject(new Error("cut off"));
    const extended = failure(lease.extend("10m"));
    await world.clock.settle();
    const released = lease.release();
    await world.clock.advance(10_000);
    expect(await released).toBe("unknown");
    expect(await extended).toBeInstanceOf(LockLostError);
    world.backend.interfere.release = undefined;
    await world.clock.advance(10_000);
    expect(await keptMs(world)).toBe(0);
  });

  test("what may have been extended is not handed on in memory to one that asked for the first ttl", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    const next = world.locks.acquire("a");
    const { opened, open } = gate();
    world.backend.interfere.renew = async (pass) => {
      const answers = await pass();
      await opened;
      return answers;
    };
    const extended = failure(lease.extend("10m"));
    await world.clock.settle();
    await lease.release();
    const after = await next;
    expect(await keptMs(world)).toBeLessThanOrEqual(30_000);
    open();
    expect(await extended).toBeInstanceOf(LockLostError);
    await after.release();
  });

  test("one of several readers that is released does not wait for the answer, though the others go on", async () => {
    const world = stage({ ttl: "30s", mode: "shared" });
    const [first, second] = await Promise.all([world.locks.acquire("a"), world.locks.acquire("a")]);
    expect(first.fence).toBe(second.fence);
    world.backend.interfere.renew = () => new Promise(() => {});
    const extended = failure(first.extend());
    await world.clock.settle();
    await first.release();
    await world.clock.settle();
    expect(await extended).toMatchObject({ loss: { kind: "released" } });
    second.assertHeld();
    await second.release();
  });

  test("an answer with a proof from before a sleep, which comes after it, is not believed for the time slept", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    await world.clock.advance(5);
    const fromMs = world.clock.now() - 1;
    const { opened, open } = gate();
    world.backend.interfere.renew = async (pass, claims) => {
      const answers = await pass();
      if (claims[0]?.ttlMs === 30_000) return answers;
      await opened;
      return [{ held: true, fromMs }];
    };
    const extended = lease.extend("10m");
    await world.clock.settle();
    world.clock.suspend(300_000);
    // In doubt: the watchdog asks, and hears that it is held.
    lease.remaining();
    await world.clock.advance(20);
    lease.assertHeld();
    open();
    await extended;
    expect(lease.remaining()).toBeLessThanOrEqual(300_000);
    await lease.release();
  });

  test("what it shows is written once", async () => {
    const world = stage({ ttl: "30s" });
    const lease = await world.locks.acquire("a");
    const next = world.locks.acquire("a");
    await lease.extend();
    await lease.extend();
    expect(world.backend.steps.flatMap(({ step, claims }) => (step === "renew" ? [claims[0]?.changed] : []))).toEqual([
      true,
      undefined,
    ]);
    await lease.release();
    await (await next).release();
  });

  test.each(["", "5", "50ms", -1, 0, Number.NaN, Infinity, "25h", null, {}])("%j is no ttl", async (ttl) => {
    const world = stage();
    const lease = await world.locks.acquire("a");
    expect(await failure(lease.extend(ttl as never))).toMatchObject({
      name: "TypeError",
      message: expect.stringMatching(/`ttl`/),
    });
    lease.assertHeld();
    expect(world.backend.count("renew")).toBe(0);
  });

  test("where the store knows no other ttl, it says so; the same ttl is no other", async () => {
    const world = stage({ ttl: "30s" });
    Object.assign(world.backend, { can: { otherTtl: "Its sessions have one time-out" } });
    const lease = await world.locks.acquire("a");
    expect((await failure(lease.extend("1m"))).message).toMatch(/Its sessions have one time-out/);
    expect(await lease.extend("30s")).toBeGreaterThan(29_000);
    await lease.release();
  });
});
