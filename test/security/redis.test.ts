/** The Redis recipes of SECURITY.md on real servers, in every topology: the rights suffice, and one zone cannot touch another. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend } from "../../src/contract/backend.ts";
import { redisMarks } from "../../src/fence/redis/index.ts";
import { createLocks, openBackend } from "../../src/index.ts";
import { startCluster } from "../../src/lab/servers/cluster.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { startSentinels } from "../../src/lab/servers/sentinels.ts";
import { namesOf } from "../../src/backends/redis/keys.ts";
import { claimOf, granted, refused, rivalOf, waitFor } from "../backends/redis/lab.ts";
import { makeUsers, passwordOf, rights, usedAt, type Zone } from "./recipes.ts";

type Kind = "data" | "cluster" | "sentinel";

interface Place {
  /** A URL of this zone's user; `prefix`: whose locks. */
  url(zone: Zone, prefix: Zone): string;
  /** Servers that hold keys. */
  readonly data: readonly RedisServer[];
  /** All servers that clients talk to, by the recipe that holds there. */
  readonly asked: Readonly<Partial<Record<Kind, readonly RedisServer[]>>>;
  stop(): Promise<unknown>;
}

/** In a cluster another node may be the one to say no. */
const REFUSED = /NOPERM|The user executing the script can't|MOVED/;

const login = (zone: Zone): string => `${zone}:${passwordOf(zone)}@`;
const hosts = (servers: readonly RedisServer[]): string => servers.map(({ port }) => `127.0.0.1:${port}`).join(",");

/** What was asked for at any server, by recipe. */
const used: Readonly<Record<Kind, Set<string>>> = { data: new Set(), cluster: new Set(), sentinel: new Set() };

const topologies: Readonly<Record<string, () => Promise<Place>>> = {
  standalone: async () => {
    const server = await startRedis();
    await makeUsers(server, "data");
    return {
      url: (zone, prefix) => `redis://${login(zone)}${hosts([server])}?prefix=${prefix}`,
      data: [server],
      asked: { data: [server] },
      stop: () => server.stop(),
    };
  },
  Sentinel: async () => {
    const lab = await startSentinels();
    const data = [lab.primary, ...lab.replicas];
    for (const server of data) await makeUsers(server, "data");
    for (const sentinel of lab.sentinels) await makeUsers(sentinel, "sentinel");
    const sentinelOf = (zone: Zone): string => `sentinelUser=${zone}&sentinelPassword=${passwordOf(zone)}`;
    return {
      url: (zone, prefix) =>
        `redis+sentinel://${login(zone)}${hosts(lab.sentinels)}/${lab.service}?prefix=${prefix}&${sentinelOf(zone)}`,
      data: [lab.primary],
      asked: { data: [lab.primary], sentinel: lab.sentinels },
      stop: () => lab.stop(),
    };
  },
  Cluster: async () => {
    const lab = await startCluster();
    for (const node of lab.nodes) await makeUsers(node, "cluster");
    return {
      url: (zone, prefix) => `redis+cluster://${login(zone)}${hosts(lab.nodes)}?prefix=${prefix}`,
      data: lab.nodes.slice(0, 3),
      asked: { cluster: lab.nodes },
      stop: () => lab.stop(),
    };
  },
  quorum: async () => {
    const servers = await Promise.all([startRedis(), startRedis(), startRedis()]);
    for (const server of servers) await makeUsers(server, "data");
    return {
      url: (zone, prefix) => `redlock://${login(zone)}${hosts(servers)}?prefix=${prefix}&durable=true&memberWait=2s`,
      data: servers,
      asked: { data: servers },
      stop: () => Promise.all(servers.map((server) => server.stop())),
    };
  },
};

