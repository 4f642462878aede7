/** `durability`: WAIT goes on a connection of our own, to the server that has the keys, and never confirms what it does not know. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProxy } from "../../../src/lab/proxy.ts";
import { type ClusterLab, startCluster } from "../../../src/lab/servers/cluster.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { type SentinelLab, startSentinels } from "../../../src/lab/servers/sentinels.ts";
import { LockBackendError } from "../../../src/contract/errors.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { libraries } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf } from "./lab.ts";

const all = Object.values(libraries);
const QUICK_SYNC = ["--repl-diskless-sync-delay", "0"];

async function pair(testClients: Clients): Promise<{ primary: RedisServer; replica: RedisServer }> {
  const primary = await startRedis({ args: QUICK_SYNC });
  const replica = await startRedis({ args: [...QUICK_SYNC, "--replicaof", `127.0.0.1 ${primary.port}`] });
  for (const one of [primary, replica]) testClients.later(() => one.stop());
  await eventually("the replica is online", async () =>
    (await primary.cli("INFO", "replication")).includes("state=online") ? true : undefined,
  );
  return { primary, replica };
}

/**
 * Asks until there is an answer, as the core does: on a busy machine a connection of our own may not be open within the five seconds
 * that it gets, and a replica may confirm too late.
 */
function atLast<T>(what: string, ask: () => Promise<T>): Promise<T> {
  return eventually(what, () =>
    ask().catch((error: unknown) => {
      if (error instanceof LockBackendError && !error.fatal) return undefined;
      throw error;
    }),
  );
}

/** The connection that waits for replicas, when there is one. */
async function waiting(primary: RedisServer): Promise<string> {
  return eventually("it waits for the replica", async () => {
    const clients = (await primary.cli("CLIENT", "LIST")).split("\n");
    return /^id=(\d+)/u.exec(clients.find((line) => / cmd=wait /u.test(line)) ?? "")?.[1];
  });
}

describe.concurrent("one primary and a replica that is silent", () => {
  for (const library of all) {
    test(`S161: ${library.name}: the client itself goes on while replicas are waited for`, async () => {
      await using testClients = new Clients();
      const { primary, replica } = await pair(testClients);
      const { client, close } = await library.standalone(primary.port);
      testClients.later(close);
      const backend = testClients.own(redis(client, { durability: { replicas: 1, wait: "60s" } }));
      const claim = claimOf();
      await atLast("a first lease", () => granted(backend, claim));
      await backend.release(claim);
      replica.pause();
      testClients.later(() => replica.resume());
      const attempt = granted(backend, claimOf());
      const waiter = await waiting(primary);
      await (client as unknown as { ping(): Promise<unknown> }).ping();
      // Answered before the replica is there again, and so before the wait is over.
      expect(await waiting(primary)).toBe(waiter);
      replica.resume();
      await attempt;
    });

    test(`S161: ${library.name}: a connection that ends while it waits confirms nothing`, async () => {
      await using testClients = new Clients();
      const { primary, replica } = await pair(testClients);
      const { client, close } = await library.standalone(primary.port);
      testClients.later(close);
      const backend = testClients.own(redis(client, { durability: { replicas: 1, wait: "60s" } }));
      const claim = claimOf();
      await atLast("a first lease", () => granted(backend, claim));
      replica.pause();
      testClients.later(() => replica.resume());
      const attempt = backend.attempt(claimOf());
      attempt.catch(() => {});
      await primary.cli("CLIENT", "KILL", "ID", await waiting(primary));
      await expect(attempt).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: false });
    });
  }
});

test("S161: an outcome that too few replicas have is unknown, and held when they have it", async () => {
  await using testClients = new Clients();
  const { primary, replica } = await pair(testClients);
  const [confirmed, plain] = [
    testClients.backend(primary.port, { durability: { replicas: 1, wait: "500ms" } }),
    testClients.backend(primary.port),
  ];
  const claim = claimOf({ wantsOutcome: true });
  const { fence } = await granted(plain, claim);
  replica.pause();
  testClients.later(() => replica.resume());
  const outcome = { value: "done", keepMs: 3_600_000, fence };
  await expect(confirmed.release(claim, outcome)).rejects.toThrow(/0 of 1 replicas confirmed it .* outcome is kept/u);
  await expect(confirmed.release(claim, outcome)).rejects.toMatchObject({ fatal: false });
  expect((await refused(plain, rivalOf(claim))).outcome?.value).toBe("done");
  replica.resume();
  expect(await eventually("the replica has it", () => confirmed.release(claim, outcome).catch(() => undefined))).toBe(
    "held",
  );
  expect(await replica.cli("HGET", namesOf("holdfast", false).lock(claim.name), "r")).toMatch(/ done$/u);
});

