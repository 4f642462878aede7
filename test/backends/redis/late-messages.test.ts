/** Two connections have two times: a grant that is reported late must not be believed, whatever the commands said meanwhile. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Granted } from "../../../src/contract/backend.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { type RedisClient, redis } from "../../../src/backends/redis/index.ts";
import { type Library, libraries } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

interface Roads {
  readonly client: RedisClient;
  readonly commands: Proxy;
  readonly messages: Proxy;
}

/** A client whose commands and whose messages go through proxies of their own. */
async function twoRoads(testClients: Clients, library: Library): Promise<Roads> {
  const [commands, messages] = [await startProxy({ port: server.port }), await startProxy({ port: server.port })];
  const opened = await library.standalone(commands.port);
  const { client } = opened;
  testClients.later(async () => {
    await opened.close();
    await Promise.all([commands.stop(), messages.stop()]);
  });
  const copied = client as unknown as { duplicate(change?: { socket?: object }): unknown };
  const duplicate = copied.duplicate.bind(client);
  const elsewhere = { host: "127.0.0.1", port: messages.port, reconnectStrategy: () => 50 };
  copied.duplicate = (change = {}) =>
    duplicate({ ...change, port: messages.port, socket: { ...change.socket, ...elsewhere } } as object);
  return { client, commands, messages };
}

/** What the claim's watch has brought so far; its news, if any came, was there before this was asked. */
async function newsOf(watching: Promise<Granted | undefined>): Promise<Granted | "nothing" | undefined> {
  return Promise.race([watching, new Promise<"nothing">((resolve) => setImmediate(() => resolve("nothing")))]);
}

describe.concurrent("a late grant message", () => {
  for (const library of Object.values(libraries)) {
    test(`S122: is not believed after its lease passed and another took the lock (${library.name})`, async () => {
      await using testClients = new Clients();
      const { client, commands, messages } = await twoRoads(testClients, library);
      const near = testClients.backend(server.port);
      const far = testClients.own(redis(client));
      const holder = claimOf();
      const waiter = rivalOf(holder, { ttlMs: 1500, holder: "late" });
      await granted(near, holder);
      await refused(far, waiter);
      const other = claimOf();
      const witness = rivalOf(other);
      await granted(near, other);
      await refused(far, witness);
      // Both roads stall; the store grants to the waiter, its lease passes, and another claim has the lock.
      commands.hang("requests");
      messages.hang("replies");
      await near.release(holder);
      const next = rivalOf(holder, { queues: false });
      const { fence } = await eventually("the unheard lease passes", async () => {
        const answer = await near.attempt(next);
        return answer.granted ? answer : undefined;
      });
      // Commands flow again first: the claim is queued anew. Then comes the old message, and after it one for the witness.
      await commands.heal();
      await refused(far, waiter);
      // An answer that was overtaken may have been a reason to ask again.
      await new Promise((resolve) => setImmediate(resolve));
      await refused(far, waiter);
      const watching = far.watch(waiter, AbortSignal.timeout(20_000));
      await near.release(other);
      const reported = far.watch(witness, AbortSignal.timeout(20_000));
      await messages.heal();
      expect(await reported).toMatchObject({ granted: true });
      const news = await newsOf(watching);
      expect(news === undefined || news === "nothing", "a reason to ask at most").toBe(true);
      expect((await near.query(holder.name)).held.map((one) => one.fence)).toEqual([fence]);
      // It still gets its turn, with a greater fence.
      await near.release(next);
      expect((await waitFor(far, waiter)).fence).toBeGreaterThan(fence);
      expect(await far.release(waiter)).toBe("held");
    });
  }
});

test("S122: a grant that arrives before the answer “you are queued” is believed once that has come", async () => {
  await using testClients = new Clients();
  const { client, commands } = await twoRoads(testClients, libraries.ioredis5);
  const [near, far] = [testClients.backend(server.port), testClients.own(redis(client, { ticket: "60s" }))];
  const holder = claimOf();
  const waiter = rivalOf(holder);
  await granted(near, holder);
  await granted(far, claimOf());
  commands.hang("replies");
  const answer = far.attempt(waiter);
  await eventually("it is queued", async () => (await near.query(holder.name)).pending[0]);
  await near.release(holder);
  await eventually("it holds", async () => (await near.query(holder.name)).held[0]);
  await commands.heal();
  expect(await answer).toMatchObject({ granted: false, position: 1 });
  // Its next sign of life would come after twenty seconds: what brings the grant is the message.
  expect(await far.watch(waiter, AbortSignal.timeout(15_000))).toMatchObject({ granted: true });
});

test("a grant to a claim whose release got no answer is given back at once, whatever its minHold: no caller had it", async () => {
  await using testClients = new Clients();
  const client = testClients.client(server.port);
  const [near, far] = [testClients.backend(server.port), testClients.own(redis(client, { ticket: "60s" }))];
  const holder = claimOf();
  const waiter = rivalOf(holder, { minHoldMs: 600_000 });
  await granted(near, holder);
  await granted(far, claimOf());
  await refused(far, waiter);
  const evalsha = client.evalsha.bind(client);
  client.evalsha = (() => Promise.reject(new Error("the reply was lost"))) as typeof evalsha;
  await expect(far.release({ ...waiter, minHoldMs: 0 })).rejects.toThrow("the reply was lost");
  client.evalsha = evalsha;
  await near.release(holder);
  const next = rivalOf(holder, { queues: false });
  await eventually("it is free", async () => ((await near.attempt(next)).granted ? true : undefined));
});
