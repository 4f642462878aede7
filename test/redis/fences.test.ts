/** Runs of fences: long where many wait, and never so long that the counter gets far ahead of the clock below it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { namesOf } from "../../src/redis/names.ts";
import { claimOf, Desk, granted, refused, rivalOf } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

test("a lease has 64 fences, one for which others wait in its process has more, and a shared or limited one has one", async () => {
  await using desk = new Desk();
  const backend = desk.backend(server.port);
  const claim = claimOf();
  expect(await granted(backend, claim)).toMatchObject({ run: 64 });
  const next = rivalOf(claim);
  // The clock must have passed the first run.
  await new Promise((resolve) => setTimeout(resolve, 2));
  expect(await backend.swap(claim, next)).toMatchObject({ granted: true, run: 256 });
  expect(await granted(backend, claimOf({ mode: "shared" }))).toMatchObject({ run: 1 });
  expect(await granted(backend, claimOf({ limit: 2 }))).toMatchObject({ run: 1 });
});

test("while the counter is ahead of the clock a lease has one fence, however it comes by it, and all rise", async () => {
  await using desk = new Desk();
  const backend = desk.backend(server.port);
  const a = claimOf();
  const [b, c, d] = [rivalOf(a), rivalOf(a), rivalOf(a)];
  const ahead = BigInt(Date.now() + 3_600_000) * 1000n;
  await desk.client(server.port).hset(namesOf("holdfast", false).lock(a.name), "s", `${ahead} ${Date.now() + 60_000}`);
  expect(await granted(backend, a)).toMatchObject({ run: 1, fence: ahead + 1n });
  // A repeated attempt, as after a lost reply, tells the same.
  expect(await granted(backend, a)).toMatchObject({ run: 1, fence: ahead + 1n });
  expect(await backend.swap(a, b)).toMatchObject({ run: 1, fence: ahead + 2n });
  await refused(backend, c);
  const news = backend.watch(c, AbortSignal.timeout(10_000));
  await backend.release(b);
  expect(await news).toMatchObject({ run: 1, fence: ahead + 3n });
  await backend.release(c);
  expect(await granted(backend, d)).toMatchObject({ run: 1, fence: ahead + 4n });
});
