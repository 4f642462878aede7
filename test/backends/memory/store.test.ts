import { describe, expect, test } from "vitest";
import type { Claim, Granted } from "../../../src/contract/backend.ts";
import { memory, memoryStore } from "../../../src/backends/memory/index.ts";
import { openBackend } from "../../../src/backends/memory/open.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { newClaim } from "../../../src/testing/claim.ts";

// What every backend promises is in the conformance suite; here is what only the reference backend promises.

function claim(name: string, change: Partial<Claim> = {}): Claim {
  return newClaim({ name, ttlMs: 1000, ...change });
}

describe("memory()", () => {
  test("hands over in the instant of the release, trusted from that instant", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const a = memory({ store });
    const b = memory({ store });
    const first = claim("x");
    const second = claim("x");
    await a.attempt(first);
    await b.attempt(second);
    const watching = b.watch?.(second, new AbortController().signal);
    await clock.advance(400);
    await a.release(first);
    const releasedMs = clock.now();
    await clock.advance(300);
    expect(await watching).toEqual({ granted: true, fence: 65n, run: 64, mayLinger: true, fromMs: releasedMs });
  });

  test("hands over in the instant the lease expires", async () => {
    const clock = new FakeClock();
    const backend = memory({ clock });
    const endsMs = clock.now() + 1000;
    await backend.attempt(claim("x"));
    const second = claim("x");
    await backend.attempt(second);
    const watching = backend.watch?.(second, new AbortController().signal);
    await clock.advance(5000);
    expect((await watching)?.fromMs).toBe(endsMs);
  });

  test("sets no timer for leases without waiters, one for all waiters of a lock, and leaves none behind", async () => {
    const clock = new FakeClock();
    const backend = memory({ clock });
    const holders = Array.from({ length: 50 }, () => claim("x", { mode: "shared" }));
    for (const holder of holders) await backend.attempt(holder);
    expect(clock.timers).toBe(0);
    const waiters = Array.from({ length: 10 }, () => claim("x"));
    for (const waiter of waiters) await backend.attempt(waiter);
    expect(clock.timers).toBe(1);
    for (const each of [...holders, ...waiters]) await backend.release(each);
    expect(clock.timers).toBe(0);
  });

  test("skips a waiter that stopped asking, and admits those behind it", async () => {
    const clock = new FakeClock();
    const backend = memory({ clock });
    const reader = claim("x", { mode: "shared", ttlMs: 60_000 });
    const deadWriter = claim("x", { ttlMs: 1000 });
    const nextReader = claim("x", { mode: "shared", ttlMs: 60_000 });
    await backend.attempt(reader);
    await backend.attempt(deadWriter);
    await backend.attempt(nextReader);
    const watching = backend.watch?.(nextReader, new AbortController().signal);
    await clock.advance(999);
    expect((await backend.query("x")).pending.map((waiter) => waiter.mode)).toEqual(["exclusive", "shared"]);
    await clock.advance(1);
    expect((await watching)?.granted).toBe(true);
  });

  test("forgets an idle lock, yet its fences keep rising", async () => {
    const backend = memory({ run: 1 });
    const fences: bigint[] = [];
    for (let round = 0; round < 3; round++) {
      const each = claim("x");
      fences.push(((await backend.attempt(each)) as Granted).fence);
      await backend.release(each);
    }
    expect(fences).toEqual([1n, 2n, 3n]);
  });

  test("reserves a run of fences only where one holds at a time", async () => {
    const backend = memory();
    const run = async (change: Partial<Claim>): Promise<number> =>
      ((await backend.attempt(claim(`run ${JSON.stringify(change)}`, change))) as Granted).run;
    expect(await run({})).toBe(64);
    expect(await run({ limit: 2 })).toBe(1);
    expect(await run({ mode: "shared" })).toBe(1);
  });

  test("close() ends its watches and refuses further work", async () => {
    const backend = memory();
    const second = claim("x");
    await backend.attempt(claim("x"));
    await backend.attempt(second);
    const watching = backend.watch?.(second, new AbortController().signal);
    await backend.close();
    expect(await watching).toBeUndefined();
    await expect(backend.attempt(claim("x"))).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
  });
});

describe("vote()", () => {
  test("grants a ballot above every fence before it, to one claim at a time, and again to the same claim", async () => {
    const backend = memory({ clock: new FakeClock() });
    const a = claim("x");
    const b = claim("x");
    expect(await backend.vote(a, 100n)).toMatchObject({ vote: "granted" });
    expect(await backend.vote(a, 100n)).toMatchObject({ vote: "granted" });
    expect(await backend.vote(b, 200n)).toMatchObject({ vote: "held", by: "test:1", fence: 100n, remainingMs: 1000 });
    await backend.release(a);
    expect(await backend.vote(b, 100n)).toMatchObject({ vote: "low", fence: 100n });
    expect(await backend.vote(b, 101n)).toMatchObject({ vote: "granted" });
    await backend.release(b);
    expect(((await backend.attempt(claim("x"))) as Granted).fence).toBe(102n);
  });
});

describe("openBackend()", () => {
  test("shares a store among equal URLs, and none among different ones", async () => {
    const [a, sameAsA, b] = await Promise.all(["memory:a", "memory:a", "memory:b"].map((url) => openBackend(url)));
    await a?.attempt(claim("x"));
    expect(await sameAsA?.attempt(claim("x"))).toMatchObject({ granted: false });
    expect(await b?.attempt(claim("x"))).toMatchObject({ granted: true });
  });

  test("refuses another scheme", async () => {
    await expect(openBackend("redis://localhost")).rejects.toThrow(TypeError);
  });
});
