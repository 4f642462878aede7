/** The watchdog: one timer, batches, and no lease harmed by another's failure. */
import { describe, expect, test } from "vitest";
import type { Claim, Renewal } from "../../src/contract/backend.ts";
import { LockLostError } from "../../src/contract/errors.ts";
import { stage } from "./scripted.ts";

test("a lease is renewed every third of its ttl, 30 s unless said", async () => {
  const { clock, backend, locks } = stage();
  await locks.acquire("a");
  await clock.advance(9000 - 1);
  expect(backend.count("renew")).toBe(0);
  await clock.advance(1000 + 1);
  expect(backend.count("renew")).toBe(1);
  await clock.advance(60_000);
  expect(backend.count("renew")).toBeGreaterThanOrEqual(6);
  expect(backend.count("renew")).toBeLessThanOrEqual(8);
});

test("many leases share one timer and few batches", async () => {
  const { clock, backend, locks } = stage();
  for (let index = 0; index < 500; index++) {
    await locks.acquire(`lock ${index}`);
    await clock.advance(20);
  }
  backend.steps.length = 0;
  await clock.advance(60_000);
  const renewals = backend.steps.filter(({ step }) => step === "renew");
  expect(renewals.reduce((sum, { claims }) => sum + claims.length, 0)).toBeGreaterThanOrEqual(500 * 5);
  expect(renewals.length).toBeLessThan(60);
  expect(clock.timers).toBeLessThanOrEqual(2);
});

test("each lease is renewed after a third of its ttl, and at most a tenth of its ttl earlier, whatever the ttl of others is", async () => {
  const { clock, backend, locks } = stage();
  const askedMs = new Map<string, number>();
  const gaps = new Map<number, number[]>([3000, 9000, 60_000, 300_000].map((ttlMs) => [ttlMs, []]));
  backend.interfere.renew = (pass, claims) => {
    for (const { id, ttlMs } of claims) {
      gaps.get(ttlMs)!.push((clock.now() - askedMs.get(id)!) / ttlMs);
      askedMs.set(id, clock.now());
    }
    return pass();
  };
  for (let index = 0; index < 12; index++) {
    await locks.acquire(`lock ${index}`, { ttl: [...gaps.keys()][index % 4]! });
    askedMs.set(backend.steps.at(-1)!.claims[0]!.id, clock.now());
    await clock.advance(777);
  }
  await clock.advance(600_000);
  for (const [ttlMs, all] of gaps) {
    expect(all.length).toBeGreaterThanOrEqual((3 * 2 * 600_000) / ttlMs);
    // 0.3 to 0.333, less a tenth; and by its first group a lease is taken along a thirtieth early.
    expect(Math.min(...all)).toBeGreaterThanOrEqual(0.3 - 0.1 - 1 / 30);
    expect(Math.max(...all)).toBeLessThanOrEqual(1 / 3 + 0.001);
  }
});

test("S18: one lease that the store no longer knows does not harm the others of its batch", async () => {
  const { clock, backend, locks } = stage();
  const leases = await Promise.all(["a", "b", "c"].map((name) => locks.acquire(name)));
  backend.interfere.renew = async (pass, claims) => {
    const renewals = (await pass()) as Renewal[];
    return renewals.map((renewal, index) => (claims[index]!.name === "b" ? { held: false, reason: "gone" } : renewal));
  };
  await clock.advance(60_000);
  expect(leases.map((lease) => lease.signal.aborted)).toEqual([false, true, false]);
});

test("S18: a batch that fails as a whole is halved until the bad claim stands alone", async () => {
  const { clock, backend, locks } = stage();
  const leases = await Promise.all(["a", "b", "c", "d"].map((name) => locks.acquire(name)));
  backend.interfere.renew = (pass, claims: readonly Claim[]) =>
    claims.some(({ name }) => name === "c") ? Promise.reject(new Error("CROSSSLOT")) : pass();
  await clock.advance(120_000);
  expect(leases.map((lease) => lease.remaining() > 0)).toEqual([true, true, false, true]);
  expect(leases[2]!.signal.reason).toBeInstanceOf(LockLostError);
});

test("a lease that begins while the others are asked for in doubt ends at its time", async () => {
  const { clock, backend, locks } = stage();
  await locks.acquire("a");
  backend.interfere.renew = () => new Promise(() => {});
  await clock.advance(100);
  backend.listener!.doubt();
  await clock.advance(100);
  expect(backend.count("renew"), "that has no answer yet").toBe(1);
  const lease = await locks.acquire("b", { maxHold: "2s" });
  const untilMs = clock.now() + lease.remaining();
  let abortedMs = Infinity;
  lease.signal.addEventListener("abort", () => (abortedMs = clock.now()));
  await clock.advance(20_000);
  expect(abortedMs).toBeLessThanOrEqual(untilMs);
});

test("a store that answers nonsense is not believed", async () => {
  const { clock, backend, locks } = stage();
  const lease = await locks.acquire("a");
  backend.interfere.renew = async () => [];
  await clock.advance(29_000);
  expect(lease.remaining()).toBeGreaterThan(0);
  await clock.advance(1000);
  expect(lease.signal.aborted).toBe(true);
});

