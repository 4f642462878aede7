import "../fixed-seed.ts";
import fc from "fast-check";
import { Cluster, Redis } from "ioredis";
import { Redis as Redis6 } from "ioredis6";
import { createClient, createCluster } from "redis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";

import { FenceRejectedError } from "../../src/fence/index.ts";
import { fenceKey, type RedisLike, redisMarks, writeFenced } from "../../src/fence/redis/index.ts";
import { startProxy } from "../../src/lab/proxy.ts";
import { type ClusterLab, startCluster } from "../../src/lab/servers/cluster.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { rejectionsOf } from "./rejections.ts";
import { greatest, race, rises, writers } from "./writers.ts";
import { PASSWORD } from "../login.ts";

const BEYOND_DOUBLES = 2n ** 53n + 1n;

let server: RedisServer;
let ioredis: Redis;
let clients: Record<string, RedisLike>;
const closers: (() => unknown)[] = [];

beforeAll(async () => {
  server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
  ioredis = new Redis(server.url);
  const six = new Redis6(server.url);
  const nodeRedis = await createClient({ url: server.url }).connect();
  // A restart cuts every connection: the clients come back by themselves.
  const ignore = (): void => {};
  ioredis.on("error", ignore);
  six.on("error", ignore);
  nodeRedis.on("error", ignore);
  clients = { "ioredis 5": ioredis, "ioredis 6": six, "node-redis 6": nodeRedis };
  closers.push(
    () => ioredis.disconnect(),
    () => six.disconnect(),
    () => nodeRedis.destroy(),
    () => server.stop(),
  );
});

afterAll(async () => {
  for (const close of closers) await close();
});

beforeEach(async () => {
  await ioredis.flushall();
  await ioredis.script("FLUSH");
});

const at = (fence: bigint): { name: string; fence: bigint } => ({ name: "invoice:42", fence });

async function refusal(work: Promise<unknown>): Promise<FenceRejectedError> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(FenceRejectedError);
  return error as FenceRejectedError;
}

describe.each(["ioredis 5", "ioredis 6", "node-redis 6"])("writeFenced with %s", (name) => {
  const write = (fence: bigint, value: string): Promise<unknown[]> =>
    writeFenced(clients[name] as RedisLike, at(fence), [["SET", "total", value]]);

  test("accepts a rising fence and an equal one, refuses a lower one, and leaves the value alone then", async () => {
    expect(await write(34n, "a")).toEqual(["OK"]);
    expect(await write(34n, "b")).toEqual(["OK"]);
    expect(await refusal(write(33n, "stale"))).toMatchObject({ lock: "invoice:42", current: 34n, offered: 33n });
    expect(await ioredis.get("total")).toBe("b");
    await write(35n, "c");
    expect(await ioredis.get("total")).toBe("c");
  });

  test("distinguishes neighbours above 2^53, and numbers of different length", async () => {
    await write(BEYOND_DOUBLES, "a");
    expect(await refusal(write(BEYOND_DOUBLES - 1n, "b"))).toMatchObject({ current: BEYOND_DOUBLES });
    expect(await refusal(write(999n, "b"))).toMatchObject({ offered: 999n });
    await write(10n ** 18n, "c");
    expect(await ioredis.get("total")).toBe("c");
  });

  test("runs several commands of any kind and gives their replies", async () => {
    const replies = await writeFenced(clients[name] as RedisLike, at(1n), [
      ["HSET", "h", "field", "wert ü", "n", 7],
      ["HGET", "h", "field"],
      ["GET", "nothing"],
      ["INCRBY", "count", 5n],
      ["SET", "bytes", Buffer.from([0, 255, 10])],
      ["DEL", "nothing"],
    ]);
    expect(replies).toEqual([2, "wert ü", null, 5, "OK", 0]);
    expect(await ioredis.getBuffer("bytes")).toEqual(Buffer.from([0, 255, 10]));
  });
});

describe("the mark", () => {
  test("survives a restart of the server", async () => {
    await writeFenced(ioredis, at(34n), [["SET", "total", "a"]]);
    await server.restart();
    expect(await refusal(writeFenced(ioredis, at(33n), [["SET", "total", "b"]]))).toMatchObject({ current: 34n });
  });

  test("has no ttl, and a key of its own for each lock", async () => {
    await writeFenced(ioredis, at(34n), []);
    expect(await ioredis.pttl(fenceKey("invoice:42"))).toBe(-1);
    const names = ["x", "{x}", "a{x}", "a{x}b", "{", "}", "{}", "", "{{x}}", ":{x}"];
    expect(new Set(names.map((name) => fenceKey(name))).size).toBe(names.length);
  });

  test("is never read from other data in its key", async () => {
    for (const foreign of ["", "x", "-1", "1e9", "{}"]) {
      await ioredis.set(fenceKey("invoice:42"), foreign);
      await expect(writeFenced(ioredis, at(34n), [["SET", "total", "a"]])).rejects.toThrow(/to hold a fence/);
      expect(await ioredis.get("total")).toBeNull();
      expect(await ioredis.get(fenceKey("invoice:42"))).toBe(foreign);
    }
  });
});

