/** What goes wrong on one Redis, by the ids of the fault catalogue (docs/safety.md), and what must hold all the same. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLocks } from "../../../src/core/locks.ts";
import { LockBackendError, LockLostError } from "../../../src/contract/errors.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { makeWallClock } from "../../../src/lab/servers/wall-clock.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, sleep, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis({ args: ["--enable-debug-command", "yes"] });
});
afterAll(() => server.stop());

const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

describe.concurrent("a server that misbehaves", () => {
  test("S14: SCRIPT FLUSH between any two commands changes nothing", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(own.port), testClients.backend(own.port)];
    const admin = testClients.client(own.port);
    const claim = claimOf();
    const waiter = rivalOf(claim);
    const flushed = async <T>(step: () => Promise<T>): Promise<T> => {
      await admin.script("FLUSH");
      return step();
    };
    await flushed(() => granted(a, claim));
    await flushed(() => refused(b, waiter));
    expect((await flushed(() => a.renew([claim])))[0]?.held).toBe(true);
    const next = rivalOf(claim);
    expect((await flushed(() => a.swap(claim, next))).granted).toBe(false);
    await flushed(() => waitFor(b, waiter));
    const { fence } = await granted(b, waiter);
    expect(await flushed(() => a.forceRelease(claim.name, fence, "ops", "test"))).toBe(true);
    await waitFor(a, next);
    expect(await flushed(() => a.release(next))).toBe("held");
  });

  test("S14: a server without scripts is a typed error that says so", async () => {
    await using own = await startRedis({ args: ["--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""] });
    await using testClients = new Clients();
    const backend = testClients.backend(own.port);
    await expect(backend.attempt(claimOf())).rejects.toThrow(/runs no scripts/u);
    await expect(backend.attempt(claimOf())).rejects.toMatchObject({ fatal: true });
  });

  for (const [type, make] of [
    ["string", ["SET", "mine"]],
    ["list", ["RPUSH", "mine"]],
    ["hash of another program", ["HSET", "field", "mine"]],
    ["hash that looks a little like ours", ["HSET", "s", "mine"]],
    ["set", ["SADD", "mine"]],
  ] as const) {
    test(`S15: a ${type} under the lock's key is left untouched, with a typed error`, async () => {
      await using testClients = new Clients();
      const backend = testClients.backend(server.port);
      const client = testClients.client(server.port);
      const claim = claimOf();
      const key = keyOf(claim.name);
      const [command, ...rest] = make;
      await client.call(command, key, ...rest);
      const before = await client.dumpBuffer(key);
      const fatal = {
        name: "LockBackendError",
        fatal: true,
        message: expect.stringContaining("something else") as string,
      };
      await expect(backend.attempt(claim)).rejects.toMatchObject(fatal);
      await expect(backend.release(claim)).rejects.toMatchObject(fatal);
      await expect(backend.swap(claim, rivalOf(claim))).rejects.toMatchObject(fatal);
      await expect(backend.forceRelease(claim.name, 1n, "ops", "test")).rejects.toMatchObject(fatal);
      await expect(backend.vote(claim, 1n)).rejects.toMatchObject(fatal);
      expect((await backend.renew([claim]))[0]?.held).toBe(false);
      expect((await backend.query(claim.name)).held).toEqual([]);
      expect(await client.dumpBuffer(key)).toEqual(before);
      expect(await client.pttl(key)).toBe(-1);
    });
  }

  test("S15: a lease whose key was flushed, deleted or overwritten is lost, and the next fence is greater", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port);
    const client = testClients.client(server.port);
    for (const harm of ["DEL", "SET"] as const) {
      const claim = claimOf();
      const { fence, run } = await granted(backend, claim);
      await (harm === "DEL" ? client.del(keyOf(claim.name)) : client.set(keyOf(claim.name), "mine"));
      expect((await backend.renew([claim]))[0]?.held).toBe(false);
      await client.del(keyOf(claim.name));
      expect((await granted(backend, rivalOf(claim))).fence).toBeGreaterThanOrEqual(fence + BigInt(run));
    }
  });

  test("S15: an evicted lock is noticed at the next renewal, and its successor has a greater fence", async () => {
    await using own = await startRedis({ args: ["--maxmemory", "2mb", "--maxmemory-policy", "allkeys-random"] });
    await using testClients = new Clients();
    const backend = testClients.backend(own.port);
    const client = testClients.client(own.port);
    const claim = claimOf();
    const { fence } = await granted(backend, claim);
    await eventually("the lock is evicted", async () => {
      const fill = Array.from({ length: 200 }, (_, i) => client.set(`fill:${Math.random()}:${i}`, "x".repeat(2000)));
      await Promise.all(fill);
      return (await client.exists(keyOf(claim.name))) === 0 ? true : undefined;
    });
    const [renewal] = await backend.renew([claim]);
    expect(renewal).toMatchObject({ held: false });
    expect((await granted(backend, rivalOf(claim))).fence).toBeGreaterThan(fence);
  });

  test("S15: a full server (noeviction) takes no new lease, says why, and still renews, hands over and releases", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const backend = testClients.backend(own.port);
    const client = testClients.client(own.port);
    const [alone, crowded] = [claimOf(), claimOf()];
    const [waiter, voted] = [rivalOf(crowded), claimOf()];
    await granted(backend, alone);
    await granted(backend, crowded);
    await refused(backend, waiter);
    await backend.join({ quarantineMs: 0, allowEviction: false });
    expect(await backend.vote(voted, 5n)).toMatchObject({ vote: "granted" });
    await client.config("SET", "maxmemory", "1");
    await expect(backend.attempt(claimOf())).rejects.toThrow(/full \(maxmemory\)/u);
    expect((await backend.renew([alone, crowded, voted])).map(({ held }) => held)).toEqual([true, true, true]);
    expect(await backend.release(alone)).toBe("held");
    expect(await backend.release(crowded)).toBe("held");
    expect(await backend.release(voted)).toBe("held");
    expect((await backend.query(crowded.name)).held).toHaveLength(1);
    for (const { name } of [alone, voted]) expect((await backend.query(name)).held).toEqual([]);
    await client.config("SET", "maxmemory", "0");
    await granted(backend, waiter);
  });

  test("S13: a server that pauses longer than a command may take leaves no zombie behind", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const backend = testClients.backend(own.port, {}, { commandTimeout: 150 });
    const near = testClients.backend(own.port);
    const locks = createLocks(backend, { ttl: 4000 });
    testClients.later(() => locks.close());
    const held = await locks.acquire("held");
    await admin.call("CLIENT", "PAUSE", "3000", "WRITE");
    // Acquire, renew and release all meet the pause.
    await expect(locks.acquire("other", { wait: 200 })).rejects.toThrow();
    expect(await held.release()).not.toBe("lost");
    await eventually("nothing is left", async () => {
      const { held: left, pending } = await near.query("");
      return left.length + pending.length === 0 ? true : undefined;
    });
    await granted(near, claimOf({ name: "held" }));
    await granted(near, claimOf({ name: "other" }));
  });

  test("S16: a server's clock that jumps ahead ends leases early: lost at the next renewal, and the next fence is greater", async () => {
    const wallClock = await makeWallClock();
    await using own = await startRedis({ env: wallClock.env });
    await using testClients = new Clients();
    testClients.later(() => wallClock.stop());
    const backend = testClients.backend(own.port);
    const claim = claimOf();
    const { fence } = await granted(backend, claim);
    wallClock.jump(3_600_000);
    const successor = await granted(backend, rivalOf(claim));
    expect(successor.fence).toBeGreaterThan(fence);
    expect((await backend.renew([claim]))[0]?.held).toBe(false);
    expect(await backend.release(claim)).toBe("absent");
  });

  test("S16: a server's clock that is set back makes leases last longer, and fences still rise", async () => {
    const wallClock = await makeWallClock();
    await using own = await startRedis({ env: wallClock.env });
    await using testClients = new Clients();
    testClients.later(() => wallClock.stop());
    const backend = testClients.backend(own.port);
    const claim = claimOf({ ttlMs: 1000 });
    // A lock that was used before takes the short way.
    await granted(backend, claim);
    await backend.release(claim);
    const { fence, run } = await granted(backend, claim);
    wallClock.jump(-600_000);
    await refused(backend, rivalOf(claim, { queues: false }));
    expect(await backend.release(claim)).toBe("held");
    expect((await granted(backend, rivalOf(claim))).fence).toBeGreaterThanOrEqual(fence + BigInt(run));
  });

  test("a server that writes every change to disk still knows the lease after it was killed", async () => {
    await using own = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
    await using testClients = new Clients();
    const backend = testClients.backend(own.port);
    const [alone, shared] = [claimOf(), claimOf({ mode: "shared" })];
    await granted(backend, alone);
    await granted(backend, shared);
    await own.restart();
    await refused(backend, rivalOf(alone, { queues: false }));
    expect((await backend.renew([alone, shared])).map(({ held }) => held)).toEqual([true, true]);
  });

  test("a server that came back empty is noticed at the reconnect, not a third of a ttl later", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const locks = createLocks(testClients.backend(own.port), { ttl: "10m" });
    testClients.later(() => locks.close());
    const lease = await locks.acquire("held");
    await own.restart();
    await eventually("the loss is reported", () => (lease.signal.aborted ? true : undefined));
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    const next = await locks.acquire("held");
    expect(next.fence).toBeGreaterThan(lease.fence);
    await next.release();
  });
});

test("S01: a release after the lease's time is over says so, alone or not, though no other claim came in between", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const claims = [claimOf({ ttlMs: 40 }), claimOf({ ttlMs: 40, mode: "shared" })];
  for (const claim of claims) await granted(backend, claim);
  await sleep(80);
  for (const claim of claims) expect(await backend.release(claim)).toBe("absent");
});

test("a fence is never below the server's clock, on a new lock, a used one, or a hand-over", async () => {
  await using testClients = new Clients();
  const [backend, client] = [testClients.backend(server.port), testClients.client(server.port)];
  const clockUs = async (): Promise<bigint> => {
    const [seconds = 0, micros = 0] = await client.time();
    return BigInt(seconds) * 1_000_000n + BigInt(micros);
  };
  const claim = claimOf();
  for (let i = 0; i < 3; i++) {
    const beforeUs = await clockUs();
    expect((await granted(backend, claim)).fence).toBeGreaterThanOrEqual(beforeUs);
    await backend.release(claim);
  }
});

test("S18: one bad key in a batch of 1,000 renewals harms no other, and few round trips do it", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const backend = testClients.backend(own.port);
  const client = testClients.client(own.port);
  const claims = Array.from({ length: 1000 }, () => claimOf());
  await Promise.all(claims.map((claim) => granted(backend, claim)));
  const [bad, gone] = [claims[500], claims[700]] as [(typeof claims)[0], (typeof claims)[0]];
  await client.set(keyOf(bad.name), "mine");
  await backend.release(gone);
  await client.config("RESETSTAT");
  const renewals = await backend.renew(claims);
  const calls = /cmdstat_evalsha:calls=(\d+)/u.exec(await client.info("commandstats"))?.[1];
  expect(Number(calls)).toBeLessThanOrEqual(4);
  const no = renewals.flatMap(({ held }, index) => (held === true ? [] : [claims[index]?.id]));
  expect(no).toEqual([bad.id, gone.id]);
});

test("S25: writes refused in the middle of a hold make renewals unknown, and the holder learns of it", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const client = testClients.client(own.port);
  const locks = createLocks(redis(client), { ttl: 900 });
  testClients.later(() => locks.close({ force: true, grace: 1 }));
  const lease = await locks.acquire("held");
  await client.config("SET", "min-replicas-to-write", "1");
  await eventually("the loss is reported", () => (lease.signal.aborted ? true : undefined));
  await expect(testClients.backend(own.port).attempt(claimOf())).rejects.toThrow(LockBackendError);
});
