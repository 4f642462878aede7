/** Runs of fences: long where many wait, and never so long that the counter gets far ahead of the clock below it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Granted } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { claimOf, Clients, granted, refused, rivalOf } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

test("a lease has 64 fences, one for which others wait in its process has more, and a shared or limited one has one", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const claim = claimOf();
  expect(await granted(backend, claim)).toMatchObject({ run: 64 });
  const next = rivalOf(claim);
  // The clock must have passed the first run.
  await new Promise((resolve) => setTimeout(resolve, 2));
  expect(await backend.swap(claim, next)).toMatchObject({ granted: true, run: 256 });
  expect(await granted(backend, claimOf({ mode: "shared" }))).toMatchObject({ run: 1 });
  expect(await granted(backend, claimOf({ limit: 2 }))).toMatchObject({ run: 1 });
});

test("while the counter is ahead of the clock a lease on a free lock has one fence, and all rise", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const a = claimOf();
  const [b, c, d] = [rivalOf(a), rivalOf(a), rivalOf(a)];
  const ahead = BigInt(Date.now() + 3_600_000) * 1000n;
  await testClients
    .client(server.port)
    .hset(namesOf("holdfast", false).lock(a.name), "s", `${ahead} ${Date.now() + 60_000}`);
  expect(await granted(backend, a)).toMatchObject({ run: 1, fence: ahead + 1n });
  // A repeated attempt, as after a lost reply, tells the same.
  expect(await granted(backend, a)).toMatchObject({ run: 1, fence: ahead + 1n });
  const swapped = (await backend.swap(a, b)) as Granted;
  expect(swapped).toMatchObject({ fence: ahead + 2n });
  await refused(backend, c);
  const news = backend.watch(c, AbortSignal.timeout(10_000));
  await backend.release(b);
  const handed = await news;
  expect(handed).toMatchObject({ fence: ahead + 2n + BigInt(swapped.run) });
  await backend.release(c);
  expect(await granted(backend, d)).toMatchObject({ run: 1, fence: handed!.fence + BigInt(handed!.run) });
});

test("S164: after a clock that went an hour ahead and back, leases that follow each other have runs again, and the clock catches up", async () => {
  await using testClients = new Clients();
  const [backend, rival] = [testClients.backend(server.port), testClients.backend(server.port)];
  const client = testClients.client(server.port);
  const leadOf = async ({ fence, run }: Granted): Promise<bigint> => {
    const [seconds, micros] = (await client.time()) as unknown as [string, string];
    return fence + BigInt(run) - BigInt(seconds) * 1_000_000n - BigInt(micros);
  };
  const claim = claimOf();
  const ahead = BigInt(Date.now() + 3_600_000) * 1000n;
  await client.hset(namesOf("holdfast", false).lock(claim.name), "s", `${ahead} ${Date.now() + 60_000}`);
  // Inside one process by swap, and from process to process.
  for (const way of ["swap", "hand-over"] as const) {
    let held = rivalOf(claim);
    const first = await granted(backend, held);
    const firstLead = await leadOf(first);
    let last = first;
    const runs: number[] = [];
    for (let i = 0; i < 300; i++) {
      const next = rivalOf(claim);
      if (way === "swap") {
        last = (await backend.swap(held, next)) as Granted;
      } else {
        await refused(rival, next);
        const news = rival.watch(next, AbortSignal.timeout(10_000));
        await backend.release(held);
        last = (await news) ?? (await granted(rival, next));
        await rival.release(next);
        await granted(backend, next);
      }
      runs.push(last.run);
      held = next;
    }
    expect(Math.max(...runs)).toBeGreaterThanOrEqual(64);
    expect(Math.max(...runs)).toBeLessThanOrEqual(500);
    // Runs are spent more slowly than time passes: the counter does not get farther ahead.
    expect(await leadOf(last)).toBeLessThan(firstLead);
    await backend.release(held);
  }
});
