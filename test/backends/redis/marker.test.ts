/** The incarnation marker: a server that may have forgotten leases notices it by itself, and abstains until they are over. */
import { describe, expect, test } from "vitest";
import type { Vote } from "../../../src/contract/backend.ts";
import { startCluster } from "../../../src/lab/servers/cluster.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { makeWallClock } from "../../../src/lab/servers/wall-clock.ts";
import type { RedisBackend } from "../../../src/backends/redis/index.ts";
import { claimOf, Clients, eventually, waitFor } from "./lab.ts";

/** Long enough that what happens before the first vote cannot outlast it, however busy the machine. */
const QUARANTINE_MS = 6000;
const QUICK_SYNC = ["--repl-diskless-sync-delay", "0"];
const TERMS = { quarantineMs: QUARANTINE_MS, allowEviction: false };

/** A member that has been known for longer than a quarantine. */
async function settled(testClients: Clients, server: RedisServer): Promise<RedisBackend> {
  const member = testClients.backend(server.port);
  await member.join(TERMS);
  await member.endQuarantine();
  expect(await ask(member)).toMatchObject({ vote: "granted" });
  return member;
}

let ballot = BigInt(Date.now()) * 1000n;

function ask(member: RedisBackend): Promise<Vote> {
  return member.vote(claimOf({ ttlMs: 1000 }), (ballot += 1000n));
}

/** Expects a member to abstain for a whole quarantine that began at `sinceMs` or later, and to vote again at last. */
async function abstains(member: RedisBackend, sinceMs: number): Promise<void> {
  const first = await ask(member);
  const passedMs = performance.now() - sinceMs;
  expect(first).toMatchObject({ vote: "recovering" });
  // The server counts in whole milliseconds, of its own clock.
  if (first.vote === "recovering") expect(first.forMs).toBeGreaterThan(QUARANTINE_MS - passedMs - 10);
  await eventually("it votes again", async () => ((await ask(member)).vote === "granted" ? true : undefined));
}

async function linked(replica: RedisServer): Promise<void> {
  await eventually("the replica follows", async () => {
    const info = await replica.cli("INFO", "replication");
    return info.includes("master_link_status:up") ? true : undefined;
  });
}

describe.concurrent("a member abstains for a quarantine", () => {
  test("from when it is met, by its own clock, and the marker says so", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const nowMs = async (): Promise<number> => {
      const [seconds, microseconds] = (await admin.time()) as unknown as [string, string];
      return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
    };
    const before = await nowMs();
    await testClients.backend(server.port).join(TERMS);
    const since = Number(await admin.hget("holdfast:{marker}", "since"));
    expect(since).toBeGreaterThanOrEqual(before);
    expect(since).toBeLessThanOrEqual(await nowMs());
  });

  test("at its very first vote, unless an operator confirms that it lost nothing", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const member = testClients.backend(server.port);
    const sinceMs = performance.now();
    await member.join(TERMS);
    await abstains(member, sinceMs);
    const other = testClients.backend(server.port, { prefix: "other" });
    await other.join(TERMS);
    expect(await ask(other)).toMatchObject({ vote: "recovering" });
    await other.endQuarantine();
    expect(await ask(other)).toMatchObject({ vote: "granted" });
  });

  test("after it was killed and came back empty", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const member = await settled(testClients, server);
    const sinceMs = performance.now();
    await server.restart();
    await abstains(member, sinceMs);
  });

  test("after it was killed and came back with its data, because the last second may be missing", async () => {
    await using server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
    await using testClients = new Clients();
    const member = await settled(testClients, server);
    const sinceMs = performance.now();
    await server.restart();
    await abstains(member, sinceMs);
  });

  test("after FLUSHALL", async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const member = await settled(testClients, server);
    const sinceMs = performance.now();
    await server.cli("FLUSHALL");
    await abstains(member, sinceMs);
  });

  test("when it is a replica that was promoted, and when a former primary is promoted again", async () => {
    await using first = await startRedis({ args: QUICK_SYNC });
    await using second = await startRedis({ args: [...QUICK_SYNC, "--replicaof", `127.0.0.1 ${first.port}`] });
    await using testClients = new Clients();
    const old = await settled(testClients, first);
    await linked(second);
    const promotedMs = performance.now();
    await second.cli("REPLICAOF", "NO", "ONE");
    const promoted = testClients.backend(second.port);
    await promoted.join(TERMS);
    await abstains(promoted, promotedMs);
    // The same process, with the same run_id, has been a replica in between.
    expect(await ask(old)).toMatchObject({ vote: "granted" });
    await first.cli("REPLICAOF", "127.0.0.1", String(second.port));
    await linked(first);
    const againMs = performance.now();
    await first.cli("REPLICAOF", "NO", "ONE");
    await abstains(old, againMs);
  });

  test("when it was a replica for a while of an unused copy of itself", async () => {
    await using first = await startRedis({ args: QUICK_SYNC });
    await using second = await startRedis({ args: [...QUICK_SYNC, "--replicaof", `127.0.0.1 ${first.port}`] });
    await using testClients = new Clients();
    const member = await settled(testClients, first);
    await linked(second);
    await second.cli("REPLICAOF", "NO", "ONE");
    // What it grants now is lost with the next line; and its marker, with its own run_id, comes back from the copy.
    expect(await ask(member)).toMatchObject({ vote: "granted" });
    await first.cli("REPLICAOF", "127.0.0.1", String(second.port));
    await linked(first);
    const sinceMs = performance.now();
    await first.cli("REPLICAOF", "NO", "ONE");
    await abstains(member, sinceMs);
  });

  test("not for longer than one quarantine when its clock is set back", async () => {
    const wallClock = await makeWallClock();
    await using server = await startRedis({ env: wallClock.env });
    await using testClients = new Clients();
    testClients.later(() => wallClock.stop());
    const member = testClients.backend(server.port);
    await member.join(TERMS);
    expect(await ask(member)).toMatchObject({ vote: "recovering" });
    const sinceMs = performance.now();
    wallClock.jump(-3_600_000);
    const back = await ask(member);
    expect(back).toMatchObject({ vote: "recovering" });
    if (back.vote === "recovering") expect(back.forMs).toBeLessThanOrEqual(QUARANTINE_MS);
    await abstains(member, sinceMs);
  });

  test('and under `failover: "quarantine"` it queues waiters meanwhile, and serves them in order', async () => {
    await using server = await startRedis();
    await using testClients = new Clients();
    const options = { failover: "quarantine", maxTtl: 1000, maxLag: 3000, checkReplicas: false } as const;
    const backend = testClients.backend(server.port, options);
    const claim = claimOf({ ttlMs: 1000 });
    const [first, second] = [claim, { ...claim, id: claimOf().id }];
    const startMs = performance.now();
    // One after the other, and in one packet: a place in line lasts a second, and a busy machine may need it between two.
    const answers = await Promise.all([backend.attempt(first), backend.attempt(second)]);
    expect(answers).toMatchObject([
      { granted: false, position: 1 },
      { granted: false, position: 2 },
    ]);
    await waitFor(backend, first);
    // No claim is served before the quarantine is over, though signs of life come every third of a second.
    expect(performance.now() - startMs).toBeGreaterThan(3800);
    await backend.release(first);
    await waitFor(backend, second);
  });
});

