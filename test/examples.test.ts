/**
 * Every example runs, as a program of its own, against the built package and real servers, prints what it should, ends by
 * itself, and leaves nothing in the store.
 */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { leftInEtcd, leftInFiles, leftInRedis, leftInZooKeeper } from "../src/lab/leftovers.ts";
import { type EtcdLab, startEtcd } from "../src/lab/servers/etcd.ts";
import { type PostgresServer, startPostgres } from "../src/lab/servers/postgres.ts";
import { type RedisServer, startRedis } from "../src/lab/servers/redis.ts";
import { startZooKeeper, type ZooKeeperLab } from "../src/lab/servers/zookeeper.ts";
import { EtcdClient } from "../src/backends/etcd/index.ts";
import { ZooKeeperClient } from "../src/backends/zookeeper/index.ts";
import { ROOT } from "./dist.ts";

const REFUSED = /^refused: ERR_FENCE_REJECTED$/m;

/** What each example prints, whatever the fences are. */
const EXAMPLES: Readonly<Record<string, readonly RegExp[]>> = {
  "demo.mjs": [/ada .*▶ prints[^]*ben .*▶ prints[^]*cyd .*▶ prints/, /✗ refused: ERR_FENCE_REJECTED/],
  "cron.mjs": [/^pod-[abc]: running the report, fence \d+$/m, /(another pod does it\s[^]*){2}/],
  "leader.mjs": [/(\w+ leads, fence \d+\n\w+ steps down\n){3}/, /term to term: true/],
  "shared.mjs": [/(reads "spring" together with 2 others\n\w* ?){3}/, /writes "summer" while 0 read/],
  "limit.mjs": [/^10 files, never more than 3 at a time$/m],
  "several.mjs": [/^account 1: 90, account 2: 110, together: 200$/m],
  "fence-etcd.mjs": [REFUSED, /the invoice is paid/],
  "fence-file.mjs": [REFUSED, /written by the next holder/],
  "fence-http.mjs": [/^not sent: ERR_LOCK_LOST$/m, REFUSED, /the invoice is paid/],
  "fence-object-store.mjs": [REFUSED, /written by the next holder/],
  "fence-postgres.mjs": [/(refused: ERR_FENCE_REJECTED\n.*by the next holder.*\n){2}/],
  "postgres.mjs": [
    /^(?:ada|ben) sends, fence \d+\n(?:ada|ben) sends, fence \d+\nadding up\ntotal 4711, and again 4711, replayed: true\n/,
    /^in a transaction, alone$/m,
  ],
  "fence-redis.mjs": [REFUSED, /the invoice is paid/],
  "fence-zookeeper.mjs": [REFUSED, /the invoice is paid/],
};

/** Parts of an example, not examples. */
const PARTS = new Set(["object-store.mjs"]);

let redis: RedisServer;
let postgres: PostgresServer;
let zookeeper: ZooKeeperLab;
let etcd: EtcdLab;
let state: string;

/** Where an example's locks are: beside its data where that can be, else in files. */
function locksOf(name: string): string {
  if (name === "fence-redis.mjs") return redis.url;
  if (name === "fence-etcd.mjs") return etcd.url;
  return name === "fence-zookeeper.mjs" ? zookeeper.url : `file:${state}`;
}

/** What lies in the stores now: an example that ended by itself has closed its locks, and so left nothing at all. */
async function left(): Promise<readonly string[]> {
  const client = new ZooKeeperClient({ servers: `127.0.0.1:${zookeeper.servers[0]?.port}` });
  const etcdClient = new EtcdClient({ endpoints: etcd.endpoints });
  try {
    const inServers = [leftInRedis(redis, ""), leftInZooKeeper(client), leftInEtcd(etcdClient)];
    return [...leftInFiles(state), ...(await Promise.all(inServers)).flat()];
  } finally {
    await Promise.all([client.close(), etcdClient.close()]);
  }
}

beforeAll(async () => {
  state = await mkdtemp(join(tmpdir(), "holdfast-examples-"));
  [redis, postgres, zookeeper, etcd] = await Promise.all([
    startRedis(),
    startPostgres(),
    startZooKeeper(),
    startEtcd(),
  ]);
});

afterAll(async () => {
  await Promise.all([redis?.stop(), postgres?.stop(), zookeeper?.stop(), etcd?.stop()]);
  await rm(state, { recursive: true });
});

test("every example is run here", () => {
  const files = readdirSync(join(ROOT, "examples")).filter((name) => !PARTS.has(name));
  expect(files.toSorted()).toEqual(Object.keys(EXAMPLES).toSorted());
});

test("no example ends itself: that would hide what keeps it alive", () => {
  const texts = Object.keys(EXAMPLES).map((name) => [name, readFileSync(join(ROOT, "examples", name), "utf8")]);
  expect(texts.filter(([, text]) => /process\.(exit|kill|abort)\b/.test(text ?? ""))).toEqual([]);
});

test.each(Object.keys(EXAMPLES))("%s runs, ends by itself, prints what it should and leaves nothing", async (name) => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [`examples/${name}`], {
    cwd: ROOT,
    timeout: 180_000,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOLDFAST_URL: locksOf(name),
      REDIS_URL: redis.url,
      DATABASE_URL: postgres.url,
      ZOOKEEPER: `127.0.0.1:${zookeeper.servers[0]?.port}`,
      ETCD: etcd.endpoints,
    },
  });
  for (const pattern of EXAMPLES[name] ?? []) expect(stdout).toMatch(pattern);
  expect(stderr).toBe("");
  expect(await left()).toEqual([]);
});

describe("the pages", () => {
  test.each(["docs/fencing.md", "docs/concepts.md"])("%s names only examples that exist", (page) => {
    const named = [...readFileSync(join(ROOT, page), "utf8").matchAll(/examples\/([\w-]+\.mjs)/g)].map(
      ([, name]) => name,
    );
    expect(named.filter((name) => !Object.hasOwn(EXAMPLES, name ?? ""))).toEqual([]);
  });
});
