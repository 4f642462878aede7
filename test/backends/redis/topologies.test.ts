/** Servers that are not what they were, or not what a promise needs: old versions, settings, moved slots, silent shards, demotion. */
import type { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { type ClusterLab, startCluster } from "../../../src/lab/servers/cluster.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { startSentinels } from "../../../src/lab/servers/sentinels.ts";
import type { Duration } from "../../../src/contract/duration.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { type RedisBackend, redis, type RedisOptions } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { openBackend } from "../../../src/backends/redis/open.ts";
import { PASSWORD } from "../../login.ts";
import { libraries, type Library } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, UNHURRIED } from "./lab.ts";

const all = Object.values(libraries);
const QUICK_SYNC = ["--repl-diskless-sync-delay", "0"];
/** Replicas of a busy machine may be silent for seconds. */
const GUARDED = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "8"];
const QUARANTINE: RedisOptions = { failover: "quarantine", maxTtl: "1m", maxLag: "10s" };
const names = namesOf("holdfast", true);

async function started(testClients: Clients, args: readonly string[] = []): Promise<RedisServer> {
  const server = await startRedis({ args: [...QUICK_SYNC, ...args] });
  testClients.later(() => server.stop());
  return server;
}

async function replicaOf(
  testClients: Clients,
  primary: RedisServer,
  args: readonly string[] = [],
): Promise<RedisServer> {
  const replica = await started(testClients, [...args, "--replicaof", `127.0.0.1 ${primary.port}`]);
  await eventually("the replica is online", async () =>
    (await primary.cli("INFO", "replication")).includes("state=online") ? true : undefined,
  );
  return replica;
}

async function backendOn(
  testClients: Clients,
  library: Library,
  port: number,
  options?: RedisOptions,
): Promise<RedisBackend> {
  const { client, close } = await library.standalone(port);
  testClients.later(close);
  return testClients.own(redis(client, options));
}

const fatal = (message: RegExp): object => ({ fatal: true, message: expect.stringMatching(message) as string });
const brief = (): ReturnType<typeof claimOf> => claimOf({ ttlMs: 1000 });

