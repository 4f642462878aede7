/** What goes wrong on one Redis, by the ids of the fault catalogue (docs/safety.md), and what must hold all the same. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLocks } from "../../src/locks.ts";
import { LockBackendError, LockLostError } from "../../src/errors.ts";
import { type Proxy, startProxy } from "../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { redis } from "../../src/redis/index.ts";
import { namesOf } from "../../src/redis/names.ts";
import { claimOf, Desk, eventually, granted, immortalKeys, refused, rivalOf, sleep, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis({ args: ["--enable-debug-command", "yes"] });
});
afterAll(() => server.stop());

const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

/** A backend whose connections go through a proxy, and one that does not. */
async function throughProxy(desk: Desk): Promise<{ proxy: Proxy; port: number }> {
  const proxy = await startProxy({ port: server.port });
  desk.later(() => proxy.stop());
  return { proxy, port: proxy.port };
}

/** Loses the reply to the next script call that mentions `text`, and cuts that connection. */
function loseReplyTo(proxy: Proxy, text: string): Promise<void> {
  return new Promise((resolve) => {
    let connection: number | undefined;
    proxy.onRequest = (chunk, id) => {
      if (connection === undefined && chunk.includes(text)) connection = id;
      return undefined;
    };
    proxy.onReply = (_, id) => {
      if (id !== connection) return undefined;
      proxy.onRequest = undefined;
      proxy.onReply = undefined;
      resolve();
      return "reset";
    };
  });
}

describe.concurrent("lost replies", () => {
  test("S09: a lost reply to acquire makes one hold, freed by one release", async () => {
    await using desk = new Desk();
    const { proxy, port } = await throughProxy(desk);
    const [near, far] = [desk.backend(server.port), desk.backend(port)];
    await granted(far, claimOf());
    const claim = claimOf();
    const lost = loseReplyTo(proxy, claim.id);
    // The client asks again by itself, on a new connection, with the same claim.
    const { fence } = await granted(far, claim);
    await lost;
    const { held } = await near.query(claim.name);
    expect(held.map((holding) => holding.fence)).toEqual([fence]);
    expect(await far.release(claim)).toBe(true);
    await granted(near, rivalOf(claim));
  });

  test("S10: a lost reply to release is no “not yours”: the core reports released", async () => {
    await using desk = new Desk();
    const { proxy, port } = await throughProxy(desk);
    const options = { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false };
    const locks = createLocks(desk.backend(port, {}, options), { ttl: "60s" });
    desk.later(() => locks.close());
    const name = claimOf().name;
    const lease = await locks.acquire(name);
    const lost = loseReplyTo(proxy, name);
    expect(await lease.release()).toBe("released");
    await lost;
    await granted(desk.backend(server.port), claimOf({ name }));
  });

  test("S11: a lost reply to a renewal is neither yes nor no, and the next one tells", async () => {
    await using desk = new Desk();
    const { proxy, port } = await throughProxy(desk);
    const options = { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false };
    const backend = desk.backend(port, {}, options);
    const claim = claimOf();
    await granted(backend, claim);
    const lost = loseReplyTo(proxy, claim.id);
    const [unknown] = await backend.renew([claim]);
    await lost;
    expect(unknown?.held).toBe("unknown");
    const [again] = await eventually("a yes", async () => {
      const answers = await backend.renew([claim]);
      return answers[0]?.held === true ? answers : undefined;
    });
    expect(again?.held).toBe(true);
  });

  test("S12: a grant that comes after the caller stopped waiting is given back", async () => {
    await using desk = new Desk();
    const { proxy, port } = await throughProxy(desk);
    const locks = createLocks(desk.backend(port), { ttl: "60s" });
    desk.later(() => locks.close());
    const name = claimOf().name;
    await locks.run("warm", () => undefined);
    const near = desk.backend(server.port);
    proxy.hang("replies");
    const acquiring = expect(locks.acquire(name, { wait: 500 })).rejects.toThrow();
    await eventually("the server granted it", async () => (await near.query(name)).held[0]);
    await acquiring;
    await proxy.heal();
    await eventually("nothing is left", async () => {
      const { held, pending } = await near.query(name);
      return held.length + pending.length === 0 ? true : undefined;
    });
  });

  test("S53, S09: a grant whose message and whose hand-over reply are lost is found by the next sign of life", async () => {
    await using desk = new Desk();
    const { proxy, port } = await throughProxy(desk);
    const [near, far] = [desk.backend(server.port), desk.backend(port)];
    const holder = claimOf({ ttlMs: 1500 });
    const waiter = rivalOf(holder);
    await granted(near, holder);
    await refused(far, waiter);
    proxy.onReply = (chunk) => (chunk.includes("granted ") ? "reset" : undefined);
    const watching = far.watch(waiter, AbortSignal.timeout(10_000));
    await near.release(holder);
    const news = await watching;
    const fence = news?.fence ?? (await granted(far, waiter)).fence;
    expect((await near.query(holder.name)).held.map((holding) => holding.fence)).toEqual([fence]);
  });
});

