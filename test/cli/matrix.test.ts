/**
 * Every step of the command line on every store: it does what it says, or is refused before anything is done. And when all steps
 * are over, nothing is left in the store. What can be seen from here is not asked by a process of its own, and what a step does
 * when it is repeated stands in stores.test.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import type { Backend, Snapshot } from "../../src/contract/backend.ts";
import { connect, openBackend } from "../../src/index.ts";
import { leftToSee } from "../../src/lab/leftovers.ts";
import { startCluster } from "../../src/lab/servers/cluster.ts";
import { startPostgres } from "../../src/lab/servers/postgres.ts";
import { startEtcd } from "../../src/lab/servers/etcd.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import { startSentinels } from "../../src/lab/servers/sentinels.ts";
import { startZooKeeper } from "../../src/lab/servers/zookeeper.ts";
import { LOGIN } from "../login.ts";
import { Bench, MAIN, type Result, SHIPPED, type Started, until } from "./harness.ts";

const bench = new Bench();
const servers: { stop(): Promise<void> }[] = [];

interface Store {
  readonly url: () => Promise<string>;
  /** Leases outlive the process that took them, so that they can be renewed and released by others. */
  readonly outlives: boolean;
  /** Other processes see them. */
  readonly common: boolean;
  /** No message reaches a holder: it learns with its next renewal, so that this is not far away. */
  readonly ttl?: string;
  /** False: a lease keeps the ttl that it was granted with. @default true */
  readonly otherTtl?: boolean;
}

async function stopped<Server extends { stop(): Promise<void> }>(started: Promise<Server>): Promise<Server> {
  const server = await started;
  servers.push(server);
  return server;
}

const STORES: Readonly<Record<string, Store>> = {
  file: { url: async () => bench.url, outlives: true, common: true },
  redis: { url: async () => (await stopped(startRedis())).url, outlives: true, common: true },
  "redis-plain": {
    url: async () => `${(await stopped(startRedis())).url}?layout=plain`,
    outlives: true,
    common: true,
  },
  redisson: {
    url: async () => `${(await stopped(startRedis())).url}?layout=redisson&kind=read-write`,
    outlives: true,
    common: true,
  },
  "redis+sentinel": { url: async () => (await stopped(startSentinels())).url, outlives: true, common: true },
  "redis+cluster": { url: async () => (await stopped(startCluster())).url, outlives: true, common: true },
  redlock: {
    url: async () => {
      const members = await Promise.all([1, 2, 3].map(() => stopped(startRedis())));
      return `redlock://${members.map(({ port }) => `${LOGIN}127.0.0.1:${port}`).join(",")}?memberWait=5s&maxTtl=10m`;
    },
    outlives: true,
    common: true,
  },
  postgres: {
    url: async () => `${(await stopped(startPostgres())).url}?migrate=true`,
    outlives: true,
    common: true,
  },
  shedlock: {
    url: async () => `${(await stopped(startPostgres())).url.replace("postgres:", "postgres+shedlock:")}?migrate=true`,
    outlives: true,
    common: true,
    ttl: "9s",
  },
  zookeeper: { url: async () => (await stopped(startZooKeeper())).url, outlives: false, common: true },
  etcd: { url: async () => (await stopped(startEtcd())).url, outlives: true, common: true, otherTtl: false },
  memory: { url: async () => "memory:", outlives: false, common: false },
};

afterAll(async () => {
  for (const server of servers) await server.stop();
  bench.close();
});

