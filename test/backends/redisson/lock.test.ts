/** RLock: both sides keep each other out and wake each other, and neither touches what is the other's. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLocks } from "../../../src/index.ts";
import { fieldOf } from "../../../src/backends/redisson/keys.ts";
import { granted, refused } from "../../../src/testing/attempts.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { claimOf, type Lab, startLab, TTL_MS, waits } from "./lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab[Symbol.asyncDispose]());

describe("while Java holds it", () => {
  test("we are refused, see who it is, and its hash stays as it is, however often it has entered", async () => {
    const { java, raw } = lab;
    expect(await java.tryLock("held", 7)).toBe(true);
    expect(await java.tryLock("held", 7)).toBe(true);
    const backend = lab.backend();
    const { heldBy } = await refused(backend, claimOf("held", { queues: true }));
    expect(heldBy).toMatchObject([{ holder: `Redisson ${java.id}, thread 7`, fence: 0n, mode: "exclusive" }]);
    expect(heldBy[0]!.remainingMs).toBeGreaterThan(0);
    expect((await backend.query("held")).held).toMatchObject([{ name: "held", fence: 0n }]);
    expect((await backend.inspect("held")).held).toHaveLength(1);
    await expect(backend.forceRelease("held", 0n, "me", "why")).rejects.toThrow(/only an RFencedLock/u);
    expect(await raw.hgetall("held")).toEqual({ [java.field(7)]: "2" });
    expect(await java.unlock("held", 7)).toBe(0);
    await refused(backend, claimOf("held"));
    expect(await java.unlock("held", 7)).toBe(1);
    await granted(backend, claimOf("held"));
  });

  test("its release wakes us, without a poll", async () => {
    await lab.java.tryLock("woken");
    const backend = lab.backend();
    const claim = claimOf("woken", { queues: true });
    await waits(backend, claim);
    const news = backend.watch(claim, new AbortController().signal);
    await lab.java.unlock("woken");
    await news;
    await granted(backend, claim);
  });

  test("its release between our attempt and our watch is not missed", async () => {
    await lab.java.tryLock("between");
    const backend = lab.backend();
    const [claim, other] = [claimOf("between", { queues: true }), claimOf("between", { queues: true })];
    await waits(backend, claim);
    await backend.attempt(other);
    const heard = backend.watch(other, new AbortController().signal);
    await lab.java.unlock("between");
    await heard;
    await backend.watch(claim, new AbortController().signal);
    await granted(backend, claim);
  });

  test("a lock that never expires is shown so, and is not waited for by time", async () => {
    await lab.raw.hset("for ever", lab.java.field(), "1");
    const backend = lab.backend();
    const { heldBy, retryMs } = await refused(backend, claimOf("for ever", { queues: true }));
    expect(heldBy[0]!.holder).toContain("never expires");
    expect(heldBy[0]!.remainingMs).toBeGreaterThan(1e12);
    expect(retryMs).toBeLessThanOrEqual(250);
    await lab.raw.del("for ever");
  });
});

describe("while we hold it", () => {
  test("Java finds one holder of its own form, waits, and is woken as by its own kind (S111)", async () => {
    const backend = lab.backend();
    const claim = claimOf("ours");
    const heard = await lab.hear("redisson_lock__channel:{ours}");
    await granted(backend, claim);
    expect(await lab.raw.hgetall("ours")).toEqual({ [fieldOf(claim.id)]: "1" });
    expect(fieldOf(claim.id)).toMatch(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+$/u);
    expect(await lab.java.tryLock("ours")).toBe(false);
    expect(await lab.java.unlock("ours")).toBe(null);
    expect(await backend.release(claim)).toBe("held");
    await eventually("the message", () => (heard.length > 0 ? true : undefined));
    expect(heard).toEqual(["0"]);
    expect(await lab.java.tryLock("ours")).toBe(true);
    await lab.java.unlock("ours");
  });

  test("forceUnlock() of Java ends our lease, and the next renewal says so", async () => {
    const backend = lab.backend();
    const claim = claimOf("forced by Java");
    await granted(backend, claim);
    await lab.raw.del(claim.name);
    expect(await backend.renew([claim])).toMatchObject([{ held: false, reason: { kind: "gone" } }]);
    expect(await backend.release(claim)).toBe("absent");
  });

  test("a forced end of ours wakes Java, and its holder learns of it with the next renewal", async () => {
    const backend = lab.backend();
    const claim = claimOf("forced");
    const heard = await lab.hear("redisson_lock__channel:{forced}");
    const { fence } = await granted(backend, claim);
    expect(await backend.forceRelease("forced", fence + 1n, "me", "why")).toBe(false);
    expect(await backend.forceRelease("forced", fence, "me", "why")).toBe(true);
    await eventually("the message", () => (heard.length > 0 ? true : undefined));
    expect(await lab.java.tryLock("forced")).toBe(true);
    const [renewal] = await backend.renew([claim]);
    expect(renewal).toMatchObject({ held: false, reason: { kind: "forced", by: "me", reason: "why" } });
    expect((await backend.query("forced")).forced).toMatchObject([{ fence, by: "me" }]);
    await lab.java.unlock("forced");
  });

  test("minHold and lockDelay hold against Java, too", async () => {
    const backend = lab.backend();
    const kept = claimOf("kept", { minHoldMs: 15_000 });
    const heard = await lab.hear("redisson_lock__channel:{kept}");
    await granted(backend, kept);
    expect(await backend.release(kept)).toBe("held");
    expect(await backend.release(kept)).toBe("absent");
    expect(await lab.java.tryLock("kept")).toBe(false);
    expect((await backend.query("kept")).held).toMatchObject([{ remainder: "minHold" }]);
    await refused(backend, kept);
    // Java waits for as long as the key had at first, unless a message makes it look again.
    await eventually("the message", () => (heard.length > 0 ? true : undefined));
    expect(heard).toEqual(["0"]);
    await granted(backend, claimOf("delayed", { ttlMs: 1000, lockDelayMs: 60_000 }));
    expect(await lab.raw.pttl("delayed")).toBeGreaterThan(50_000);
  });
});

describe("a holder that comes back too late", () => {
  test("touches neither a successor of ours nor one in Java", async () => {
    const [old, next] = [lab.backend(), lab.backend()];
    for (const successor of ["ours", "Java"]) {
      const claim = claimOf(`late: ${successor}`);
      const { fence } = await granted(old, claim);
      await lab.raw.del(claim.name);
      if (successor === "ours") expect((await granted(next, claimOf(claim.name))).fence).toBeGreaterThan(fence);
      else await lab.java.tryLock(claim.name);
      const value = await lab.raw.hgetall(claim.name);
      expect(await old.renew([claim])).toMatchObject([{ held: false }]);
      expect(await old.release(claim)).toBe("absent");
      expect(await old.forceRelease(claim.name, fence, "me", "why")).toBe(false);
      expect(await lab.raw.hgetall(claim.name)).toEqual(value);
    }
  });

  test("whose late attempt took the lock again is not renewed as the old lease", async () => {
    const backend = lab.backend();
    const claim = claimOf("retaken");
    const { fence } = await granted(backend, claim);
    await lab.raw.del("retaken");
    await granted(backend, claim);
    expect(await backend.renew([claim], [fence])).toMatchObject([{ held: false, reason: { kind: "retaken" } }]);
  });
});

describe("fences among ours", () => {
  test("rise although the clock of the server goes back, and are the same for an attempt that is repeated", async () => {
    const backend = lab.backend();
    const ahead = (BigInt(Date.now()) + 86_400_000n) * 1000n;
    await lab.raw.hset("{stepped}:holdfast", "fence", String(ahead));
    const claim = claimOf("stepped");
    expect((await granted(backend, claim)).fence).toBe(ahead + 1n);
    await lab.raw.pexpire("stepped", 5000);
    expect((await granted(backend, claim)).fence).toBe(ahead + 1n);
    expect(await lab.raw.pttl("stepped")).toBeGreaterThan(5000);
  });
});

describe("the gap", () => {
  test("after a lease of ours the lock is left to Java if it waits; a try does not wait for that", async () => {
    const backend = lab.backend({ gap: "30s" });
    const [holder, waiter] = [claimOf("gap"), claimOf("gap", { queues: true })];
    await granted(backend, holder);
    await waits(backend, waiter);
    await lab.hear("redisson_lock__channel:{gap}");
    await backend.release(holder);
    expect(await backend.attempt(waiter)).toMatchObject({ granted: false, heldBy: [] });
    await granted(backend, claimOf("gap"));
  });

  test("doubles while Java waits without success, and begins anew when it had its turn", async () => {
    const backend = lab.backend({ gap: "60s" });
    const waiter = claimOf("doubles", { queues: true });
    await lab.hear("redisson_lock__channel:{doubles}");
    const gapAfterLease = async (): Promise<number> => {
      const holder = claimOf("doubles");
      await granted(backend, holder);
      await backend.release(holder);
      return (await refused(backend, waiter)).retryMs ?? 0;
    };
    const gaps = [await gapAfterLease(), await gapAfterLease(), await gapAfterLease(), await gapAfterLease()];
    const most = [60_002, 120_002, 240_002, 480_002];
    for (const [at, gapMs] of [...gaps, await gapAfterLease()].entries()) {
      expect(gapMs).toBeLessThanOrEqual(most[at] ?? 480_002);
      expect(gapMs).toBeGreaterThan((most[at] ?? 480_002) * 0.6);
    }
    await lab.java.tryLock("doubles");
    await refused(backend, waiter);
    await lab.java.unlock("doubles");
    expect(await gapAfterLease()).toBeLessThanOrEqual(60_002);
  });

  test("there is none if only ours wait", async () => {
    const [backend, other] = [lab.backend({ gap: "30s" }), lab.backend({ gap: "30s" })];
    const [holder, waiter] = [claimOf("no gap"), claimOf("no gap", { queues: true })];
    await granted(backend, holder);
    await waits(backend, waiter);
    await waits(other, claimOf("no gap", { queues: true }));
    await backend.release(holder);
    await granted(backend, waiter);
  });
});

test("what it cannot do is refused with what to do instead", async () => {
  const locks = createLocks(lab.backend());
  await expect(locks.acquire("a", { mode: "shared" })).rejects.toThrow(/kind: "read-write"/u);
  await expect(locks.acquire("a", { limit: 2 })).rejects.toThrow(/knows no limit/u);
  await expect(lab.backend().attempt(claimOf("half \ud800"))).rejects.toThrow(/surrogate/u);
  await expect(lab.backend().attempt(claimOf("{a}:holdfast"))).rejects.toThrow(/our notes/u);
  await locks.close();
});

test("a name and the same name in braces have nothing of ours in common", async () => {
  const backend = lab.backend();
  const [plain, braced] = [claimOf("alike"), claimOf("{alike}")];
  const { fence } = await granted(backend, braced);
  await granted(backend, plain);
  expect(await backend.renew([braced], [fence])).toEqual([{ held: true }]);
  expect((await backend.query("")).held.filter(({ name }) => name.includes("alike"))).toHaveLength(2);
});

test("a server that is full renews leases, also those that say something new of themselves", async () => {
  const backend = lab.backend();
  const claims = [claimOf("full"), claimOf("full, changed")];
  for (const claim of claims) await granted(backend, claim);
  await lab.raw.config("SET", "maxmemory", "1mb");
  try {
    const changed = { ...claims[1]!, ttlMs: TTL_MS + 1000, changed: true, meta: { step: "2" } };
    expect(await backend.renew([changed, claims[0]!])).toEqual([{ held: true }, { held: true }]);
    expect((await backend.inspect("full, changed")).held).toMatchObject([{ meta: { step: "2" } }]);
    expect(await backend.release(changed)).toBe("held");
  } finally {
    await lab.raw.config("SET", "maxmemory", "0");
  }
});

test("a lease that is held for longer than unused notes are kept is not without its notes", async () => {
  const backend = lab.backend({ idle: "1s" });
  const claim = claimOf("kept notes");
  const { fence } = await granted(backend, claim);
  await lab.raw.pexpire("{kept notes}:holdfast", 5000);
  expect(await backend.renew([claim], [fence])).toEqual([{ held: true }]);
  expect(await lab.raw.pttl("{kept notes}:holdfast")).toBeGreaterThan(TTL_MS / 2);
});
