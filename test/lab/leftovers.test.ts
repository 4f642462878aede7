/** The looks past the backends can fail: each sees what is held, what waits, and what is none of ours, in a real store. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Backend, Claim } from "../../src/contract/backend.ts";
import { etcd } from "../../src/backends/etcd/index.ts";
import { file } from "../../src/backends/file/index.ts";
import {
  endlessInEtcd,
  leftInEtcd,
  leftInFiles,
  leftInQueues,
  leftInRedis,
  leftInZooKeeper,
  leftToSee,
} from "../../src/lab/leftovers.ts";
import { startEtcd } from "../../src/lab/servers/etcd.ts";
import { startRedis } from "../../src/lab/servers/redis.ts";
import { startZooKeeper } from "../../src/lab/servers/zookeeper.ts";
import { zookeeper } from "../../src/backends/zookeeper/index.ts";
import { claimOf, Clients, rivalOf } from "../backends/redis/lab.ts";

const SHAPES: readonly Partial<Claim>[] = [{}, { mode: "shared" }, { limit: 2 }];

/** Calls `look` while a claim holds, while another waits too, and when all have left. */
async function walk(
  backend: Backend,
  shape: Partial<Claim>,
  look: (prefix: string, stage: "held" | "queued" | "gone") => Promise<void>,
): Promise<void> {
  const claim = claimOf(shape);
  const holders = [claim, ...(shape.limit === undefined ? [] : [rivalOf(claim)])];
  for (const holder of holders) expect((await backend.attempt(holder)).granted).toBe(true);
  await look(claim.name, "held");
  expect((await leftToSee(backend, claim.name)).length).toBe(holders.length);
  const waiter = rivalOf(claim, shape.mode === "shared" ? { mode: "exclusive" } : {});
  expect((await backend.attempt(waiter)).granted).toBe(false);
  expect(await leftToSee(backend, claim.name)).toContain(`waiting claim of test:1 on ${claim.name}`);
  await look(claim.name, "queued");
  for (const one of [waiter, ...holders]) await backend.release(one);
  expect(await leftToSee(backend, claim.name)).toEqual([]);
  await look(claim.name, "gone");
}

test("in Redis", async () => {
  await using server = await startRedis();
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  for (const shape of SHAPES) {
    await walk(backend, shape, async (prefix, stage) => {
      const left = await leftInRedis(server, prefix);
      expect(left.some((what) => what.startsWith("a lease in holdfast:{"))).toBe(stage !== "gone");
      expect(left.some((what) => what.startsWith("a waiting claim in"))).toBe(stage === "queued");
      expect(left.length > 0).toBe(stage !== "gone");
    });
  }
  expect(await leftInRedis(server)).toEqual([]);
  await server.cli("SET", "stray", "1");
  expect((await leftInRedis(server)).toSorted()).toEqual([
    "a key that is no lock: stray",
    "a key without an end: stray",
  ]);
  await server.cli("DEL", "stray");
  // A dead process's record is no leftover once its time is over, though it stays until the lock is used again.
  const brief = claimOf({ ttlMs: 3000 });
  await backend.attempt(brief);
  expect(await leftInRedis(server, brief.name)).toHaveLength(1);
  await expect.poll(() => leftInRedis(server, brief.name), { timeout: 120_000 }).toEqual([]);
  await server.cli("HSET", "holdfast:{00}:torn", "q0000000000000001", "none");
  expect(await leftInRedis(server, "torn")).toContainEqual(expect.stringContaining("without a waiter"));
});

test("in files", async () => {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-"));
  try {
    const backend = file({ dir });
    for (const shape of SHAPES) {
      await walk(backend, shape, async (prefix, stage) => {
        expect(leftInQueues(dir, prefix).length).toBe(stage === "queued" ? 1 : 0);
        if (stage === "held") expect(leftInFiles(dir)).toContainEqual(expect.stringContaining("a lease file"));
      });
    }
    // Made when a claim waits.
    expect(leftInFiles(dir)).toContainEqual(expect.stringContaining("a socket"));
    await backend.close();
    expect(leftInFiles(dir)).toEqual([]);
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test("in ZooKeeper", async () => {
  await using lab = await startZooKeeper();
  const backend = zookeeper({ servers: lab.url.slice("zk://".length) });
  for (const shape of SHAPES) {
    await walk(backend, shape, async (prefix, stage) => {
      const left = await leftInZooKeeper(backend.client, prefix);
      if (stage === "gone") expect(left).toEqual([]);
      else expect(left.length).toBeGreaterThanOrEqual(stage === "queued" ? 2 : 1);
    });
  }
  expect(await leftInZooKeeper(backend.client)).toEqual([]);
  await backend.close();
});

test("in etcd", async () => {
  await using lab = await startEtcd();
  const backend = etcd({ endpoints: lab.endpoints });
  const { client } = backend;
  for (const shape of SHAPES) {
    await walk(backend, shape, async (prefix, stage) => {
      const left = await leftInEtcd(client, prefix);
      if (stage === "gone") expect(left).toEqual([]);
      else expect(left.length).toBeGreaterThanOrEqual(stage === "queued" ? 2 : 1);
    });
  }
  const worker = claimOf();
  const answer = await backend.attempt(worker);
  const fence = answer.granted ? answer.fence : 0n;
  await backend.release(worker, { value: "done", keepMs: 60_000, fence });
  expect(await leftInEtcd(client, worker.name)).toEqual([`/holdfast/%outcome/${worker.name}`]);
  await backend.forget(worker.name, fence);
  expect(await leftInEtcd(client)).toEqual([]);
  expect(await endlessInEtcd(client)).toEqual([]);
  await lab.etcdctl("put", "/holdfast/stray", "1");
  expect(await leftInEtcd(client)).toEqual(["/holdfast/stray"]);
  expect(await endlessInEtcd(client)).toEqual(["a key without an end: /holdfast/stray"]);
  await backend.close();
});
