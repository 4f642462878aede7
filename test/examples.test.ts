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

/** The same in each framework. */
const HTTP = [
  /^charging 100\n201 \{"paid":100\} replayed: null\n201 \{"paid":100\} replayed: true\n/,
  /^this request has the order, another one gets 409$/m,
];
const REFUSED = /^refused: ERR_FENCE_REJECTED$/m;

/** What each example prints, whatever the fences are. */
const EXAMPLES: Readonly<Record<string, readonly RegExp[]>> = {
  "demo.mjs": [/ada .*▶ prints[^]*ben .*▶ prints[^]*cyd .*▶ prints/, /✗ refused: ERR_FENCE_REJECTED/],
  "cron.mjs": [/^pod-[abc]: running the report, fence \d+$/m, /(another pod does it\s[^]*){2}/],
  "leader.mjs": [/(\w+ leads, fence \d+\n\w+ steps down\n){3}/, /term to term: true/],
  "shared.mjs": [/(reads "spring" together with 2 others\n\w* ?){3}/, /writes "summer" while 0 read/],
  "limit.mjs": [/^10 files, never more than 3 at a time$/m],
  "several.mjs": [/^account 1: 90, account 2: 110, together: 200$/m],
  "once-per-slot.mjs": [/^3 runs of 3 slots by 3 pods$/m, /^fences rise from run to run: true$/m],
  "bullmq.mjs": [
    /^8 orders, never more than 1 of a customer at a time, different customers together: true$/m,
    /^in order: ada 0, 2, 4, 6; ben 1, 3, 5, 7$/m,
  ],
  "express.mjs": HTTP,
  "fastify.mjs": HTTP,
  "hono.mjs": HTTP,
  "console.mjs": [
    /^a stranger: 403, ben: 200$/m,
    /^ben may not end it: 403$/m,
    /^audit: ada release report:nightly done: it hangs$/m,
    /^the holder hears why: ended by force by ada: it hangs$/m,
  ],
  "fence-etcd.mjs": [REFUSED, /the invoice is paid/],
  "fence-file.mjs": [REFUSED, /written by the next holder/],
  "fence-http.mjs": [/^not sent: ERR_LOCK_LOST$/m, REFUSED, /the invoice is paid/],
  "fence-object-store.mjs": [REFUSED, /written by the next holder/],
  "fence-postgres.mjs": [/(refused: ERR_FENCE_REJECTED\n.*by the next holder.*\n){2}/],
  "postgres.mjs": [
    /^(?:ada|ben) sends, fence \d+\n(?:ada|ben) sends, fence \d+\nadding up\ntotal 4711, and again 4711, replayed: true\n/,
    /^in a transaction, alone$/m,
  ],
  "telemetry.mjs": [
    /^log: an acquire of lock order:4711 has waited for \d+ ms, and still does/m,
    /(trace: charge is inside "hold order:\{id\}", inside "(?:ada|ben|cyd)"\n){3}/,
    /(trace: (?:ben|cyd) waited for ada\n){2}/,
    /^holdfast_acquire_duration_seconds_count\{.*template="order:\{id\}",outcome="acquired"\} 3$/m,
    /^holdfast_held\{.*\} 0$/m,
    /^metric: holdfast\.acquire\.duration of order:\{id\}, 3 times$/m,
  ],
  "redis-plain.mjs": [
    /^the new pod holds it; the old one gets it: false\nthe old pod holds it; the new one gets it: false\nthe new pod had its turn\n/,
  ],
  "web-locks.mjs": [
    /^sync, exclusive\nanother process holds it; we get it: false\nsync is held, exclusive\na fence that rises: bigint\n/,
    /^stolen$/m,
    /^AbortError, ERR_LOCK_LOST$/m,
  ],
  "verrou.mjs": [
    /^running, fence: bigint, lost: false\nanother process gets it: false\n/,
    /^ERR_LOCK_LOST: ended by force by …: restored and released elsewhere\nheld: false$/m,
  ],
  "redlock.mjs": [
    /^the new pod holds both; the old one gets account:1: false$/m,
    /^the old pod holds it; the new one gets an ExecutionError: true$/m,
    /^the next fence is greater: true$/m,
  ],
  "redis-semaphore.mjs": [
    /^the new pod holds it; the old one gets it: false\nlost: false, with a fence: true$/m,
    /^two of two hold; a third gets it: false$/m,
  ],
  "fence-redis.mjs": [REFUSED, /the invoice is paid/],
  "fence-zookeeper.mjs": [REFUSED, /the invoice is paid/],
};

/** Parts of an example, not examples; what is compiled first, in test/adapters/nestjs-compiled.test.ts; and what `npm run test:next` builds. */
const PARTS = new Set(["object-store.mjs", "nestjs", "nextjs"]);

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
