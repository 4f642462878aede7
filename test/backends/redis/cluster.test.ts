/** A real cluster of three primaries and three replicas: fail-over, resharding, and batches over many slots. */
import { Cluster } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ClusterLab, startCluster } from "../../../src/lab/servers/cluster.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { libraries } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, sleep, waitFor } from "./lab.ts";
import { PASSWORD } from "../../login.ts";

let lab: ClusterLab;
let testClients: Clients;
beforeAll(async () => {
  lab = await startCluster();
  testClients = new Clients();
});
afterAll(async () => {
  await testClients[Symbol.asyncDispose]();
  await lab.stop();
});

const names = namesOf("holdfast", true);

function client({ nodes }: ClusterLab = lab): Cluster {
  const hosts = nodes.map(({ port }) => ({ host: "127.0.0.1", port }));
  const cluster = new Cluster(hosts, {
    clusterRetryStrategy: () => 50,
    retryDelayOnFailover: 50,
    retryDelayOnTryAgain: 20,
    retryDelayOnClusterDown: 50,
    maxRedirections: 200,
    redisOptions: { maxRetriesPerRequest: null, password: PASSWORD },
  });
  cluster.on("error", () => {});
  testClients.later(() => cluster.disconnect());
  return cluster;
}

test("renews leases all over the cluster, each with its own answer, a script per slot", async () => {
  const backend = testClients.own(redis(client()));
  const claims = Array.from({ length: 300 }, () => claimOf());
  await Promise.all(claims.map((claim) => granted(backend, claim)));
  await backend.release(claims[7] as (typeof claims)[0]);
  const renewals = await backend.renew(claims);
  expect(renewals.flatMap(({ held }, index) => (held === true ? [] : [index]))).toEqual([7]);
  const mine = new Set(claims.map(({ name }) => name));
  const { held } = await backend.query("test:");
  expect(held.filter(({ name }) => mine.has(name))).toHaveLength(299);
});

test("hands over between clients of different libraries that are connected to different nodes", async () => {
  const other = await libraries.redis6.cluster(lab);
  testClients.later(() => other.close());
  const [a, b] = [testClients.own(redis(client())), testClients.own(redis(other.client))];
  for (let i = 0; i < 10; i++) {
    const holder = claimOf();
    const waiter = rivalOf(holder);
    await granted(a, holder);
    await refused(b, waiter);
    const waiting = waitFor(b, waiter);
    await a.release(holder);
    await waiting;
    expect(await b.release(waiter)).toBe("held");
  }
});

test("holds, queues and hands over while the lock's slot moves to another node", async () => {
  const [a, b] = [testClients.own(redis(client())), testClients.own(redis(client()))];
  const holder = claimOf();
  const [first, second, late] = [rivalOf(holder), rivalOf(holder), rivalOf(holder)];
  const before = await granted(a, holder);
  await refused(b, first);
  const key = names.lock(holder.name);
  const old = await lab.primaryOf(key);
  const moved = await lab.moveSlot(key, {
    whileMigrating: async () => {
      expect((await a.renew([holder]))[0]?.held).toBe(true);
      await refused(b, second);
      // A lock of the same slot that is new goes straight to the new node.
      expect((await a.renew([holder]))[0]?.held).toBe(true);
    },
  });
  expect(moved.port).not.toBe(old.port);
  await refused(a, late);
  expect((await a.query(holder.name)).pending).toHaveLength(3);
  expect((await a.renew([holder]))[0]?.held).toBe(true);
  expect(await a.release(holder)).toBe("held");
  let fence = before.fence;
  for (const [backend, claim] of [
    [b, first],
    [b, second],
    [a, late],
  ] as const) {
    const next = await waitFor(backend, claim);
    expect(next.fence).toBeGreaterThan(fence);
    fence = next.fence;
    expect(await backend.release(claim)).toBe("held");
  }
});

