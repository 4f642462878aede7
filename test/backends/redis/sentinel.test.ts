/** Primary, replicas and sentinels, with real fail-overs: what survives them, and what does not. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { type SentinelLab, startSentinels } from "../../../src/lab/servers/sentinels.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { type RedisBackend, redis, type RedisOptions } from "../../../src/backends/redis/index.ts";
import { claimOf, Clients, eventually, granted, hurry, refused, rivalOf, sleep, UNHURRIED } from "./lab.ts";
import { PASSWORD } from "../../login.ts";

function followPrimary(testClients: Clients, lab: SentinelLab): Redis {
  const client = new Redis({
    sentinels: lab.sentinels.map(({ port }) => ({ host: "127.0.0.1", port })),
    name: lab.service,
    password: PASSWORD,
    sentinelPassword: PASSWORD,
    maxRetriesPerRequest: null,
    retryStrategy: () => 50,
    // A sentinel that has not heard yet may send it to the old primary, where nothing answers.
    socketTimeout: 1000,
    sentinelRetryStrategy: () => 50,
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
  });
  client.on("error", () => {});
  testClients.later(() => client.disconnect());
  return client;
}

/** Replicas of a busy machine may be silent for seconds, and are not cut off because of it. */
const LAG_S = 8;

interface Row {
  readonly fault: "partition" | "crash with lost replication";
  readonly minReplicas: boolean;
  readonly quarantine: boolean;
  readonly ttlMs: number;
  readonly safe: boolean;
}

/** A lab whose primary replicas and sentinels reach through a proxy, so that it can be cut off from them and not from A. */
async function labWithProxy(testClients: Clients, minReplicas: boolean): Promise<{ lab: SentinelLab; proxy: Proxy }> {
  let proxy: Proxy | undefined;
  const args = minReplicas ? ["--min-replicas-to-write", "1", "--min-replicas-max-lag", String(LAG_S)] : [];
  const lab = await startSentinels({
    ...UNHURRIED,
    args,
    front: async (primary) => {
      proxy = await startProxy({ port: primary.port });
      return proxy.port;
    },
  });
  testClients.later(() => lab.stop());
  if (proxy === undefined) throw new Error("no proxy");
  const front: Proxy = proxy;
  testClients.later(() => front.stop());
  return { lab, proxy: front };
}

/** Keeps renewing as a holder does; `trustedUntilMs` is how long it may believe. */
function hold(a: RedisBackend, claim: Claim, sentMs: number): { trustedUntilMs: number; stop(): void } {
  const belief = { trustedUntilMs: sentMs + claim.ttlMs, stop: () => void (going = false) };
  let going = true;
  void (async () => {
    while (going && performance.now() < belief.trustedUntilMs) {
      const askedMs = performance.now();
      const [renewal] = await a.renew([claim]).catch(() => []);
      if (renewal?.held === true) belief.trustedUntilMs = askedMs + claim.ttlMs;
      if (renewal?.held === false) return;
      await sleep(200);
    }
  })();
  return belief;
}

/** Plays one row. Resolves to how long A and B both believed that they held: negative when B came later. */
async function bothHeldMs({ fault, minReplicas, quarantine, ttlMs }: Row): Promise<number> {
  await using testClients = new Clients();
  const { lab, proxy } = await labWithProxy(testClients, minReplicas);
  const options: RedisOptions = quarantine
    ? { failover: "quarantine", maxTtl: ttlMs, maxLag: `${LAG_S + 2}s`, checkReplicas: false }
    : {};
  const a = testClients.backend(lab.primary.port, options, { commandTimeout: 10_000 });
  const claim = claimOf({ ttlMs });
  await eventually("the primary knows its replicas", async () => {
    try {
      // A new store would begin with a quarantine of its own; an operator ends it.
      if (quarantine) await a.endQuarantine();
      return await granted(a, claimOf({ ttlMs }));
    } catch {
      return undefined;
    }
  });
  // A black hole: connections stay, and nothing comes through. What the primary writes from now on reaches no replica.
  proxy.hang("both");
  const sentMs = performance.now();
  await granted(a, claim);
  if (fault !== "partition") await lab.primary.kill();
  await hurry(lab);
  const belief = hold(a, claim, sentMs);
  testClients.later(() => belief.stop());
  const rival = rivalOf(claim);
  await lab.failedOver(proxy.port);
  const b = testClients.own(redis(followPrimary(testClients, lab), options));
  const grantedMs = await eventually(
    "B is granted",
    async () => {
      const answer = await b.attempt(rival).catch(() => undefined);
      return answer?.granted === true ? performance.now() : undefined;
    },
    { paceMs: 100 },
  );
  return belief.trustedUntilMs - grantedMs;
}

const rows: readonly Row[] = [
  { fault: "partition", minReplicas: true, quarantine: true, ttlMs: 3000, safe: true },
  { fault: "crash with lost replication", minReplicas: true, quarantine: true, ttlMs: 3000, safe: true },
  { fault: "partition", minReplicas: true, quarantine: false, ttlMs: 60_000, safe: false },
  // Long enough that A, which renews five times a second, goes on believing on a busy machine.
  { fault: "partition", minReplicas: false, quarantine: true, ttlMs: 10_000, safe: false },
  { fault: "crash with lost replication", minReplicas: true, quarantine: false, ttlMs: 60_000, safe: false },
];