describe.each(Object.keys(topologies))("%s", (topology) => {
  let place: Place;
  const opened: Backend[] = [];

  beforeAll(async () => {
    place = await (topologies[topology] as () => Promise<Place>)();
  });

  afterAll(async () => {
    for (const [kind, servers] of Object.entries(place?.asked ?? {})) {
      for (const server of servers) for (const command of await usedAt(server)) used[kind as Kind].add(command);
    }
    for (const backend of opened) await backend.close().catch(() => undefined);
    await place?.stop();
  });

  async function open(client: string, zone: Zone, prefix: Zone = zone): Promise<Backend> {
    const backend = await openBackend(`${place.url(zone, prefix)}&client=${client}`);
    opened.push(backend);
    return backend;
  }

  test.each(["ioredis", "redis"])(
    "the zone's own user has all the rights that locks need: %s (S171)",
    async (client) => {
      const [a, b] = [await open(client, "billing"), await open(client, "billing")];
      const first = claimOf({ ttlMs: 20_000, name: `invoice:${client}` });
      const second = rivalOf(first);
      const { fence } = await granted(a, first);
      await refused(b, second);
      expect(await a.renew([first])).toMatchObject([{ held: true }]);
      expect((await b.query(first.name)).held).toMatchObject([{ name: first.name }]);
      await a.release(first);
      const next = await waitFor(b, second);
      expect(next.fence).toBeGreaterThan(fence);
      const third = rivalOf(first);
      await b.swap?.(second, third);
      await b.release(third);
      const forced = await granted(a, rivalOf(first));
      expect(await b.forceRelease(first.name, forced.fence, "ops", "stuck")).toBe(true);
      expect((await a.query(first.name)).forced).toMatchObject([{ reason: "stuck" }]);
      const reader = claimOf({ ttlMs: 20_000, name: `catalog:${client}`, mode: "shared" });
      if (topology !== "quorum") {
        await granted(a, reader);
        await granted(b, rivalOf(reader));
        const limited = claimOf({ ttlMs: 20_000, name: `import:${client}`, limit: 2 });
        for (const one of [limited, rivalOf(limited)]) await granted(a, one);
        await refused(b, rivalOf(limited));
      }
      const locks = createLocks(await open(client, "billing"));
      await Promise.all(
        [1, 2, 3].map(() => locks.run(["x", "y"], { wait: "20s" }, async ({ fences }) => expect(fences.size).toBe(2))),
      );
    },
  );

  test.each(["ioredis", "redis"])("another zone's user can touch nothing: %s (S171)", async (client) => {
    const owner = await open(client, "billing");
    const one = claimOf({ ttlMs: 20_000, name: `mine:${client}` });
    const { fence } = await granted(owner, one);
    const thief = await open(client, "search", "billing").catch(() => undefined);
    if (thief !== undefined) {
      for (const deed of [
        () => thief.attempt(rivalOf(one)),
        () => thief.forceRelease(one.name, fence, "me", "mine now"),
      ]) {
        await expect(deed()).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND" });
      }
      // A quorum asks no member about a claim that it does not know.
      expect(await thief.release(one).catch(() => "refused")).not.toBe("held");
      expect(await thief.renew([one]).catch(() => [{ held: "unknown" }])).not.toMatchObject([{ held: true }]);
    }
    expect(await owner.renew([one])).toMatchObject([{ held: true }]);
    await granted(await open(client, "search"), claimOf({ ttlMs: 20_000, name: one.name }));
  });

  test("neither by key nor by channel, at any server (S171)", async () => {
    const key = namesOf("billing", topology === "Cluster").lock("x");
    for (const { port } of place.data) {
      const thief = new Redis({
        port,
        host: "127.0.0.1",
        username: "search",
        password: passwordOf("search"),
        enableReadyCheck: false,
      });
      try {
        const deeds: readonly (readonly [string, ...string[]])[] = [
          ["HGETALL", key],
          ["HSET", key, "a", "1"],
          ["EVAL", "return redis.call('HGETALL', KEYS[1])", "1", key],
          ["PUBLISH", "billing:inbox:x", "granted"],
          ["EVAL", "return redis.call('PUBLISH', 'billing:inbox:x', 'granted')", "1", "search:{00}:x"],
          ["SUBSCRIBE", "billing:inbox:x"],
          ["FLUSHALL"],
          ["KEYS", "*"],
          ["CONFIG", "GET", "*"],
          ["ACL", "LIST"],
        ];
        for (const [command, ...args] of deeds) {
          await expect(thief.call(command, ...args), command).rejects.toThrow(REFUSED);
        }
      } finally {
        thief.disconnect();
      }
    }
  });
});

/** Rights that this run does not use, and why they are there. */
const FOR_OTHERS: Readonly<Record<"data" | "cluster", readonly string[]>> = {
  // Another database than 0; `durability`; scripts before WAIT; the queue's own reads; lost subscriptions.
  data: ["select", "wait", "script|load", "hkeys", "unsubscribe", "ping"],
  // Besides: a slot that is being moved.
  cluster: ["select", "wait", "script|load", "hkeys", "unsubscribe", "ping", "asking"],
};

test.each(["data", "cluster"] as const)("the recipe for %s gives no right that nothing needs", (kind) => {
  const idle = rights(kind).filter((right) => !used[kind].has(right) && !FOR_OTHERS[kind].includes(right));
  expect(idle).toEqual([]);
});

test("guards keep to their zone by its prefix", async () => {
  await using server = await startRedis();
  await makeUsers(server, "data");
  for (const zone of ["billing", "search"]) await server.cli("ACL", "SETUSER", zone, "+get", "+set");
  const client = new Redis({
    port: server.port,
    host: "127.0.0.1",
    username: "billing",
    password: passwordOf("billing"),
  });
  try {
    expect(await redisMarks(client, { prefix: "billing" }).advance("invoice:1", 34n)).toBe(34n);
    expect(await redisMarks(client, { prefix: "billing" }).advance("invoice:1", 33n)).toBe(34n);
    await expect(redisMarks(client, { prefix: "search" }).advance("invoice:1", 34n)).rejects.toThrow(
      /NOPERM|permission/i,
    );
    await expect(redisMarks(client).advance("invoice:1", 34n)).rejects.toThrow(/NOPERM|permission/i);
  } finally {
    client.disconnect();
  }
});
