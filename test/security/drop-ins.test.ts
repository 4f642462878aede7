/** The recipes of SECURITY.md for the drop-ins: the rights suffice, none is there that nothing needs, and one zone cannot touch another. */
import { LockFactory } from "@verrou/core";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { redis, type RedisClient } from "../../src/backends/redis/index.ts";
import { createLocks } from "../../src/core/locks.ts";
import { MultiSemaphore, Mutex, RedlockMutex, Semaphore } from "../../src/drop-ins/redis-semaphore/index.ts";
import Redlock, { Lock } from "../../src/drop-ins/redlock/index.ts";
import { holdfastStore } from "../../src/drop-ins/verrou/index.ts";
import { webLocks } from "../../src/drop-ins/web-locks/index.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { type Kind, makeUsers, passwordOf, rights, usedAt, type Zone } from "./recipes.ts";

const REFUSED = /NOPERM|The user executing the script can't/u;
const CLIENTS = ["ioredis", "redis"] as const;
/** node-redis by its methods, which the drop-in's type of a client does not list. */
type Opened = Redis & RedisClient;

const closing: (() => unknown)[] = [];
const servers: Partial<Record<Kind, RedisServer>> = {};
beforeAll(async () => {
  for (const kind of ["redlock", "redis-semaphore", "data"] as const) {
    const server = await startRedis();
    closing.push(() => server.stop());
    servers[kind] = server;
    await makeUsers(server, kind);
    await server.cli("CONFIG", "RESETSTAT");
  }
});
afterAll(async () => {
  for (const close of closing.toReversed()) await close();
});

async function open(library: (typeof CLIENTS)[number], kind: Kind, zone: Zone): Promise<Opened> {
  const { host, port } = servers[kind] as RedisServer;
  const login = { username: zone, password: passwordOf(zone) };
  if (library === "ioredis") {
    const client = new Redis({ host, port, ...login });
    closing.push(() => client.disconnect());
    return client as Opened;
  }
  const client = createClient({ ...login, socket: { host, port } });
  client.on("error", () => undefined);
  await client.connect();
  closing.push(() => client.destroy());
  return client as unknown as Opened;
}

/** What a stranger may not do to the keys of billing. */
async function cannotTouch(kind: Kind, key: string): Promise<void> {
  const thief = await open("ioredis", kind, "search");
  const deeds = [
    ["GET", key],
    ["SET", key, "mine"],
    ["DEL", key],
    ["EVAL", "return redis.call('DEL', KEYS[1])", "1", key],
    ["EVAL", `return redis.call('DEL', '${key}')`, "0"],
    ["FLUSHALL"],
    ["SCAN", "0"],
  ] as const;
  for (const [command, ...args] of deeds) {
    await expect(thief.call(command, ...args), command).rejects.toThrow(REFUSED);
  }
}