test("wrong arguments are refused before anything is sent", async () => {
  const many = Array.from({ length: 6000 }, () => "x");
  await expect(writeFenced(ioredis, at(1n), [["RPUSH", "list", ...many]])).rejects.toThrow(TypeError);
  await expect(writeFenced(ioredis, at(1n), [["SET"] as unknown as ["SET", "k"]])).rejects.toThrow(TypeError);
  await expect(writeFenced({} as RedisLike, at(1n), [])).rejects.toThrow(/ioredis or node-redis/);
  expect(await ioredis.dbsize()).toBe(0);
});

test("an older fence never wins, whatever the pauses", async () => {
  const all = Object.values(clients);
  await fc.assert(
    fc.asyncProperty(writers, async (drawn) => {
      await ioredis.flushall();
      const accepted = await race(drawn, ({ fence }, index) =>
        writeFenced(all[index % all.length] as RedisLike, at(fence), [
          ["RPUSH", "journal", fence],
          ["SET", "total", fence],
        ]),
      );
      const journal = (await ioredis.lrange("journal", 0, -1)).map(BigInt);
      expect(rises(journal)).toBe(true);
      expect(journal).toHaveLength(accepted.length);
      expect(BigInt((await ioredis.get("total")) ?? 0)).toBe(greatest(drawn.map(({ fence }) => fence)));
    }),
    { numRuns: 60 },
  );
});

test("a write that the network held back until the next holder had written is refused (S05)", async () => {
  await using proxy = await startProxy({ port: server.port });
  const slow = new Redis(proxy.port, proxy.host, { password: PASSWORD });
  try {
    await slow.ping();
    proxy.hang("requests");
    const late = refusal(writeFenced(slow, at(33n), [["SET", "total", "late"]]));
    await writeFenced(ioredis, at(34n), [["SET", "total", "next"]]);
    await proxy.heal();
    expect(await late).toMatchObject({ current: 34n, offered: 33n });
    expect(await ioredis.get("total")).toBe("next");
  } finally {
    slow.disconnect();
  }
});

test("redisMarks raises the mark, repeats it, and answers with the higher one", async () => {
  for (const client of Object.values(clients)) {
    const marks = redisMarks(client);
    await ioredis.flushall();
    expect(await marks.advance("a", BEYOND_DOUBLES)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("a", BEYOND_DOUBLES)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("a", BEYOND_DOUBLES - 1n)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("b", 1n)).toBe(1n);
  }
});

test("a refusal is published, with the lock and both fences", async () => {
  await writeFenced(ioredis, at(34n), []);
  const events = await rejectionsOf(() => refusal(writeFenced(ioredis, at(33n), [])));
  expect(events).toEqual([{ guard: "redis", name: "invoice:42", current: 34n, offered: 33n }]);
});

describe("in a cluster", () => {
  let lab: ClusterLab;
  let cluster: Cluster;
  let nodeCluster: Awaited<ReturnType<typeof connectNodeCluster>>;

  const connectNodeCluster = () =>
    createCluster({
      rootNodes: lab.nodes.map(({ url }) => ({ url })),
      defaults: { password: PASSWORD },
    }).connect();

  beforeAll(async () => {
    lab = await startCluster();
    cluster = new Cluster(
      lab.nodes.map(({ port, host }) => ({ port, host })),
      { redisOptions: { password: PASSWORD } },
    );
    nodeCluster = await connectNodeCluster();
    closers.unshift(
      () => cluster.disconnect(),
      () => nodeCluster.destroy(),
      () => lab.stop(),
    );
  });

  test("data tagged with the lock's name, or sharing its tag, is written under the fence", async () => {
    for (const client of [cluster, nodeCluster]) {
      for (const [lock, key] of [
        ["invoice:42", "{invoice:42}:total"],
        ["invoice:{42}", "lines:{42}"],
        ["other", "{other}"],
      ] as const) {
        await writeFenced(client, { name: lock, fence: 34n }, [["SET", key, "a"]]);
        const stale = writeFenced(client, { name: lock, fence: 33n }, [["SET", key, "b"]]);
        expect(await refusal(stale)).toMatchObject({ lock, current: 34n });
        expect(await cluster.get(key)).toBe("a");
      }
    }
  });

  test("data in another slot is refused with the reason, unless the mark is put there", async () => {
    for (const client of [cluster, nodeCluster]) {
      const write = writeFenced(client, at(34n), [["SET", "elsewhere", "a"]]);
      await expect(write).rejects.toThrow(/hash tag/);
    }
    await writeFenced(cluster, at(34n), [["SET", "elsewhere", "a"]], { mark: "{elsewhere}:fence" });
    const stale = writeFenced(cluster, at(33n), [["SET", "elsewhere", "b"]], { mark: "{elsewhere}:fence" });
    expect(await refusal(stale)).toMatchObject({ current: 34n });
  });
});
