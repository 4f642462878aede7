/** One marker for all on a server: the longest quarantine holds, for processes that ask for less, and for those that ask for none. */
import type { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import type { Claim, Refused } from "../../../src/contract/backend.ts";
import { startCluster } from "../../../src/lab/servers/cluster.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { type RedisBackend, redis, type RedisOptions } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { libraries } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf } from "./lab.ts";

/** Data and marker are there after a restart; whether they are complete is unknown. */
const KEPT = ["--appendonly", "yes", "--appendfsync", "always"];

function quarantine(maxTtl: number): RedisOptions {
  return { failover: "quarantine", maxTtl, maxLag: 100, checkReplicas: false };
}

/** Grants as soon as the first quarantine is over. */
async function settled(testClients: Clients, server: RedisServer, options: RedisOptions): Promise<RedisBackend> {
  const backend = testClients.backend(server.port, options);
  await backend.endQuarantine();
  const claim = claimOf({ ttlMs: 100, queues: false });
  await granted(backend, claim);
  await backend.release(claim);
  return backend;
}

/** A client that listened before the restart does so again: one that is closed in the middle of that complains. */
async function listening(server: RedisServer, count: number): Promise<void> {
  await eventually("all listen again", async () => {
    const channels = (await server.cli("PUBSUB", "CHANNELS", "*")).split("\n").filter((line) => line !== "");
    return channels.length >= count ? true : undefined;
  });
}

function isQuarantined({ heldBy, quarantineMs }: Refused): boolean {
  // No holder is made up for it.
  return quarantineMs !== undefined && heldBy.length === 0;
}

describe.concurrent("S160: the longest quarantine that any process asked for", () => {
  test("is kept when a process with a shorter one comes", async () => {
    await using server = await startRedis({ args: KEPT });
    await using testClients = new Clients();
    await settled(testClients, server, quarantine(30_000));
    await server.restart();
    const [short, long] = [
      testClients.backend(server.port, quarantine(500)),
      testClients.backend(server.port, quarantine(30_000)),
    ];
    const claim = claimOf({ ttlMs: 500, queues: false });
    // Either may come first after the restart: the longer one is still known.
    const first = await refused(short, claim);
    expect(isQuarantined(first)).toBe(true);
    expect(first.quarantineMs).toBeGreaterThan(20_000);
    await refused(long, rivalOf(claim));
    const again = await refused(short, rivalOf(claim));
    expect(again.quarantineMs).toBeGreaterThan(20_000);
    await listening(server, 3);
  });

  test("begins when the server forgot, also for a process that comes later and asks for more", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    await settled(testClients, server, quarantine(10_000));
    await server.restart();
    const short = testClients.backend(server.port, quarantine(10_000));
    const claim = claimOf({ ttlMs: 500, queues: false });
    expect(isQuarantined(await refused(short, claim))).toBe(true);
    const long = testClients.backend(server.port, quarantine(60_000));
    expect((await refused(long, rivalOf(claim))).quarantineMs).toBeGreaterThan(30_000);
    expect((await refused(short, rivalOf(claim))).quarantineMs).toBeGreaterThan(30_000);
    // An operator who ends the quarantine says which one holds from then on.
    await short.endQuarantine();
    await granted(short, rivalOf(claim));
    await listening(server, 3);
  });

  test.each(Object.values(libraries))("holds for a process that asks for none ($name)", async (library) => {
    await using server = await startRedis({ args: KEPT });
    await using testClients = new Clients();
    const opened = await library.standalone(server.port);
    testClients.later(() => opened.close());
    const plain = testClients.own(redis(opened.client));
    await settled(testClients, server, quarantine(30_000));
    const claim = claimOf({ queues: false });
    // While the server is known, nothing changes.
    await granted(plain, claim);
    await plain.release(claim);
    await server.restart();
    const answer = await eventually("the server is back", () => plain.attempt(rivalOf(claim)).catch(() => undefined));
    if (answer.granted) throw new Error("expected a no");
    expect(isQuarantined(answer)).toBe(true);
    await listening(server, 2);
  });

  test.each<[string, (backend: RedisBackend, held: Claim, next: Claim, fence: bigint) => Promise<unknown>]>([
    ["a release", (backend, held) => backend.release(held)],
    ["a forced end", (backend, held, _, fence) => backend.forceRelease(held.name, fence, "ops", "test")],
    ["a swap", (backend, held, next) => backend.swap(held, rivalOf(next))],
  ])("holds for hand-overs of processes that ask for none: %s", async (_, end) => {
    await using server = await startRedis({ args: KEPT });
    await using testClients = new Clients();
    const plain = testClients.backend(server.port);
    await settled(testClients, server, quarantine(30_000));
    const held = claimOf();
    const waiting = rivalOf(held);
    const { fence } = await granted(plain, held);
    expect(await refused(plain, waiting)).toMatchObject({ position: 1 });
    await server.restart();
    await eventually("the server is back", () => server.cli("PING").catch(() => undefined));
    await eventually("it ends", () =>
      end(plain, held, waiting, fence)
        .then(() => true)
        .catch(() => undefined),
    );
    // Signs of life come meanwhile, and may not let it in either.
    const { held: holders, pending } = await plain.query(held.name);
    expect(holders).toEqual([]);
    expect(pending.length).toBeGreaterThan(0);
    expect(isQuarantined(await refused(plain, waiting))).toBe(true);
    await listening(server, 2);
  });

  test("holds in a cluster too, where a process that asks for none does not name the marker", async () => {
    await using cluster = await startCluster();
    await using testClients = new Clients();
    const opened = await libraries.ioredis5.cluster(cluster);
    testClients.later(() => opened.close());
    const options = quarantine(30_000);
    const [asking, plain] = [testClients.own(redis(opened.client, options)), testClients.own(redis(opened.client))];
    await asking.endQuarantine();
    const held = claimOf();
    await granted(plain, held);
    // As if another node had been promoted: the marker came with the data, and was written by another server.
    const bucket = /\{..\}/.exec(namesOf("holdfast", true).lock(held.name))![0];
    await (opened.client as Redis).hset(`holdfast:${bucket}`, "run", "\nrun_id:another\r");
    const waiting = rivalOf(held);
    await refused(plain, waiting);
    await plain.release(held);
    expect((await plain.query(held.name)).held).toEqual([]);
    expect(isQuarantined(await refused(plain, waiting))).toBe(true);
  });

  test("costs a process that asks for none only a check, and leaves no marker", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const plain = testClients.backend(server.port);
    const claim = claimOf({ ttlMs: 1000 });
    await granted(plain, claim);
    await plain.release(claim);
    expect(await server.cli("KEYS", "*marker*")).toBe("");
  });
});

