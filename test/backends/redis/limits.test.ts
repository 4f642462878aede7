/** Which limit a lock has: that of the exclusive claims which hold it or wait for it, until none is left. Others are refused with it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import type { RedisBackend } from "../../../src/backends/redis/index.ts";
import { claimOf, Clients, granted, refused, rivalOf } from "./lab.ts";

let server: RedisServer;
let clients: Clients;
let backend: RedisBackend;
beforeAll(async () => {
  server = await startRedis();
  clients = new Clients();
  // However busy the machine: no ticket and no lease ends meanwhile.
  backend = clients.backend(server.port, { ticket: "30m" });
});
afterAll(async () => {
  await clients[Symbol.asyncDispose]();
  await server.stop();
});

const first = (change: Partial<Claim> = {}): Claim => claimOf({ ttlMs: 3_600_000, ...change });
const conflict = async (asked: Promise<unknown>, inForce: number): Promise<void> => {
  await expect(asked).rejects.toMatchObject({ inForce, fatal: true });
};
const heldBy = async ({ name }: Claim): Promise<readonly number[]> =>
  (await backend.query(name)).held.map(({ limit }) => limit);

test("a claim with another limit is refused while one holds it, and not when all have left", async () => {
  for (const [one, other] of [
    [1, 2],
    [3, 2],
    [3, 1],
  ] as const) {
    const claim = first({ limit: one });
    const another = rivalOf(claim, { limit: other });
    await granted(backend, claim);
    await conflict(backend.attempt(another), one);
    const { held, pending } = await backend.query(claim.name);
    expect([held.length, pending]).toEqual([1, []]);
    await backend.release(claim);
    await granted(backend, another);
  }
});

test("readers have none, so that one who waits for them brings his own; it counts while he waits, and then no more", async () => {
  const reader = first({ mode: "shared" });
  const writer = rivalOf(reader, { mode: "exclusive", limit: 3 });
  await granted(backend, reader);
  for (const limit of [1, 2, 3]) await refused(backend, rivalOf(writer, { limit, queues: false }));
  await refused(backend, writer);
  await conflict(backend.attempt(rivalOf(writer, { limit: 2 })), 3);
  await refused(backend, rivalOf(writer, { queues: false }));
  expect(await backend.release(writer)).toBe("queued");
  await refused(backend, rivalOf(writer, { limit: 2 }));
});

test("a steal counts those who wait, because those who hold end by it", async () => {
  const holder = first({ limit: 3 });
  const thief = rivalOf(holder, { limit: 2 });
  await granted(backend, holder);
  expect(await backend.steal(thief, "test")).toMatchObject({ granted: true });
  expect(await heldBy(holder)).toEqual([2]);
  const beside = rivalOf(thief);
  await granted(backend, beside);
  await refused(backend, rivalOf(thief));
  await conflict(backend.steal(rivalOf(thief, { limit: 3 }), "test"), 2);
  await conflict(backend.steal(rivalOf(thief, { limit: 1 }), "test"), 2);
  expect(await heldBy(holder)).toEqual([2, 2]);
  // A reader has no limit that could be another.
  expect(await backend.steal(rivalOf(thief, { mode: "shared" }), "test")).toMatchObject({ granted: true });
});

test("a thief that waited does not count as one who waits", async () => {
  const holder = first({ limit: 3 });
  for (const one of [holder, rivalOf(holder), rivalOf(holder)]) await granted(backend, one);
  const waiter = rivalOf(holder);
  await refused(backend, waiter);
  const other = { ...waiter, limit: 2 };
  expect(await backend.steal(other, "test")).toMatchObject({ granted: true });
  expect(await heldBy(holder)).toEqual([2]);
});

test("a swap to another limit is refused where others hold it, and the claim that left has left", async () => {
  const [one, two] = [first({ limit: 3 }), first({ limit: 3 })];
  const beside = rivalOf(one);
  for (const claim of [one, beside, two]) await granted(backend, claim);
  await conflict(backend.swap(one, rivalOf(one, { limit: 2 })), 3);
  expect(await heldBy(one)).toEqual([3]);
  expect(await backend.swap(two, rivalOf(two, { limit: 2 }))).toMatchObject({
    released: "held",
    granted: true,
  });
  expect(await heldBy(two)).toEqual([2]);
});
