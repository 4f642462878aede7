/** Looking at one lock: one command, by its exact name, and nothing in the store changes. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { toLocal } from "../../../src/backends/redis/who.ts";
import { calls, claimOf, Clients, granted, refused, rivalOf } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

test("a lock is one command among however many others, and looking at it writes nothing", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const admin = testClients.client(own.port);
  const backend = testClients.backend(own.port);
  const claim = claimOf();
  await granted(backend, claim);
  await Promise.all(Array.from({ length: 300 }, (_, at) => granted(backend, claimOf({ name: `${claim.name}/${at}` }))));
  await backend.inspect(claim.name);
  const before = await admin.hgetall(keyOf(claim.name));
  await admin.config("RESETSTAT");
  expect((await backend.inspect(claim.name)).held).toMatchObject([{ id: claim.id, name: claim.name }]);
  const { evalsha, scan, hset, hdel, pexpireat } = await calls(admin);
  expect([evalsha, scan, hset, hdel, pexpireat]).toEqual([1, undefined, undefined, undefined, undefined]);
  expect(await admin.hgetall(keyOf(claim.name))).toEqual(before);
  expect(await backend.release(claim)).toBe("held");
});

test("a quarantine is a field of its own: before the first grant, while it lasts, and not after it", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const admin = testClients.client(own.port);
  const options = { failover: "quarantine", maxTtl: "60s", maxLag: "1s", checkReplicas: false } as const;
  const [careful, plain] = [testClients.backend(own.port, options), testClients.backend(own.port)];
  const claim = claimOf();
  expect((await careful.inspect(claim.name)).quarantineMs).toBe(61_000);
  expect((await plain.inspect(claim.name)).quarantineMs).toBeUndefined();
  expect(await admin.dbsize()).toBe(0);
  expect((await refused(careful, claim)).quarantineMs).toBeGreaterThan(0);
  for (const backend of [careful, plain]) {
    const { quarantineMs, held } = await backend.inspect(claim.name);
    expect(quarantineMs).toBeGreaterThan(0);
    expect(quarantineMs).toBeLessThanOrEqual(61_000);
    expect(held).toEqual([]);
  }
  await careful.endQuarantine();
  expect((await careful.inspect(claim.name)).quarantineMs).toBeUndefined();
  await granted(careful, claim);
  // Another life of the server: the marker says so, and looking does not make a new one.
  const marker = await admin.hgetall("holdfast:{marker}");
  await admin.hset("holdfast:{marker}", "run", "run_id:another");
  expect((await plain.inspect(claim.name)).quarantineMs).toBe(61_000);
  expect(await admin.hgetall("holdfast:{marker}")).toEqual({ ...marker, run: "run_id:another" });
});

test("S15: a key that holds something else is an error that says so", async () => {
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  const backend = testClients.backend(server.port);
  const { name } = claimOf();
  await admin.set(keyOf(name), "mine");
  await expect(backend.inspect(name)).rejects.toThrow(/holds something else/u);
  await expect(backend.release(claimOf({ name }), { value: "", keepMs: 1000, fence: 7n })).rejects.toThrow(
    /holds something else/u,
  );
  await expect(backend.forget(name, 7n)).rejects.toThrow(/holds something else/u);
  await expect(backend.steal(claimOf({ name }), "test")).rejects.toThrow(/holds something else/u);
  expect(await admin.get(keyOf(name))).toBe("mine");
  await admin.del(keyOf(name));
});

test("S179: what a process says of itself is read only as ours say it, and no more of it than ours say", () => {
  for (const odd of [
    undefined,
    null,
    7,
    "x",
    {},
    [],
    [1],
    [1, 2],
    [-1, 0, [], 0],
    [1.5, 0, [], 0],
    ["1", 0, [], 0],
    [1, 0, {}, 0],
  ])
    expect(toLocal(odd)).toBeUndefined();
  const many = Array.from({ length: 40 }, (_, at) => [`lock ${at}`, String(at)]);
  const read = toLocal([3, 1, many, 0]);
  expect([read?.waiters, read?.users, read?.holds.length, read?.holdsMore]).toEqual([3, 1, 16, true]);
  expect(toLocal([0, 0, [["a", 5], ["b", "x"], ["c", "7"], 9], 0])).toEqual({
    waiters: 0,
    users: 0,
    holds: [{ name: "c", fence: 7n }],
    holdsMore: true,
  });
});

test("a claim that is queued and asks without a queue is gone from it, and those behind it are not held up", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const reader = claimOf({ mode: "shared" });
  const [writer, next] = [rivalOf(reader, { mode: "exclusive" }), rivalOf(reader)];
  await granted(backend, reader);
  expect((await refused(backend, writer)).position).toBe(1);
  expect((await refused(backend, next)).position).toBe(2);
  expect((await refused(backend, { ...writer, queues: false })).position).toBeUndefined();
  expect((await backend.inspect(reader.name)).held.map(({ id }) => id)).toEqual([reader.id, next.id]);
  for (const claim of [reader, next]) expect(await backend.release(claim)).toBe("held");
});