test("S22: another replica than the one that confirmed is promoted: two hold, and the later has the greater fence", async () => {
  await using testClients = new Clients();
  const { primary } = await pair(testClients);
  const proxy = await startProxy({ port: primary.port });
  testClients.later(() => proxy.stop());
  const other = await startRedis({ args: [...QUICK_SYNC, "--replicaof", `127.0.0.1 ${proxy.port}`] });
  testClients.later(() => other.stop());
  await eventually("both replicas are online", async () =>
    (await primary.cli("INFO", "replication")).split("state=online").length === 3 ? true : undefined,
  );
  const backend = testClients.backend(primary.port, { durability: { replicas: 1, wait: "60s" } });
  // From here on nothing reaches the other one; the first confirms.
  proxy.hang("both");
  const claim = claimOf();
  const { fence } = await atLast("a first lease", () => granted(backend, claim));
  expect(await backend.renew([claim])).toMatchObject([{ held: true }]);
  await primary.kill();
  await other.cli("REPLICAOF", "NO", "ONE");
  const second = await granted(testClients.backend(other.port), rivalOf(claim));
  expect(second.fence).toBeGreaterThan(fence);
}, 180_000);

describe("a cluster", () => {
  const names = namesOf("holdfast", true);
  let lab: ClusterLab;
  beforeAll(async () => {
    lab = await startCluster({ nodeTimeoutMs: 60_000 });
  });
  afterAll(() => lab.stop());

  /** The replicas of a primary. */
  async function replicasOf(primary: RedisServer): Promise<readonly RedisServer[]> {
    const ports = [...(await primary.cli("INFO", "replication")).matchAll(/slave\d+:ip=[^,]*,port=(\d+)/gu)];
    return lab.nodes.filter(({ port }) => ports.some(([, found]) => Number(found) === port));
  }

  for (const library of all) {
    test(`S161: ${library.name}: after a slot moved, grants and renewals are confirmed by the node that has it now`, async () => {
      await using testClients = new Clients();
      const { client, close } = await library.cluster(lab);
      testClients.later(close);
      const backend = testClients.own(redis(client, { durability: { replicas: 1, wait: "2s" } }));
      const claim = claimOf();
      await atLast("a first lease", () => granted(backend, claim));
      const key = names.lock(claim.name);
      const moved = await lab.moveSlot(key);
      await eventually("it is renewed", async () => {
        const [renewal] = await backend.renew([claim]);
        expect(renewal?.held).not.toBe(false);
        return renewal?.held === true ? true : undefined;
      });
      const next = rivalOf(claim);
      expect((await atLast("a place in the queue", () => refused(backend, next))).position).toBe(1);
      expect(await backend.release(claim)).toBe("held");
      await atLast("the next lease", () => granted(backend, next));
      await backend.release(next);
      const again = await lab.moveSlot(key);
      expect(again.port).not.toBe(moved.port);
      const silent = await replicasOf(again);
      expect(silent).toHaveLength(1);
      silent.forEach((replica) => replica.pause());
      try {
        // The node that had the slot before would confirm it at once.
        await eventually("it is not confirmed", async () => {
          const error = await backend.attempt(claim).then(
            () => expect.fail("it was confirmed"),
            (cause: Error) => cause,
          );
          return /0 of 1 replicas/u.test(error.message) ? true : undefined;
        });
      } finally {
        silent.forEach((replica) => replica.resume());
      }
    });
  }
});

describe("sentinels", () => {
  let lab: SentinelLab;
  beforeAll(async () => {
    lab = await startSentinels();
  });
  afterAll(() => lab.stop());

  for (const library of all) {
    test(`S161: ${library.name}: a hundred at once share few waits, and all are confirmed`, async () => {
      await using testClients = new Clients();
      const { client, close } = await library.sentinel(lab);
      testClients.later(close);
      const backend = testClients.own(redis(client, { durability: { replicas: 2, wait: "60s" } }));
      const claims = Array.from({ length: 100 }, () => claimOf());
      await atLast("a first lease", () => granted(backend, claims[0] as (typeof claims)[0]));
      await lab.primary.cli("CONFIG", "RESETSTAT");
      await Promise.all(claims.map((claim) => granted(backend, claim)));
      expect(await backend.renew(claims)).toEqual(claims.map(() => ({ held: true })));
      const waits = /cmdstat_wait:calls=(\d+)/u.exec(await lab.primary.cli("INFO", "commandstats"))?.[1];
      expect(Number(waits)).toBeLessThanOrEqual(10);
    });
  }
});
