/** How long the store keeps its promises: minHold, tickets on a full server, hand-overs, and fences over a flush. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim, Granted } from "../../../src/contract/backend.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import type { RedisBackend } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

describe.concurrent("a minHold", () => {
  for (const way of ["release", "swap"] as const) {
    test(`S135: outlives the ttl and the idle time of its lock, after a ${way}`, async () => {
      await using testClients = new Clients();
      const client = testClients.client(server.port);
      const backend = testClients.backend(server.port, { idle: 100 });
      const claim = claimOf({ ttlMs: 200, minHoldMs: 600_000 });
      await granted(backend, claim);
      if (way === "release") await backend.release(claim);
      else await backend.swap(claim, rivalOf(claim, { queues: false, minHoldMs: 0 }));
      expect(await client.pttl(keyOf(claim.name))).toBeGreaterThan(590_000);
      // What comes and goes meanwhile does not shorten it.
      const rival = rivalOf(claim, { minHoldMs: 0 });
      await refused(backend, rival);
      await backend.release(rival);
      expect(await client.pttl(keyOf(claim.name))).toBeGreaterThan(590_000);
    });
  }
});

describe("a full server", () => {
  test("S135: keeps a waiter that is the only one of its process: its signs of life count", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const client = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: 1500 })];
    const holder = claimOf();
    const waiter = rivalOf(holder);
    await granted(near, holder);
    await refused(far, waiter);
    await client.config("SET", "maxmemory", "1");
    const ticket = async (): Promise<string | null> => client.hget(keyOf(holder.name), `w${waiter.id}`);
    const before = await ticket();
    await eventually("its ticket is longer", async () => ((await ticket()) === before ? undefined : true));
    expect(await ticket()).not.toBeNull();
  });

  test("S135: keeps its waiters: their signs of life and repeated attempts count, and they are served", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const client = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: 1500 })];
    const holders = [claimOf(), claimOf({ limit: 2 }), claimOf({ mode: "shared" })];
    const waiters = holders.map((holder) => rivalOf(holder, { mode: "exclusive" }));
    const second = rivalOf(holders[1]!);
    for (const claim of [...holders, second]) await granted(near, claim);
    for (const waiter of waiters) await refused(far, waiter);
    await client.config("SET", "maxmemory", "1");
    const ticketOf = async ({ name, id }: Claim): Promise<number> =>
      Number(((await client.hget(keyOf(name), `w${id}`)) ?? "0").slice(0, 13));
    for (const waiter of waiters) {
      const before = await ticketOf(waiter);
      await eventually("its ticket is longer", async () => ((await ticketOf(waiter)) > before ? true : undefined));
      expect(await refused(far, waiter)).toMatchObject({ position: 1 });
    }
    const watching = waiters.map((waiter) => far.watch(waiter, AbortSignal.timeout(20_000)));
    for (const claim of [...holders, second]) await near.release(claim);
    for (const [i, waiter] of waiters.entries()) {
      // A repeated attempt of a holder counts as well.
      if ((await watching[i])?.granted !== true) await waitFor(far, waiter);
      await granted(far, waiter);
    }
  });
});

describe("a hand-over", () => {
  for (const mode of ["exclusive", "shared"] as const) {
    test(`S135: is kept for the waiter's ttl and not only for its ticket (${mode})`, async () => {
      await using testClients = new Clients();
      const proxy = await startProxy({ port: server.port });
      testClients.later(() => proxy.stop());
      const [near, far] = [testClients.backend(server.port), testClients.backend(proxy.port, { ticket: 2000 })];
      const holder = claimOf();
      const waiter = rivalOf(holder, { mode, ttlMs: 60_000, lockDelayMs: 5000 });
      await granted(near, holder);
      await refused(far, waiter);
      // Its message stays away, so that nothing but the hand-over itself decides how long the lease is kept.
      proxy.hang("both");
      await near.release(holder);
      const [holding] = (await near.query(holder.name)).held;
      expect(holding?.remainingMs).toBeGreaterThan(60_000);
      expect(holding?.remainingMs).toBeLessThanOrEqual(65_000);
      await proxy.heal();
    });
  }
});

describe("fences", () => {
  /** Each brings a grant by another path through the scripts; the lock is held by `before` when it begins. */
  const paths: Readonly<Record<string, (a: RedisBackend, b: RedisBackend, before: Claim) => Promise<Granted>>> = {
    shared: (a, _, before) => granted(a, rivalOf(before, { mode: "shared" })),
    limit: (a, _, before) => granted(a, rivalOf(before, { limit: 3 })),
    swap: async (a, _, before) => {
      const answer = await a.swap(before, rivalOf(before));
      expect(answer.granted).toBe(true);
      return answer as Granted;
    },
    "hand-over to a writer": async (a, b, before) => {
      const [first, next] = [rivalOf(before), rivalOf(before)];
      await granted(a, first);
      await refused(b, next);
      await a.release(first);
      return waitFor(b, next);
    },
    "hand-over to a reader": async (a, b, before) => {
      const [first, next] = [rivalOf(before), rivalOf(before, { mode: "shared" })];
      await granted(a, first);
      await refused(b, next);
      await a.release(first);
      return waitFor(b, next);
    },
    "a dead holder's successor": async (a, b, before) => {
      const next = rivalOf(before);
      await granted(a, rivalOf(before, { ttlMs: 100 }));
      // On a busy machine it may be over already.
      const answer = await b.attempt(next);
      return answer.granted ? answer : waitFor(b, next);
    },
  };
  for (const quarantined of [false, true]) {
    for (const [path, grant] of Object.entries(paths)) {
      test(`are above all before a flush, by ${path}${quarantined ? ", under a quarantine" : ""}`, async () => {
        await using own = await startRedis();
        await using testClients = new Clients();
        const options = quarantined
          ? ({ failover: "quarantine", maxTtl: "60s", maxLag: 1, checkReplicas: false } as const)
          : {};
        const [a, b] = [testClients.backend(own.port, options), testClients.backend(own.port, options)];
        if (quarantined) {
          await a.attempt(claimOf({ queues: false }));
          await a.endQuarantine();
        }
        const before = claimOf();
        let last = 0n;
        for (let i = 0; i < 20; i++) {
          const claim = rivalOf(before);
          const { fence, run } = await granted(a, claim);
          last = fence + BigInt(run) - 1n;
          await a.release(claim);
        }
        await own.cli("FLUSHALL");
        if (quarantined) await a.endQuarantine();
        const { fence } = await grant(a, b, before);
        expect(fence).toBeGreaterThan(last);
      });
    }
  }
});
