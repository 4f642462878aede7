/** What lies in the store: how long it stays, under which names, and what a Redis user must be allowed. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { claimOf, Clients, eventually, granted, immortalKeys, refused, rivalOf, sleep } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

describe.concurrent("keys", () => {
  test("S08, O6: no key is ever without a ttl, and an idle lock keeps nothing but its fence", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const client = testClients.client(own.port);
    const backend = testClients.backend(own.port, { idle: "1s" });
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
    await using testClients = new Clients();
    const client = testClients.client(own.port);
    const backend = testClients.backend(own.port, { idle: 200 });
    const claim = claimOf({ ttlMs: 300 });
    const { fence } = await granted(backend, claim);
    await backend.release(claim);
    expect(await client.exists(keyOf(claim.name))).toBe(1);
    await eventually("the key is gone", async () => ((await client.dbsize()) === 0 ? true : undefined));
    expect((await granted(backend, rivalOf(claim))).fence).toBeGreaterThan(fence);
  });

  test("a lease that is renewed for longer than the idle time keeps its key, alone or not", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port, { idle: 100 });
    const claims = [claimOf({ ttlMs: 2000 }), claimOf({ ttlMs: 2000, limit: 2 })];
    for (const claim of claims) await granted(backend, claim);
    for (let i = 0; i < 4; i++) {
      await sleep(700);
      const renewals = await backend.renew(claims);
      expect(renewals.map(({ held }) => held)).toEqual([true, true]);
    }
  });

  test("a waiter with a short ttl does not shorten the life of a holder's key", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port, { idle: 100 });
    const holder = claimOf({ limit: 2, ttlMs: 2500 });
    await granted(backend, holder);
    const brief = rivalOf(holder, { ttlMs: 50 });
    await granted(backend, brief);
    await backend.release(brief);
    await sleep(600);
    expect((await backend.renew([holder]))[0]?.held).toBe(true);
  });

  test("prefixes keep deployments apart, and ioredis's own keyPrefix is respected", async () => {
    await using testClients = new Clients();
    const name = claimOf().name;
    const options = { keyPrefix: "app:" };
    const backends = [
      testClients.backend(server.port),
      testClients.backend(server.port, { prefix: "other" }),
      testClients.backend(server.port, {}, options),
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

describe("a Redis user", () => {
  const docs = readFileSync(join(import.meta.dirname, "../../../docs/backends/redis.md"), "utf8");
  const allowed = /An ACL needs `([^`]+)`/u.exec(docs)?.[1]?.split(/\s+/u) ?? [];

  test("with the documented permissions can do everything, and nothing less will do for scripts", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    expect(allowed.length).toBeGreaterThan(15);
    await own.cli("ACL", "SETUSER", "app", "on", ">pw", "~holdfast:*", "&holdfast:*", ...allowed);
    const login = { username: "app", password: "pw" };
    const [a, b] = [testClients.backend(own.port, {}, login), testClients.backend(own.port, {}, login)];
    const claim = claimOf();
    const waiter = rivalOf(claim);
    const { fence } = await granted(a, claim);
    await refused(b, waiter);
    expect((await a.renew([claim]))[0]?.held).toBe(true);
    const watching = b.watch(waiter, AbortSignal.timeout(10_000));
    expect(await a.forceRelease(claim.name, fence, "ops", "test")).toBe(true);
    expect(await watching).toMatchObject({ granted: true });
    expect((await a.query(claim.name)).held).toHaveLength(1);
    expect(await b.release(waiter)).toBe("held");
    await a.join({ quarantineMs: 50, allowEviction: false });
    expect(await a.vote(claimOf(), 5n)).toMatchObject({ vote: "recovering" });
    await a.endQuarantine();
    expect(await a.vote(claimOf(), 5n)).toMatchObject({ vote: "granted" });
    await own.cli("ACL", "SETUSER", "app", "-hset");
    await expect(a.attempt(claimOf())).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("may not do this") as string,
    });
  });

  test("whose messages do not come through still gets every lock, after a sign of life", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const rights = allowed.filter((right) => right !== "+subscribe");
    await own.cli("ACL", "SETUSER", "deaf", "on", ">pw", "~holdfast:*", "&holdfast:*", ...rights);
    const options = { username: "deaf", password: "pw" };
    const locks = [1, 2].map(() =>
      createLocks(testClients.backend(own.port, { ticket: "3s" }, options), { ttl: "30s" }),
    );
    for (const each of locks) testClients.later(() => each.close());
    let inside = 0;
    const visits = locks.map((each) => each.run("held", { wait: "20s" }, () => sleep(50).then(() => void inside++)));
    await Promise.all(visits);
    expect(inside).toBe(2);
  });
});
