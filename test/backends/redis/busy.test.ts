/** A lock whose queue is full of claims that no process waits for: what it costs to skip them, and when that is left to others. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { attempt } from "../../../src/backends/redis/generated/scripts.ts";
import { type RedisBackend, redis } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { calls, claimOf, Clients, eventually, granted, rivalOf } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

describe("a lock that is busy with claims that no process waits for", () => {
  test("S179: thousands of empty places cost one read of the line for each portion, and not for each place", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const backend = testClients.backend(own.port);
    const claim = claimOf({ queues: false });
    await granted(backend, claim);
    await backend.release(claim);
    const COUNT = 5000;
    const fields = Array.from({ length: COUNT }, (_, at) => [`q${2 * at + 2}`, `dead-${at}`]).flat();
    const key = namesOf("holdfast", false).lock(claim.name);
    const state = ((await admin.hget(key, "s")) ?? "").split(" ").slice(0, 2);
    await admin.hset(key, ...fields, "s", [...state, "0 x 0 0 -", COUNT, 1, 2 * COUNT + 1].join(" "));
    await admin.config("RESETSTAT");
    await granted(backend, rivalOf(claim));
    const { hkeys = 0 } = await calls(admin);
    expect(hkeys).toBeGreaterThan(0);
    expect(hkeys).toBeLessThan(100);
    expect((await admin.hkeys(key)).filter((field) => field.startsWith("q"))).toEqual([]);
  });

  /** A backend whose server says "busy" for ever, and how often it was asked. */
  function busyBackend(testClients: Clients): { backend: RedisBackend; asked: () => number } {
    const client = testClients.client(server.port);
    let count = 0;
    const evalsha = client.evalsha.bind(client) as (...args: unknown[]) => Promise<unknown>;
    const answer = (sha: string, ...rest: unknown[]): Promise<unknown> => {
      if (sha !== attempt.sha) return evalsha(sha, ...rest);
      count++;
      return new Promise((resolve) => setImmediate(resolve, [0, 0, String(Date.now()), "busy"]));
    };
    Object.assign(client, { evalsha: answer });
    return { backend: redis(client), asked: () => count };
  }

  const often = (asked: () => number): Promise<true> =>
    eventually("it is asked again", () => (asked() > 10 ? true : undefined), { paceMs: 0 });

  test("S179: is not asked for ever", async () => {
    await using testClients = new Clients();
    const { backend, asked } = busyBackend(testClients);
    testClients.own(backend);
    expect(await backend.attempt(claimOf({ queues: false }))).toMatchObject({ granted: false });
    expect(asked()).toBeLessThan(2000);
  });

  test("S179: is not asked any more for a claim that has left", async () => {
    await using testClients = new Clients();
    const { backend, asked } = busyBackend(testClients);
    testClients.own(backend);
    const claim = claimOf({ queues: false });
    const answer = backend.attempt(claim);
    await often(asked);
    const left = backend.release(claim);
    const before = asked();
    expect(await answer).toMatchObject({ granted: false });
    expect(asked() - before).toBeLessThan(3);
    expect(await left).toBe("absent");
  });

  test("S179: is not asked any more by a backend that closes", async () => {
    await using testClients = new Clients();
    const { backend, asked } = busyBackend(testClients);
    const answer = backend.attempt(claimOf({ queues: false }));
    await often(asked);
    const closed = backend.close();
    const before = asked();
    expect(await answer).toMatchObject({ granted: false });
    expect(asked() - before).toBeLessThan(3);
    await closed;
  });
});