describe.concurrent("S159: quarantine is refused where it would promise nothing", () => {
  for (const library of all) {
    test(`on a Redis whose scripts write without replicas, with ${library.name}`, async () => {
      await using testClients = new Clients();
      const server = await started(testClients);
      const proxy = await startProxy({ port: server.port });
      testClients.later(() => proxy.stop());
      // An old server, as far as INFO tells. The new text is as long as the old one.
      proxy.onReply = (chunk) => {
        const at = chunk.indexOf("redis_version:");
        if (at < 0) return undefined;
        const from = at + "redis_version:".length;
        const end = chunk.indexOf("\r", from);
        chunk.write(`6.0.${"9".repeat(end - from - 4)}`, from);
        return undefined;
      };
      const backend = await backendOn(testClients, library, proxy.port, { ...QUARANTINE, checkReplicas: false });
      await expect(backend.attempt(brief())).rejects.toMatchObject(
        fatal(/Redis 6\.0\.9+ lets scripts write.*6\.2\.7/u),
      );
    });
  }

  for (const library of all) {
    test(`by every door: swaps and renewals are judged as attempts are, with ${library.name}`, async () => {
      await using testClients = new Clients();
      const server = await started(testClients);
      const backend = await backendOn(testClients, library, server.port, { ...QUARANTINE, checkReplicas: false });
      await backend.endQuarantine();
      const [held, other] = [claimOf(), claimOf()];
      for (const claim of [held, other]) await granted(backend, claim);
      const long = { ...rivalOf(held), ttlMs: 600_000 };
      const refusal = fatal(/asked for 10 m.*`maxTtl` is 1 m/u);
      await expect(backend.swap(held, long)).rejects.toMatchObject(refusal);
      await expect(backend.swap(held, rivalOf(held, { lockDelayMs: 1 }))).rejects.toMatchObject({ fatal: true });
      await expect(backend.swap(held, rivalOf(held, { minHoldMs: 60_001 }))).rejects.toMatchObject({ fatal: true });
      // As the command line does it: the same claim with another ttl. Its neighbour is renewed all the same.
      expect(await backend.renew([{ ...held, ttlMs: 600_000 }, other])).toEqual([
        { held: "unknown", cause: expect.objectContaining(refusal) as Error },
        { held: true },
      ]);
      const { held: holders, pending } = await backend.query(held.name);
      expect(pending).toEqual([]);
      expect(holders.map(({ remainingMs }) => remainingMs <= 60_000)).toEqual([true]);
      expect(await backend.swap(held, rivalOf(held))).toMatchObject({ granted: true, released: "held" });

      // A lock that no process asked for before: the primary is checked.
      const unfit = await backendOn(testClients, library, server.port, QUARANTINE);
      await expect(unfit.swap(other, rivalOf(other))).rejects.toMatchObject(fatal(/`min-replicas-to-write` is 0/u));
    });
  }

  test("also a ttl that waits behind another in its process; the others get the lock", async () => {
    await using testClients = new Clients();
    const server = await started(testClients);
    const backend = testClients.backend(server.port, { ...QUARANTINE, checkReplicas: false, run: 2 });
    await backend.endQuarantine();
    const locks = testClients.own(createLocks(backend, { ttl: "1m" }));
    const first = await locks.acquire("job");
    const take = (ttl: Duration): Promise<unknown> =>
      locks.acquire("job", { ttl, wait: "3m" }).then(async (lease) => {
        const leftMs = lease.remaining();
        await lease.release();
        return leftMs <= 60_000;
      });
    const waiting = Promise.allSettled((["1m", "10m", "1m", "10m"] as const).map(take));
    // They are in the local line now, and the release takes the first of them along.
    await new Promise((resolve) => setImmediate(resolve));
    expect(await first.release()).toBe("released");
    const refusal = { status: "rejected", reason: expect.objectContaining(fatal(/`maxTtl` is 1 m/u)) as Error };
    const served = { status: "fulfilled", value: true };
    expect(await waiting).toEqual([served, refusal, served, refusal]);
  });

  const rows: readonly (readonly [string, readonly string[], RegExp])[] = [
    ["min-replicas-to-write is 0", [], /`min-replicas-to-write` is 0/u],
    ["min-replicas-max-lag is 0", ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "0"], /max-lag` is 0/u],
    [
      "min-replicas-max-lag is longer than maxLag",
      ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "20"],
      /max-lag` is 20 s.*for 22 s.*`maxLag` is 10 s/u,
    ],
    ["CONFIG is forbidden and INFO shows no limit", ["--rename-command", "CONFIG", ""], /does not show/u],
  ];
  for (const [what, args, message] of rows) {
    test(`when ${what}`, async () => {
      await using testClients = new Clients();
      const server = await started(testClients, args);
      await expect(testClients.backend(server.port, QUARANTINE).attempt(brief())).rejects.toMatchObject(fatal(message));
    });
  }

  test("and not where CONFIG is forbidden but INFO shows the limit", async () => {
    await using testClients = new Clients();
    const server = await started(testClients, [...GUARDED, "--rename-command", "CONFIG", ""]);
    await expect(testClients.backend(server.port, QUARANTINE).attempt(brief())).rejects.toMatchObject({
      fatal: false,
      message: expect.stringContaining("too few replicas") as string,
    });
  });

  test("also when the server behind the same address is another one after a reconnect", async () => {
    await using testClients = new Clients();
    const primary = await started(testClients, GUARDED);
    await replicaOf(testClients, primary);
    const backend = testClients.backend(primary.port, QUARANTINE);
    await eventually("writes are accepted", () =>
      backend.endQuarantine().then(
        () => true as const,
        () => undefined,
      ),
    );
    await granted(backend, brief());
    await primary.cli("CONFIG", "SET", "min-replicas-max-lag", "20");
    await primary.cli("CLIENT", "KILL", "TYPE", "normal");
    const error = await eventually("it is looked at again", () =>
      backend.attempt(brief()).then(
        () => undefined,
        (reason: { fatal: boolean }) => (reason.fatal ? reason : undefined),
      ),
    );
    expect(error).toMatchObject(fatal(/max-lag` is 20 s/u));
  });
});

/** A lock on each of the nodes, and its claim. */
async function spread(lab: ClusterLab): Promise<ReadonlyMap<RedisServer, ReturnType<typeof claimOf>>> {
  const found: Map<RedisServer, ReturnType<typeof claimOf>> = new Map();
  while (found.size < 3) {
    const claim = brief();
    found.set(await lab.primaryOf(names.lock(claim.name)), claim);
  }
  return found;
}

describe.concurrent("a cluster with quarantine", () => {
  test("S159, S162: one primary that is not fit, or has no replica, keeps no lock of the others from being granted", async () => {
    await using testClients = new Clients();
    const lab = await startCluster({ args: GUARDED, nodeTimeoutMs: 60_000 });
    testClients.later(() => lab.stop());
    const opened = await Promise.all(all.map((library) => library.cluster(lab)));
    for (const { close } of opened) testClients.later(close);
    const first = testClients.own(redis((opened[0] as (typeof opened)[0]).client, QUARANTINE));
    await eventually("writes are accepted", () =>
      first.endQuarantine().then(
        () => true as const,
        () => undefined,
      ),
    );
    const [[unfit, there], [bare, here], [, elsewhere]] = [...(await spread(lab))] as [Spot, Spot, Spot];
    await unfit.cli("CONFIG", "SET", "min-replicas-to-write", "0");
    const replica = /slave0:ip=[^,]*,port=(\d+)/u.exec(await bare.cli("INFO", "replication"))?.[1];
    await lab.nodes.find(({ port }) => String(port) === replica)?.kill();
    await eventually("the shard accepts no writes", async () =>
      (await bare.cli("INFO", "replication")).includes("min_slaves_good_slaves:0") ? true : undefined,
    );
    for (const { client } of opened) {
      const backend = testClients.own(redis(client, QUARANTINE));
      const own = rivalOf(elsewhere);
      await granted(backend, own);
      await backend.release(own);
      await expect(backend.attempt(rivalOf(there))).rejects.toMatchObject(
        fatal(/no effect on .*min-replicas-to-write` is 0/u),
      );
      await expect(backend.attempt(rivalOf(here))).rejects.toMatchObject({ fatal: false });
    }
  });
});