describe.concurrent("a server that misbehaves", () => {
  test("S14: SCRIPT FLUSH between any two commands changes nothing", async () => {
    await using own = await startRedis();
    await using desk = new Desk();
    const [a, b] = [desk.backend(own.port), desk.backend(own.port)];
    const admin = desk.client(own.port);
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
    expect(await flushed(() => a.release(next))).toBe(true);
  });

  test("S14: a server without scripts is a typed error that says so", async () => {
    await using own = await startRedis({ args: ["--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""] });
    await using desk = new Desk();
    const backend = desk.backend(own.port);
    await expect(backend.attempt(claimOf())).rejects.toThrow(/runs no scripts/u);
    await expect(backend.attempt(claimOf())).rejects.toMatchObject({ fatal: true });
  });

  for (const [type, make] of [
    ["string", ["SET", "mine"]],
    ["list", ["RPUSH", "mine"]],
    ["hash of somebody else", ["HSET", "field", "mine"]],
    ["hash that looks a little like ours", ["HSET", "s", "mine"]],
    ["set", ["SADD", "mine"]],
  ] as const) {
    test(`S15: a ${type} under the lock's key is left untouched, with a typed error`, async () => {
      await using desk = new Desk();
      const backend = desk.backend(server.port);
      const client = desk.client(server.port);
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
    await using desk = new Desk();
    const backend = desk.backend(server.port);
    const client = desk.client(server.port);
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
    await using desk = new Desk();
    const backend = desk.backend(own.port);
    const client = desk.client(own.port);
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
    await using desk = new Desk();
    const backend = desk.backend(own.port);
    const client = desk.client(own.port);
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
    expect(await backend.release(alone)).toBe(true);
    expect(await backend.release(crowded)).toBe(true);
    expect(await backend.release(voted)).toBe(true);
    expect((await backend.query(crowded.name)).held).toHaveLength(1);
    await client.config("SET", "maxmemory", "0");
    await granted(backend, waiter);
  });

  test("S13: a server that pauses longer than a command may take leaves no zombie behind", async () => {
    await using own = await startRedis();
    await using desk = new Desk();
    const admin = desk.client(own.port);
    const backend = desk.backend(own.port, {}, { commandTimeout: 150 });
    const near = desk.backend(own.port);
    const locks = createLocks(backend, { ttl: 1200 });
    desk.later(() => locks.close());
    const held = await locks.acquire("held");
    await admin.call("CLIENT", "PAUSE", "700", "WRITE");
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

  test("S16: a lease that the server's clock ended early is lost at the next renewal, with a greater fence for the next", async () => {
    await using desk = new Desk();
    const backend = desk.backend(server.port);
    const client = desk.client(server.port);
    const claim = claimOf();
    const { fence } = await granted(backend, claim);
    await client.pexpire(keyOf(claim.name), 1);
    await sleep(20);
    const successor = await granted(backend, rivalOf(claim));
    expect(successor.fence).toBeGreaterThan(fence);
    expect((await backend.renew([claim]))[0]?.held).toBe(false);
    expect(await backend.release(claim)).toBe(false);
  });

  test("a server that came back empty is noticed at the reconnect, not a third of a ttl later", async () => {
    await using own = await startRedis();
    await using desk = new Desk();
    const locks = createLocks(desk.backend(own.port), { ttl: "10m" });
    desk.later(() => locks.close());
    const lease = await locks.acquire("held");
    await own.restart();
    await eventually("the loss is told", () => (lease.signal.aborted ? true : undefined));
    expect(lease.signal.reason).toBeInstanceOf(LockLostError);
    const next = await locks.acquire("held");
    expect(next.fence).toBeGreaterThan(lease.fence);
    await next.release();
  });
});

describe.concurrent("keys", () => {
  test("S08, O6: no key is ever without a ttl, and an idle lock keeps nothing but its fence", async () => {
    await using own = await startRedis();
    await using desk = new Desk();
    const client = desk.client(own.port);
    const backend = desk.backend(own.port, { idle: "1s" });
    const claims = [claimOf({ minHoldMs: 200 }), claimOf({ mode: "shared" }), claimOf({ limit: 3 }), claimOf()];
    for (const claim of claims) {
      await granted(backend, claim);
      expect(await immortalKeys(client)).toEqual([]);
      await backend.attempt(rivalOf(claim));
      expect(await immortalKeys(client)).toEqual([]);
    }
    const forced = claims[3] as (typeof claims)[0];
    const [holding] = (await backend.query(forced.name)).held;
    await backend.forceRelease(forced.name, holding?.fence as bigint, "ops", "test");
    expect(await immortalKeys(client)).toEqual([]);
    await backend.join({ quarantineMs: 100, allowEviction: false });
    await backend.vote(claimOf(), 7n);
    expect(await immortalKeys(client)).toEqual([]);
  });

  test("the idle fence expires, and the next lease still has a greater one", async () => {
    await using own = await startRedis();
    await using desk = new Desk();
    const client = desk.client(own.port);
    const backend = desk.backend(own.port, { idle: 200 });
    const claim = claimOf({ ttlMs: 300 });
    const { fence } = await granted(backend, claim);
    await backend.release(claim);
    expect(await client.exists(keyOf(claim.name))).toBe(1);
    await eventually("the key is gone", async () => ((await client.dbsize()) === 0 ? true : undefined));
    expect((await granted(backend, rivalOf(claim))).fence).toBeGreaterThan(fence);
  });

  test("a lease that is renewed for longer than the idle time keeps its key, alone or not", async () => {
    await using desk = new Desk();
    const backend = desk.backend(server.port, { idle: 100 });
    const claims = [claimOf({ ttlMs: 400 }), claimOf({ ttlMs: 400, limit: 2 })];
    for (const claim of claims) await granted(backend, claim);
    for (let i = 0; i < 8; i++) {
      await sleep(150);
      const renewals = await backend.renew(claims);
      expect(renewals.map(({ held }) => held)).toEqual([true, true]);
    }
  });

  test("a waiter with a short ttl does not shorten the life of a holder's key", async () => {
    await using desk = new Desk();
    const backend = desk.backend(server.port, { idle: 100 });
    const holder = claimOf({ limit: 2, ttlMs: 2500 });
    await granted(backend, holder);
    const brief = rivalOf(holder, { ttlMs: 50 });
    await granted(backend, brief);
    await backend.release(brief);
    await sleep(600);
    expect((await backend.renew([holder]))[0]?.held).toBe(true);
  });

  test("prefixes keep deployments apart, and ioredis's own keyPrefix is respected", async () => {
    await using desk = new Desk();
    const name = claimOf().name;
    const options = { keyPrefix: "app:" };
    const backends = [
      desk.backend(server.port),
      desk.backend(server.port, { prefix: "other" }),
      desk.backend(server.port, {}, options),
    ];
    for (const backend of backends) await granted(backend, claimOf({ name }));
    for (const backend of backends) expect((await backend.query(name)).held).toHaveLength(1);
    const prefixed = backends[2] as (typeof backends)[0];
    const waiter = claimOf({ name });
    await refused(prefixed, waiter);
    const [holding] = (await prefixed.query(name)).held;
    const watching = prefixed.watch(waiter, AbortSignal.timeout(10_000));
    expect(await prefixed.forceRelease(name, holding?.fence as bigint, "ops", "test")).toBe(true);
    expect(await watching).toMatchObject({ granted: true });
  });
});

test("S18: one bad key in a batch of 1,000 renewals harms no other, and few round trips do it", async () => {
  await using own = await startRedis();
  await using desk = new Desk();
  const backend = desk.backend(own.port);
  const client = desk.client(own.port);
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

test("S25: writes refused in the middle of a hold make renewals unknown, and the holder is told before its ttl ends", async () => {
  await using own = await startRedis();
  await using desk = new Desk();
  const client = desk.client(own.port);
  const locks = createLocks(redis(client), { ttl: 900 });
  desk.later(() => locks.close({ force: true, grace: 1 }));
  const lease = await locks.acquire("held");
  await client.config("SET", "min-replicas-to-write", "1");
  await eventually("the loss is told", () => (lease.signal.aborted ? true : undefined));
  // The store still holds it: belief ended first.
  expect((await desk.backend(own.port).query("held")).held).toHaveLength(1);
  await expect(desk.backend(own.port).attempt(claimOf())).rejects.toThrow(LockBackendError);
});