describe.concurrent("S21: a fail-over that forgot a lease", () => {
  for (const row of rows) {
    const halves = `${row.minReplicas ? "with" : "without"} min-replicas-to-write, ${row.quarantine ? "with" : "without"} quarantine`;
    const outcome = row.safe ? "never gives two holders" : "gives two holders, as documented";
    test(`${row.fault}, ${halves}: ${outcome}`, async () => {
      const overlapMs = await bothHeldMs(row);
      if (row.safe) expect(overlapMs).toBeLessThan(0);
      else expect(overlapMs).toBeGreaterThan(0);
    });
  }
});

describe("one set of sentinels", () => {
  let lab: SentinelLab;
  let testClients: Clients;
  beforeAll(async () => {
    lab = await startSentinels(UNHURRIED);
    testClients = new Clients();
  });
  afterAll(async () => {
    await testClients[Symbol.asyncDispose]();
    await lab.stop();
  });

  test("durability: a grant counts when the replicas have it", async () => {
    const backend = testClients.backend(lab.primary.port, { durability: { replicas: 2, wait: "20s" } });
    const claim = claimOf();
    await granted(backend, claim);
    expect((await backend.renew([claim]))[0]?.held).toBe(true);
    const waiter = rivalOf(claim);
    await refused(backend, waiter);
    const watching = backend.watch(waiter, AbortSignal.timeout(10_000));
    await backend.release(claim);
    // The news says "ask again", because only an answer can be waited for on replicas.
    expect(await watching).toBeUndefined();
    await granted(backend, waiter);
    await backend.release(waiter);
  });

  test("S21: when too few replicas answer, the acquire fails, says so, and nothing is left held; renewals are unknown", async () => {
    const backend = testClients.backend(lab.primary.port, { durability: { replicas: 3, wait: "3s" } });
    // No caller had it, so its minHold keeps no claim away.
    const unconfirmed = claimOf({ minHoldMs: 600_000 });
    await expect(backend.attempt(unconfirmed)).rejects.toThrow(/[0-2] of 3 replicas confirmed it within 3 s/u);
    const plain = testClients.backend(lab.primary.port);
    expect((await plain.query(unconfirmed.name)).held).toEqual([]);
    const claim = rivalOf(unconfirmed, { minHoldMs: 0 });
    await granted(plain, claim);
    expect((await backend.renew([claim]))[0]?.held).toBe("unknown");
    await plain.release(claim);
    await granted(plain, rivalOf(claim, { queues: false }));
  });

  test("quarantine is refused where min-replicas-to-write is 0, and so is a ttl that it would not outlast", async () => {
    const backend = testClients.backend(lab.primary.port, { failover: "quarantine" });
    await expect(backend.attempt(claimOf({ ttlMs: 1000 }))).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("min-replicas-to-write") as string,
    });
    const unchecked = testClients.backend(lab.primary.port, {
      failover: "quarantine",
      checkReplicas: false,
      prefix: "young",
    });
    await expect(unchecked.attempt(claimOf({ ttlMs: 31_000 }))).rejects.toThrow(/`maxTtl` is 30 s/u);
    const young = await refused(unchecked, claimOf({ ttlMs: 1000, queues: false }));
    expect(young).toMatchObject({ heldBy: [], quarantineMs: expect.any(Number) });
    expect(young.retryMs).toBeGreaterThan(30_000);
    await unchecked.endQuarantine();
    await granted(unchecked, claimOf({ ttlMs: 1000 }));
  });

  test("S23: a lease held through a fail-over goes on, with waiters behind it and a greater fence for the next", async () => {
    const [holders, waiters] = [redis(followPrimary(testClients, lab)), redis(followPrimary(testClients, lab))];
    const [one, two] = [createLocks(holders, { ttl: "5m" }), createLocks(waiters, { ttl: "5m" })];
    const name = claimOf().name;
    const lease = await one.acquire(name);
    const waiting = two.acquire(name, { wait: "5m" });
    await eventually("it waits", async () => (await one.query(name)).pending[0]);
    // Both replicas have what was written before they are asked to take over.
    await eventually("the replicas are up to date", async () => {
      const acknowledged = await lab.primary.cli("WAIT", "2", "1000");
      return acknowledged === "2" ? true : undefined;
    });
    await lab.primary.kill();
    await hurry(lab);
    await lab.failedOver(lab.primary.port);
    await eventually("the lease is confirmed by the new primary", async () => {
      const { held } = await one.query(name).catch(() => ({ held: [] }));
      return held[0]?.fence === lease.fence && lease.remaining() > 0 ? true : undefined;
    });
    expect(lease.signal.aborted).toBe(false);
    expect(await lease.release()).toBe("released");
    const next = await waiting;
    expect(next.fence).toBeGreaterThan(lease.fence);
    await next.release();
    await Promise.all([one.close(), two.close()]);
  });
});