describe.concurrent("a quorum refuses as a member", () => {
  test("a replica", async () => {
    await using primary = await startRedis({ args: QUICK_SYNC });
    await using replica = await startRedis({ args: ["--replicaof", `127.0.0.1 ${primary.port}`] });
    await using testClients = new Clients();
    await linked(replica);
    await expect(testClients.backend(replica.port).join(TERMS)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("replica") as string,
    });
  });

  test("a server that may evict leases, unless the options allow it", async () => {
    await using server = await startRedis({ args: ["--maxmemory-policy", "allkeys-lru"] });
    await using testClients = new Clients();
    const member = testClients.backend(server.port);
    await expect(member.join(TERMS)).rejects.toThrow(/allkeys-lru.*noeviction/u);
    await expect(member.join({ ...TERMS, allowEviction: true })).resolves.toMatchObject({
      id: expect.any(String) as string,
    });
  });

  test("a node of a cluster", async () => {
    await using cluster = await startCluster();
    await using testClients = new Clients();
    const [node] = cluster.nodes;
    await expect(testClients.backend(node?.port ?? 0).join(TERMS)).rejects.toThrow(/Redis Cluster/u);
  });
});

test("a member is distinguished from others, and from itself after a restart, by its id; and reports its clock", async () => {
  await using server = await startRedis();
  await using other = await startRedis();
  await using testClients = new Clients();
  const [one, same, another] = [server, server, other].map(({ port }) => testClients.backend(port)) as [
    RedisBackend,
    RedisBackend,
    RedisBackend,
  ];
  const { id } = await one.join(TERMS);
  expect((await same.join(TERMS)).id).toBe(id);
  expect((await another.join(TERMS)).id).not.toBe(id);
  await server.restart();
  expect((await one.join(TERMS)).id).not.toBe(id);
  const identity = await one.identify();
  expect(identity).toMatchObject({ role: "master", cluster: false, policy: "noeviction" });
  expect(Math.abs(identity.wallMs - Date.now())).toBeLessThan(60_000);
});

test("a voted lease that is released or ended by force wakes those who listen for it", async () => {
  await using server = await startRedis();
  await using testClients = new Clients();
  const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)];
  for (const member of [a, b]) await member.join({ quarantineMs: 0, allowEviction: false });
  const claim = claimOf();
  let woken = 0;
  const stop = b.freed(claim.name, () => void woken++);
  // One hint comes when the subscription stands, because the lock may have been freed until then.
  await eventually("it listens", () => (woken === 1 ? true : undefined));
  expect(await a.vote(claim, 5n)).toMatchObject({ vote: "granted" });
  await a.release(claim);
  await eventually("a hint on release", () => (woken === 2 ? true : undefined));
  expect(await a.vote(claim, 6n)).toMatchObject({ vote: "granted" });
  expect(await b.forceRelease(claim.name, 6n, "ops", "test")).toBe(true);
  await eventually("a hint on force", () => (woken === 3 ? true : undefined));
  stop();
  await eventually("it listens no more", async () => {
    const channels = await server.cli("PUBSUB", "CHANNELS", "*:{*");
    return channels === "" ? true : undefined;
  });
});
