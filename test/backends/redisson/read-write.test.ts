/** RReadWriteLock: readers of both sides together, one writer alone, and what Java's watchdog and its releases do to readers of ours. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { granted, refused } from "../../../src/testing/attempts.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import type { Claim } from "../../../src/contract/backend.ts";
import type { RedissonBackend, RedissonOptions } from "../../../src/backends/redisson/index.ts";
import { Java } from "./java.ts";
import { claimOf, type Lab, startLab, waits } from "./lab.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab[Symbol.asyncDispose]());

const backendOf = (options: RedissonOptions = {}): RedissonBackend => lab.backend({ kind: "read-write", ...options });
const reader = (name: string, facts: Partial<Claim> = {}): Claim => claimOf(name, { mode: "shared", ...facts });

describe("readers", () => {
  test("of both sides hold together; a writer of neither side comes in before all have left (S112)", async () => {
    const [backend, claim, other] = [backendOf(), reader("together"), new Java(lab.raw)];
    expect(await lab.java.tryReadLock("together")).toBe(true);
    await granted(backend, claim);
    expect(await other.tryReadLock("together")).toBe(true);
    expect(await new Java(lab.raw).tryWriteLock("together")).toBe(false);
    const { heldBy } = await refused(backend, claimOf("together"));
    expect(heldBy.map(({ mode }) => mode)).toEqual(["shared", "shared", "shared"]);
    expect(await lab.java.readUnlock("together")).toBe(0);
    expect(await other.readUnlock("together")).toBe(0);
    await refused(backend, claimOf("together"));
    const heard = await lab.hear("redisson_rwlock:{together}");
    expect(await backend.release(claim)).toBe("held");
    await eventually("the message", () => (heard.length > 0 ? true : undefined));
    expect(heard).toEqual(["0"]);
    await granted(backend, claimOf("together"));
  });

  test("of ours are not thrown out by a release in Java, because they have deadlines as Java's have", async () => {
    const [backend, claim] = [backendOf(), reader("deadline")];
    await lab.java.tryReadLock("deadline");
    await granted(backend, claim);
    await lab.java.readUnlock("deadline");
    expect(await backend.renew([claim])).toEqual([{ held: true }]);
    expect(await new Java(lab.raw).tryWriteLock("deadline")).toBe(false);
  });

  test("of Java stay when ours leave, for as long as their own deadlines say", async () => {
    const [backend, claim] = [backendOf(), reader("stay")];
    await granted(backend, claim);
    await lab.java.tryReadLock("stay", 5000);
    await lab.java.tryReadLock("stay", 10_000);
    const heard = await lab.hear("redisson_rwlock:{stay}");
    await backend.release(claim);
    expect(await lab.raw.hgetall("stay")).toEqual({ mode: "read", [lab.java.field()]: "2" });
    const leftMs = await lab.raw.pttl("stay");
    expect(leftMs).toBeLessThanOrEqual(10_000);
    expect(leftMs).toBeGreaterThan(0);
    await lab.java.readUnlock("stay");
    expect(heard).toEqual([]);
    await lab.java.readUnlock("stay");
    await eventually("the message of Java", () => (heard.length > 0 ? true : undefined));
  });

  test("of ours that are dead end at their own time: they keep no writer out when others leave", async () => {
    const [backend, dead, alive] = [backendOf(), reader("over", { ttlMs: 100 }), reader("over")];
    await granted(backend, dead);
    await granted(backend, alive);
    await eventually("its deadline", async () =>
      (await lab.raw.keys("{over}:*timeout:1")).length === 1 ? true : undefined,
    );
    expect(await backend.renew([dead])).toMatchObject([{ held: false }]);
    expect((await backend.query("over")).held).toHaveLength(1);
    // The next reader clears what it left.
    await granted(backend, reader("over"));
    expect(Object.keys(await lab.raw.hgetall("over"))).toHaveLength(3);
    await lab.raw.del("over");
    await granted(backend, alive);
    expect(await backend.release(dead)).toBe("absent");
    expect(await backend.release(alive)).toBe("held");
    expect(await lab.java.tryWriteLock("over")).toBe(true);
  });

  test("may not have a ttl above the watchdog of Java, which shortens the lock to its own time", async () => {
    const [backend, claim] = [backendOf({ watchdog: "25s" }), reader("short", { ttlMs: 25_000 })];
    await lab.java.tryReadLock("short");
    await granted(backend, claim);
    await lab.java.renewReader("short", 25_000);
    expect(await lab.raw.pttl("short")).toBeLessThanOrEqual(25_000);
    await expect(backend.attempt(reader("short", { ttlMs: 25_001 }))).rejects.toThrow(/`watchdog`/u);
    const [renewal] = await backend.renew([{ ...claim, ttlMs: 26_000 }]);
    expect(renewal).toMatchObject({ held: "unknown" });
    // A writer is alone, and Java does not shorten its time.
    await granted(backend, claimOf("long writer", { ttlMs: 600_000 }));
  });
});

test("a lock whose readers are all dead is not taken for one that is free and left to others", async () => {
  const backend = backendOf();
  await lab.java.tryReadLock("all dead");
  await lab.raw.del(...(await lab.raw.keys("{all dead}:*timeout:1")));
  const { heldBy, retryMs } = await refused(backend, claimOf("all dead", { queues: true }));
  expect(heldBy).toEqual([]);
  expect(retryMs).toBeLessThanOrEqual(250);
});

describe("a writer", () => {
  test("of ours keeps all of Java out, and its release is reported as that of a writer", async () => {
    const [backend, claim] = [backendOf(), claimOf("writer")];
    const heard = await lab.hear("redisson_rwlock:{writer}");
    await granted(backend, claim);
    expect(await lab.java.tryReadLock("writer")).toBe(false);
    expect(await lab.java.tryWriteLock("writer")).toBe(false);
    await refused(backend, reader("writer"));
    await backend.release(claim);
    await eventually("the message", () => (heard.length > 0 ? true : undefined));
    expect(heard).toEqual(["1"]);
    expect(await lab.java.tryWriteLock("writer")).toBe(true);
    await lab.java.writeUnlock("writer");
  });

  test("of Java keeps ours out, and its release wakes them without a poll", async () => {
    const backend = backendOf();
    expect(await lab.java.tryWriteLock("theirs")).toBe(true);
    expect((await refused(backend, claimOf("theirs"))).heldBy).toMatchObject([{ mode: "exclusive", fence: 0n }]);
    const claim = reader("theirs", { queues: true });
    await waits(backend, claim);
    const news = backend.watch(claim, new AbortController().signal);
    await lab.java.writeUnlock("theirs");
    await news;
    await granted(backend, claim);
  });

  test("of Java that goes on as a reader lets readers of ours in", async () => {
    const backend = backendOf();
    await lab.java.tryWriteLock("down");
    await lab.java.tryReadLock("down");
    expect((await backend.query("down")).held).toHaveLength(1);
    await lab.java.writeUnlock("down");
    await granted(backend, reader("down"));
    await refused(backend, claimOf("down"));
  });

  test("keeps readers out for its minHold, and readers keep a writer out for theirs", async () => {
    const backend = backendOf();
    const [writer, read] = [claimOf("w", { minHoldMs: 15_000 }), reader("r", { minHoldMs: 15_000 })];
    for (const claim of [writer, read]) {
      await granted(backend, claim);
      expect(await backend.release(claim)).toBe("held");
      expect((await backend.query(claim.name)).held).toMatchObject([{ remainder: "minHold" }]);
      expect(await lab.java.tryWriteLock(claim.name)).toBe(false);
    }
    expect(await lab.java.tryReadLock("w")).toBe(false);
    expect(await lab.java.tryReadLock("r")).toBe(true);
    await lab.java.readUnlock("r");
    expect(await lab.java.tryWriteLock("r")).toBe(false);
  });
});