test("durability works per slot in a cluster", async () => {
  const backend = testClients.own(redis(client(), { durability: { replicas: 1, wait: "5s" } }));
  const claims = Array.from({ length: 6 }, () => claimOf());
  for (const claim of claims) await granted(backend, claim);
  expect((await backend.renew(claims)).map(({ held }) => held)).toEqual(claims.map(() => true));
  const two = testClients.own(redis(client(), { durability: { replicas: 2, wait: 50 } }));
  await expect(two.attempt(claimOf())).rejects.toThrow(/1 of 2 replicas/u);
  for (const claim of claims) await backend.release(claim);
});

test("a node that does not answer keeps neither renewals nor waiters on other nodes waiting", async () => {
  // So patient that it does not notice: during a fail-over a cluster answers no client for a while, on any node.
  const patient = await startCluster({ nodeTimeoutMs: 600_000 });
  testClients.later(() => patient.stop());
  const [a, b] = [testClients.own(redis(client(patient))), testClients.own(redis(client(patient), { ticket: 900 }))];
  const here = claimOf();
  const frozen = await patient.primaryOf(names.lock(here.name));
  const elsewhere = await eventually("a lock on another node", async () => {
    const claim = claimOf();
    return (await patient.primaryOf(names.lock(claim.name))).port === frozen.port ? undefined : claim;
  });
  const brief = { ...here, ttlMs: 3000 };
  await granted(a, brief);
  await granted(a, elsewhere);
  const waiters = [rivalOf(here), rivalOf(elsewhere)] as const;
  for (const waiter of waiters) await refused(b, waiter);
  frozen.pause();
  try {
    expect((await a.renew([brief, elsewhere])).map(({ held }) => held)).toEqual(["unknown", true]);
    // Two tickets later the waiter on the other node is still alive in its queue.
    await sleep(1800);
    expect((await refused(b, waiters[1])).position).toBe(1);
  } finally {
    frozen.resume();
  }
}, 180_000);

test("a lease survives a fail-over of its node, and with quarantine no claim is granted a lock there until it is over", async () => {
  const guarded = testClients.own(
    redis(client(), { failover: "quarantine", maxTtl: "4s", maxLag: "2s", checkReplicas: false, prefix: "guarded" }),
  );
  await guarded.endQuarantine();
  const locks = createLocks(redis(client()), { ttl: "20s" });
  testClients.later(() => locks.close());
  const lease = await locks.acquire(claimOf().name);
  const key = names.lock(lease.name);
  const primary = await lab.primaryOf(key);
  // A guarded lock on the same node: its name falls into the same slots, whatever the prefix.
  const sameNode = await eventually("a name on that node", async () => {
    const name = claimOf().name;
    const there = await lab.primaryOf(namesOf("guarded", true).lock(name));
    return there.port === primary.port ? name : undefined;
  });
  const before = claimOf({ name: sameNode, ttlMs: 4000 });
  const { fence } = await granted(guarded, before);
  await guarded.release(before);
  await eventually("the replica is up to date", async () => {
    const acknowledged = await primary.cli("WAIT", "1", "1000");
    return acknowledged === "1" ? true : undefined;
  });
  await primary.kill();
  const killedMs = performance.now();
  await eventually("the slot is served again", async () => {
    const there = await lab.primaryOf(key).catch(() => undefined);
    return there !== undefined && there.port !== primary.port ? true : undefined;
  });
  const young = await refused(guarded, claimOf({ name: sameNode, ttlMs: 4000, queues: false }));
  expect(young.quarantineMs).toBeGreaterThan(0);
  const next = await waitFor(guarded, claimOf({ name: sameNode, ttlMs: 4000 }));
  expect(performance.now() - killedMs).toBeGreaterThan(6000);
  expect(next.fence).toBeGreaterThan(fence);
  expect(lease.signal.aborted).toBe(false);
  expect(await lease.release()).toBe("released");
}, 180_000);