describe.concurrent("S164: SWAPDB, with a marker in both databases", () => {
  test("is noticed by attempts in either of them", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const options = quarantine(30_000);
    const [zero, one] = [0, 1].map((db) => testClients.backend(server.port, options, { db })) as [
      RedisBackend,
      RedisBackend,
    ];
    const claim = claimOf({ ttlMs: 20_000, queues: false });
    for (const backend of [zero, one]) await backend.endQuarantine();
    await granted(zero, claim);
    await granted(one, { ...claim, name: "another" });
    await server.cli("SWAPDB", "0", "1");
    expect(isQuarantined(await refused(zero, rivalOf(claim)))).toBe(true);
    expect(isQuarantined(await refused(one, rivalOf(claim, { name: "another" })))).toBe(true);
    // And back: what is there now was marked where the other was.
    await server.cli("SWAPDB", "0", "1");
    expect(isQuarantined(await refused(zero, rivalOf(claim, { name: "third" })))).toBe(true);
  });

  test("is noticed by votes, and everything stays in its own database", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const members = [3, 5].map((db) => testClients.backend(server.port, {}, { db })) as [RedisBackend, RedisBackend];
    for (const member of members) {
      await member.join({ quarantineMs: 30_000, allowEviction: false });
      await member.endQuarantine();
    }
    const claim = claimOf();
    expect(await members[0].vote(claim, 5n)).toMatchObject({ vote: "granted" });
    expect(await server.cli("-n", "3", "DBSIZE")).toBe("2");
    expect(await server.cli("-n", "5", "DBSIZE")).toBe("1");
    await server.cli("SWAPDB", "3", "5");
    expect(await members[0].vote(rivalOf(claim), 6n)).toMatchObject({ vote: "recovering" });
    expect(await members[1].vote(rivalOf(claim), 6n)).toMatchObject({ vote: "recovering" });
    expect(await server.cli("-n", "0", "DBSIZE")).toBe("0");
    for (const member of members) {
      await member.endQuarantine();
      expect(await member.vote(rivalOf(claim, { name: "free" }), 7n)).toMatchObject({ vote: "granted" });
    }
  });

  // The marker that comes back is of this server and this database, and knows nothing of what was granted while it was away.
  test("there and back is noticed by attempts, though the marker is the database's own again", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const backend = testClients.backend(server.port, quarantine(30_000));
    await backend.endQuarantine();
    await server.cli("SWAPDB", "0", "1");
    const claim = claimOf({ ttlMs: 20_000, queues: false });
    expect(isQuarantined(await refused(backend, rivalOf(claim)))).toBe(true);
    await backend.endQuarantine();
    await granted(backend, claim);
    await server.cli("SWAPDB", "0", "1");
    expect(isQuarantined(await refused(backend, rivalOf(claim)))).toBe(true);
    // And once more: the other one was away just as well.
    await backend.endQuarantine();
    await granted(backend, rivalOf(claim));
    await server.cli("SWAPDB", "0", "1");
    expect(isQuarantined(await refused(backend, rivalOf(claim)))).toBe(true);
  });

  test("there and back is noticed by votes, also by a longer way", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const member = testClients.backend(server.port, {}, { db: 3 });
    await member.join({ quarantineMs: 30_000, allowEviction: false });
    await member.endQuarantine();
    await server.cli("SWAPDB", "3", "5");
    await server.cli("SWAPDB", "5", "9");
    const claim = claimOf();
    expect(await member.vote(claim, 5n)).toMatchObject({ vote: "recovering" });
    await member.endQuarantine();
    expect(await member.vote(claim, 6n)).toMatchObject({ vote: "granted" });
    expect(await server.cli("-n", "0", "DBSIZE")).toBe("0");
    await server.cli("SWAPDB", "9", "3");
    expect(await member.vote(rivalOf(claim), 7n)).toMatchObject({ vote: "recovering" });
  });
});
