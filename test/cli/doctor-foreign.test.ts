/** `doctor --foreign` on a Redis with real locks of other libraries. */
import { Redis } from "ioredis";
import { Mutex, Semaphore } from "redis-semaphore";
import { afterAll, beforeAll, expect, test } from "vitest";
import { examineForeign } from "../../src/cli/doctor/foreign.ts";
import { redisPlain } from "../../src/backends/redis-plain/index.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { newClaim } from "../../src/testing/claim.ts";
import { PASSWORD } from "../login.ts";

let server: RedisServer;
let client: Redis;
beforeAll(async () => {
  server = await startRedis();
  client = new Redis({ port: server.port, password: PASSWORD });
});
afterAll(async () => {
  client.disconnect();
  await server.stop();
});

const examine = (): ReturnType<typeof examineForeign> =>
  examineForeign({ url: server.url, selfTest: false, init: false, say: () => undefined });

async function dumps(): Promise<readonly (string | null)[]> {
  const keys = (await client.keys("*")).toSorted();
  return Promise.all(keys.map(async (key) => `${key} ${await client.dump(key)}`));
}

test("says whose keys are locks and which layout or drop-in shares them; changes nothing, and shows no value", async () => {
  expect((await examine()).findings).toMatchObject([{ text: "no key looks like a lock" }]);
  const mutex = new Mutex(client, "m", { lockTimeout: 60_000 });
  await mutex.acquire();
  await redisPlain(client).attempt(newClaim({ name: "ours", ttlMs: 60_000 }));
  const uuid1 = "6b1f5c2ac46511f0a1b20242ac120002";
  await client.set("py", uuid1, "PX", 60_000);
  await client.set("cache", "<html>", "PX", 60_000);
  await client.hset("java", "0f8fad5b-d9cb-469f-a165-70867728950e:31", "1");
  await client.hset("java's writer", { mode: "write", "0f8fad5b-d9cb-469f-a165-70867728950e:31:write": "1" });
  await client.set("bull:mail:7:lock", "x", "PX", 60_000);
  const semaphore = new Semaphore(client, "s", 2, { lockTimeout: 60_000 });
  await semaphore.acquire();
  await client.set("red", "0123456789abcdef0123456789abcdef", "PX", 60_000);
  const before = await dumps();
  expect(before).toHaveLength(10);
  const report = await examine();
  expect(await dumps()).toEqual(before);
  const texts = report.findings.map(({ text }) => text);
  expect(texts.toSorted()).toEqual([
    'BullMQ (jobs): 1, "bull:mail:7:lock"; leave them: they belong to its queues',
    'Holdfast, layout=plain: 1, "ours"; nothing is to be done',
    expect.stringMatching(/^Redisson \(hashes\): 2, .*; layout=redisson, and not layout=plain, shares them$/u),
    'redis-py: 1, "py"; layout=plain shares them',
    'redis-semaphore, mutexes: 1, "mutex:m"; layout=plain shares them, with prefix=mutex:, and so does holdfast/redis-semaphore',
    'redis-semaphore, semaphores: 1, "semaphore:s"; no layout shares them; the drop-in holdfast/redis-semaphore does',
    'redlock (npm): 1, "red"; layout=plain shares them, and so does holdfast/redlock',
  ]);
  expect(JSON.stringify(report)).not.toContain(uuid1.slice(0, 8));
  await mutex.release();
  await semaphore.release();
});