describe.each(CLIENTS)("with %s", (library) => {
  test("holdfast/redlock: the zone's own user has all the rights that it needs, and another's none", async () => {
    const redlock = new Redlock([await open(library, "redlock", "billing")], { retryCount: 0 });
    const resources = [`billing:a:${library}`, `billing:b:${library}`];
    const lock = await (await redlock.acquire(resources, 5000)).extend(6000);
    const thief = new Redlock([await open(library, "redlock", "search")], { retryCount: 0 });
    await expect(thief.acquire([`billing:c:${library}`], 5000)).rejects.toThrow();
    await expect(new Lock(thief, lock.resources, lock.value, [], lock.expiration).release()).rejects.toThrow();
    await lock.extend(5000);
    await lock.release();
    const alone = await redlock.using([`billing:d:${library}`], 5000, async () => "done");
    expect(alone).toBe("done");
    const fenced = await redlock.acquire([`billing:e:${library}`], 5000);
    expect(fenced.fence).toBeGreaterThan(0n);
    await (await thief.acquire([`search:a:${library}`], 5000)).release();
  });

  test("holdfast/redis-semaphore: the zone's own user has all the rights that it needs, and another's none", async () => {
    const [client, strange] = [
      await open(library, "redis-semaphore", "billing"),
      await open(library, "redis-semaphore", "search"),
    ];
    const key = `billing:${library}`;
    const options = { acquireAttemptsLimit: 1, identifier: "me", refreshInterval: 0 };
    const makers = [
      (of: Opened, more = {}) => new Mutex(of, key, { ...options, ...more }),
      (of: Opened, more = {}) => new RedlockMutex([of], `${key}:several`, { ...options, ...more }),
      (of: Opened, more = {}) => new Semaphore(of, key, 2, { ...options, ...more }),
      (of: Opened, more = {}) => new MultiSemaphore(of, `${key}:several`, 4, 2, { ...options, ...more }),
    ];
    for (const make of makers) {
      const one = make(client);
      await one.acquire();
      // It refreshes what the first one has.
      const same = make(client, { acquiredExternally: true });
      await same.acquire();
      expect(
        await make(strange)
          .tryAcquire()
          .catch(() => false),
      ).toBe(false);
      expect(
        await make(strange, { acquiredExternally: true })
          .tryAcquire()
          .catch(() => false),
      ).toBe(false);
      await make(strange, { acquiredExternally: true })
        .release()
        .catch(() => undefined);
      expect(await make(client, { identifier: "other" }).tryAcquire()).toBe(one instanceof Semaphore);
      await same.release();
    }
    await new Mutex(strange, `search:${library}`, options).acquire();
  });

  test("with locks, holdfast/redlock, redis-semaphore, verrou and web-locks need what the store needs", async () => {
    const locks = createLocks(redis(await open(library, "data", "billing"), { prefix: "billing" }));
    const strange = createLocks(redis(await open(library, "data", "search"), { prefix: "billing" }));
    closing.push(() => Promise.all([locks.close(), strange.close()]));
    // The rights of the client count for nothing: it is not asked.
    const client = await open("ioredis", "redlock", "search");
    const name = `clean:${library}`;
    const lock = await (await new Redlock([client], { locks }).acquire([name], 5000)).extend(6000);
    await lock.release();
    const mutex = new Mutex(client, name, { locks, refreshInterval: 20 });
    await mutex.acquire();
    await mutex.release();
    const semaphore = new Semaphore(client, name, 2, { locks });
    await semaphore.acquire();
    await semaphore.release();

    const verrou = new LockFactory(holdfastStore(locks).factory()).createLock(name);
    expect(await verrou.acquireImmediately()).toBe(true);
    await verrou.extend("5s");
    expect(await verrou.isLocked()).toBe(true);
    await verrou.forceRelease();

    const manager = webLocks(locks);
    await manager.request(name, { mode: "shared" }, async () => {
      expect((await manager.query()).held).toMatchObject([{ name, mode: "shared" }]);
    });
    let end = (): void => undefined;
    const over = new Promise<void>((resolve) => (end = resolve));
    const thrown = manager.request(name, () => over).catch((error: unknown) => error);
    await manager.request(name, { steal: true }, () => undefined);
    expect(await thrown).toMatchObject({ name: "AbortError" });
    end();

    await expect(webLocks(strange).request(name, () => undefined)).rejects.toThrow();
    await expect(new Redlock([client], { locks: strange, retryCount: 0 }).acquire([name], 5000)).rejects.toThrow();
  });
});

test("neither by hand", async () => {
  await cannotTouch("redlock", "billing:a");
  await cannotTouch("redis-semaphore", "mutex:billing:a");
  await cannotTouch("redis-semaphore", "semaphore:billing:a");
});

test.each(["redlock", "redis-semaphore"] as const)(
  "the recipe for %s gives no right that nothing needs",
  async (kind) => {
    const used = await usedAt(servers[kind] as RedisServer);
    expect(rights(kind).filter((right) => !used.includes(right))).toEqual([]);
  },
);