/** A sign of life comes every third of it. */
const TICKET_MS = 6000;

/** Until when a waiter keeps its place, by the node that has its lock now; also in a slot that is half-way moved. */
async function ticketEnd(client: Redis, { name, id }: ReturnType<typeof claimOf>): Promise<number> {
  const [, record] = await Promise.all([client.call("ASKING"), client.hget(names.lock(name), `w${id}`)]);
  return Number(record?.split(" ")[0]);
}

type Spot = [RedisServer, ReturnType<typeof claimOf>];

describe("a cluster", () => {
  test("S162: while a slot is half-way moved, leases on both sides are renewed, and waiters stay alive", async () => {
    await using testClients = new Clients();
    const lab = await startCluster();
    testClients.later(() => lab.stop());
    const opened = await Promise.all(all.map((library) => library.cluster(lab)));
    for (const { close } of opened) testClients.later(close);
    for (const { client } of opened) {
      const backend = testClients.own(redis(client, { ticket: TICKET_MS }));
      const moved = claimOf();
      const slot = names.marker(names.lock(moved.name));
      const staying = await eventually(
        "another lock in the same slot",
        () => {
          const other = claimOf();
          return names.marker(names.lock(other.name)) === slot ? other : undefined;
        },
        { paceMs: 0 },
      );
      const rivals = [rivalOf(moved), rivalOf(staying)] as const;
      for (const claim of [moved, staying]) await granted(backend, claim);
      for (const rival of rivals) await refused(backend, rival);
      const from = await lab.primaryOf(names.lock(moved.name));
      const to = lab.nodes.slice(0, 3).find((node) => node !== from) as RedisServer;
      await lab.moveSlot(names.lock(moved.name), {
        whileMigrating: async () => {
          await from.cli("MIGRATE", to.host, String(to.port), names.lock(moved.name), "0", "5000", "AUTH", PASSWORD);
          expect(await backend.renew([moved, staying])).toMatchObject([{ held: true }, { held: true }]);
          // Without signs of life they would be gone from the queue with their tickets.
          for (const [waiter, { port }] of [
            [rivals[0], to],
            [rivals[1], from],
          ] as const) {
            const node = testClients.client(port);
            const end = await ticketEnd(node, waiter);
            expect(end).toBeGreaterThan(0);
            await eventually("a sign of life arrives", async () =>
              (await ticketEnd(node, waiter)) > end ? true : undefined,
            );
          }
        },
      });
    }
  });

  test("S164: one that has a shard which hangs can be opened, and its other shards used", async () => {
    await using testClients = new Clients();
    const lab = await startCluster({ nodeTimeoutMs: 600_000 });
    testClients.later(() => lab.stop());
    const [hung] = lab.nodes as [RedisServer];
    const spots = await spread(lab);
    hung.pause();
    for (const client of ["ioredis", "redis"]) {
      const backend = testClients.own(await openBackend(`${lab.url}?client=${client}`));
      for (const [node, claim] of spots) if (node !== hung) await granted(backend, claim);
      for (const [node, claim] of spots) if (node !== hung) await backend.release(claim);
    }
    hung.resume();
  });

  test("S146: a dozen backends on one Cluster client print no warning", async () => {
    await using testClients = new Clients();
    const lab = await startCluster();
    testClients.later(() => lab.stop());
    const warnings: string[] = [];
    const warn = (warning: Error): void => void warnings.push(warning.name);
    process.on("warning", warn);
    testClients.later(() => process.off("warning", warn));
    for (const library of all) {
      const { client, close } = await library.cluster(lab);
      testClients.later(close);
      const backends = Array.from({ length: 12 }, () => redis(client));
      await Promise.all(backends.map((backend) => granted(backend, claimOf())));
      await Promise.all(backends.map((backend) => backend.close()));
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).not.toContain("MaxListenersExceededWarning");
  });
});