describe.concurrent.each(Object.entries(STORES))(
  "on %s",
  { concurrent: true },
  (store, { common, otherTtl = true, outlives, url, ttl: short }) => {
    let env: Record<string, string>;
    let backend: Backend;
    beforeAll(async () => {
      env = { HOLDFAST_URL: await url() };
      if (store === "redlock") expect((await on("doctor", "--init", "--quiet")).code).toBe(0);
      backend = await openBackend(env["HOLDFAST_URL"] as string);
    });
    afterAll(async () => {
      try {
        expect(await leftToSee(backend, ""), "left in the store").toEqual([]);
      } finally {
        await backend.close();
      }
    });

    const on = (command: string, ...args: string[]): Promise<Result> => bench.run([command, ...args], { env });
    const seen = (name: string): Promise<Snapshot> => backend.query(name);

    /** A process that holds the lock until it is asked to end. */
    async function holding(name: string, command: "run" | "elect"): Promise<Started> {
      // In ZooKeeper the session bounds it.
      const ttl = short ?? (outlives ? "10m" : "30s");
      const holder = bench.start([command, name, "--ttl", ttl, "--", "sh", "-c", "echo $HOLDFAST_FENCE; read x"], {
        env,
      });
      await until(() => /^\d+\n$/u.test(holder.stdout()), `${command} on ${store}: ${holder.stderr()}`);
      return holder;
    }

    async function ended(holder: Started): Promise<number | null> {
      holder.process.stdin?.end("\n");
      return (await holder.done).code;
    }

    test("acquire, renew and release, begun by the program as it is shipped", async () => {
      // To start it from hundreds of files is dear: once shows that it opens this store, and one store that its commands work.
      const main = store === "file" ? SHIPPED : MAIN;
      const on = (...args: string[]): Promise<Result> => bench.run(args, { env, main });
      const taken = await bench.run(["acquire", "steps", "-n", "--ttl", "5m"], { env, main: SHIPPED });
      const { code, stdout, stderr } = taken;
      if (!outlives) {
        expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
        expect(stderr).toContain("ends with the process that took it");
        expect((await on("renew", "steps", "--fence", "1")).code).toBe(64);
        expect((await on("release", "steps", "--fence", "1")).code).toBe(64);
        return;
      }
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      const fence = stdout.trim();
      expect((await seen("steps")).held).toEqual([expect.objectContaining({ fence: BigInt(fence) })]);
      const renewed = await on("renew", "steps", "--fence", fence, "--ttl", "10m");
      expect(renewed.code).toBe(otherTtl ? 0 : 69);
      if (!otherTtl) {
        expect(renewed.stderr).toContain("for the ttl that it began with only");
        expect((await on("renew", "steps", "--fence", fence, "--ttl", "5m")).code).toBe(0);
      }
      expect((await on("release", "steps", "--fence", fence)).code).toBe(0);
      expect((await seen("steps")).held).toEqual([]);
      expect((await on("renew", "steps", "--fence", fence)).code).toBe(76);
    });

    test("renew and release on another machine, by the claim alone (S134): its minHold counts", async () => {
      if (!outlives) return;
      const taken = await on("acquire", "moved", "-n", "--ttl", "5m", "--min-hold", "5m", "--json", "--show-claim");
      const { claim, fence } = JSON.parse(taken.stdout) as { readonly claim: string; readonly fence: string };
      const elsewhere = { ...env, HOLDFAST_STATE_DIR: bench.path(`elsewhere-${store}`) };
      const there = (command: string, ...args: string[]): Promise<Result> =>
        bench.run([command, "moved", ...args], { env: elsewhere });
      expect((await there("renew", "--claim", claim, "--ttl", "5m")).code).toBe(0);
      expect((await there("release", "--claim", claim)).code).toBe(0);
      await using locks = await connect(env["HOLDFAST_URL"] as string);
      expect(await locks.tryAcquire("moved")).toBeNull();
      expect(await locks.forceRelease("moved", { fence: BigInt(fence), reason: "the day is over" })).toBe(true);
    });

    test("run, and what others see of it: show, ls, wait and a second run", async () => {
      const holder = await holding("job", "run");
      const fence = holder.stdout().trim();
      const { code, stdout } = await on("show", "job", "--json");
      const held = common ? [expect.objectContaining({ fence }) as unknown] : [];
      expect({ code, shown: JSON.parse(stdout) }).toMatchObject({ code: common ? 0 : 1, shown: { held } });
      expect((await on("ls", "jo", "-q")).stdout).toBe(common ? "job\n" : "");
      expect((await on("wait", "job", "-n")).code).toBe(common ? 75 : 0);
      expect((await on("run", "job", "-n", "--", "true")).code).toBe(common ? 75 : 0);
      expect(await ended(holder)).toBe(0);
      expect((await on("wait", "job", "-w", "1m")).code).toBe(0);
    });

    test("once: the second one does not run it, or it is refused with the reason where outcomes cannot be kept", async () => {
      const can = backend.can?.outcomes;
      for (const printed of [can === true ? "ran\n" : "", common ? "" : "ran\n"]) {
        const { code, stdout, stderr } = await on("once", "slot", "--keep", "1h", "--", "echo", "ran");
        expect({ code, stdout }).toEqual({ code: can === true ? 0 : 69, stdout: printed });
        if (can !== true) expect(stderr).toContain("cannot keep what the work comes to");
      }
      const { outcome } = await backend.inspect("slot");
      if (outcome !== undefined) expect(await backend.forget?.("slot", outcome.fence)).toBe(true);
    });

    test("elect", async () => {
      const holder = await holding("office", "elect");
      expect((await seen("office")).held).toHaveLength(common ? 1 : 0);
      expect(await ended(holder)).toBe(0);
      expect((await seen("office")).held).toEqual([]);
    });

    test("release by force ends the lease of a living run, which says so, and is on record", async () => {
      const holder = await holding("stuck", "run");
      const fence = holder.stdout().trim();
      const forced = await on("release", "stuck", "--fence", fence, "--reason", "deploy 17 hangs");
      if (!common) {
        // No other process's memory can be reached.
        expect(forced.code).not.toBe(0);
        expect(await ended(holder)).toBe(0);
        return;
      }
      expect(forced).toMatchObject({ code: 0 });
      expect(await holder.done).toMatchObject({
        code: 76,
        stderr: expect.stringContaining("deploy 17 hangs") as string,
      });
      const shown = await seen("stuck");
      expect(shown.held).toEqual([]);
      // ZooKeeper keeps the record in the lock's own node, and removes that when it is idle.
      if (store === "zookeeper" && shown.forced.length === 0) return;
      expect(shown.forced).toEqual([expect.objectContaining({ reason: "deploy 17 hangs" })]);
    });
  },
);