test("after trouble with the connection everything is renewed at once", async () => {
  const { clock, backend, locks } = stage();
  await Promise.all(["a", "b", "c"].map((name) => locks.acquire(name)));
  backend.listener!.doubt();
  await clock.advance(0);
  expect(backend.steps.filter(({ step }) => step === "renew").map(({ claims }) => claims.length)).toEqual([3]);
});

describe("how long a lease may last", () => {
  test("renew: false ends it after one ttl", async () => {
    const { clock, backend, locks } = stage();
    const lease = await locks.acquire("a", { renew: false, ttl: "10s" });
    await clock.advance(10_000 - 103);
    lease.assertHeld();
    await clock.advance(1);
    expect(lease.signal.reason).toMatchObject({ reason: expect.stringContaining("not renewed") as string });
    expect(backend.count("renew")).toBe(0);
  });

  test("S44: maxHold ends it though its holder hangs, and the store lets the next one in", async () => {
    const { clock, locks, other } = stage();
    const lease = await locks.acquire("a", { ttl: "10s", maxHold: "25s" });
    await clock.advance(24_999);
    lease.assertHeld();
    await clock.advance(1);
    expect(lease.signal.reason).toMatchObject({ reason: expect.stringContaining("maxHold") as string });
    const next = other().acquire("a", { wait: "1m" });
    await clock.advance(10_000);
    expect((await next).fence).toBeGreaterThan(lease.fence);
  });

  test("minHold keeps the lock taken after an early release, and no longer", async () => {
    const { clock, locks, other } = stage();
    const lease = await locks.acquire("nightly", { minHold: "1m" });
    await clock.advance(5000);
    expect(await lease.release()).toBe("released");
    await clock.advance(54_000);
    expect(await other().tryAcquire("nightly")).toBeNull();
    await clock.advance(1001);
    expect(await other().tryAcquire("nightly")).not.toBeNull();
  });

  test("S91: lockDelay keeps the lock taken after an unclean end, and not after a clean one", async () => {
    const { clock, backend, locks, other } = stage();
    const clean = await locks.acquire("a", { ttl: "10s", lockDelay: "5s" });
    await clean.release();
    const unclean = await locks.acquire("a", { ttl: "10s", lockDelay: "5s" });
    backend.interfere.renew = () => Promise.reject(new Error("cut off"));
    await clock.advance(10_000);
    expect(unclean.signal.aborted).toBe(true);
    expect(await unclean.release()).toBe("lost");
    expect(await other().tryAcquire("a")).toBeNull();
    await clock.advance(4999);
    expect(await other().tryAcquire("a")).toBeNull();
    await clock.advance(2);
    expect(await other().tryAcquire("a")).not.toBeNull();
  });
});

test("a lease ended by force is lost at once, with who did it and why", async () => {
  const { clock, locks, other } = stage();
  const lease = await locks.acquire("a");
  const { signal } = lease;
  expect(await other().forceRelease("a", { fence: lease.fence + 1000n, reason: "wrong" })).toBe(false);
  expect(await other().forceRelease("a", { fence: lease.fence, reason: "stuck since noon" })).toBe(true);
  await clock.settle();
  expect(signal.aborted).toBe(true);
  expect((signal.reason as LockLostError).reason).toContain("stuck since noon");
  expect((await locks.query("a")).forced).toMatchObject([{ by: "there:2", reason: "stuck since noon" }]);
});

test("100,000 held leases need one timer", async () => {
  const { clock, locks } = stage();
  for (let index = 0; index < 100_000; index++) await locks.acquire(`lock ${index}`);
  expect(clock.timers).toBeLessThanOrEqual(2);
});

test("a lease that is not renewed and ends soon after another is renewed ends at its own instant, and nothing hangs", async () => {
  const { clock, locks } = stage();
  await locks.acquire("renewed", { ttl: "30s" });
  await clock.advance(1000);
  const lease = await locks.acquire("left alone", { ttl: "10s", renew: false });
  await clock.advance(9897);
  lease.assertHeld();
  await clock.advance(1);
  expect(lease.signal.aborted).toBe(true);
});

test("a lease in doubt is asked about once, however often it is checked", async () => {
  const { clock, backend, locks } = stage();
  const lease = await locks.acquire("a");
  clock.suspend(60_000);
  backend.interfere.renew = () => new Promise(() => {});
  for (let look = 0; look < 100; look++) {
    expect(lease.remaining()).toBe(0);
    await clock.advance(0);
  }
  expect(backend.count("renew")).toBe(1);
});

test("a lease that was handed over with little trust left is renewed before that is used up", async () => {
  const { clock, backend, locks } = stage();
  await locks.acquire("other", { ttl: "30s" });
  backend.interfere.attempt = async (pass) => {
    const sentAtMs = clock.now();
    return { ...((await pass()) as object), fromMs: sentAtMs - 22_000 };
  };
  const lease = await locks.acquire("a", { ttl: "30s" });
  await clock.advance(5000);
  expect(lease.signal.aborted).toBe(false);
  expect(lease.remaining()).toBeGreaterThan(20_000);
});