describe.concurrent("a server that is demoted", () => {
  for (const library of all) {
    test(`S164: is no fatal error for one that only waited there, with ${library.name}`, async () => {
      await using testClients = new Clients();
      const [server, next] = [await started(testClients), await started(testClients)];
      const backend = await backendOn(testClients, library, server.port);
      const claim = claimOf();
      await granted(testClients.backend(server.port), claim);
      const waiter = rivalOf(claim);
      await refused(backend, waiter);
      await server.cli("REPLICAOF", "127.0.0.1", String(next.port));
      await expect(backend.attempt(waiter)).rejects.toMatchObject({
        fatal: false,
        message: expect.stringContaining("replica") as string,
      });
    });
  }
});

test("S140: after a planned fail-over redis+sentinel:// uses the new primary, not the old one for as long as it takes writes", async () => {
  await using testClients = new Clients();
  const lab = await startSentinels(UNHURRIED);
  testClients.later(() => lab.stop());
  const backend = testClients.own(await openBackend(`${lab.url}&client=ioredis`));
  await granted(backend, claimOf());
  await (lab.sentinels[0] as RedisServer).cli("SENTINEL", "FAILOVER", lab.service);
  const primary = await lab.failedOver(lab.primary.port);
  await eventually("a lease lies on the new primary", async () => {
    const claim = claimOf();
    const answer = await backend.attempt(claim).catch(() => undefined);
    const key = namesOf("holdfast", false).lock(claim.name);
    const moved = answer?.granted === true && (await primary.cli("HLEN", key)) !== "0";
    // In ten seconds or so the sentinels make the old one a replica: then all must notice.
    expect(await lab.primary.cli("INFO", "replication")).toContain("role:master");
    return moved ? true : undefined;
  });
});
