/**
 * Every answer reaches the command that it is for, whatever happens to connections; and clients of node-redis that do not keep to this
 * are refused.
 */
import {
  createClient as createClient5,
  createCluster as createCluster5,
  createSentinel as createSentinel5,
} from "redis5";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import type { Connection } from "../../../src/backends/redis/connection.ts";
import { connectionOf } from "../../../src/backends/redis/clients/choose.ts";
import { adaptNodeRedis } from "../../../src/backends/redis/clients/node-redis.ts";
import { type RedisClient, redis } from "../../../src/backends/redis/index.ts";
import { writeFenced } from "../../../src/fence/redis/index.ts";
import { libraries, nodeRedis } from "./clients.ts";
import { Clients, eventually } from "./lab.ts";

const ROUNDS = 10;
const AT_ONCE = 20;
/** Answers with what it was sent. */
const SAY = "return ARGV[1]";

const library5 = { createClient: createClient5, createCluster: createCluster5, createSentinel: createSentinel5 };

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

interface Answers {
  readonly right: number;
  readonly wrong: readonly string[];
}

/**
 * Resets the connection in the very turn in which commands are sent, and sends more on the next connection: there an answer that is out
 * of place reaches another command. The reset is in the kernel when cut() returns, and a timer's turn goes on with what sockets report, before
 * anything that a client has put off to the end of the turn.
 */
async function resetWhileSending(connection: Connection, proxy: Proxy, rounds: number): Promise<Answers> {
  const wrong: string[] = [];
  let right = 0;
  let last = 0;
  let misplaced = (): void => {};
  // Then others may never come.
  const over = new Promise<void>((resolve) => (misplaced = resolve));
  const say = async (): Promise<true | undefined> => {
    const text = `say ${++last}`;
    const heard = await connection.eval(SAY, ["key"], [text]).catch(() => undefined);
    if (heard === undefined) return undefined;
    if (heard === text) right++;
    else {
      wrong.push(`${text}: ${JSON.stringify(heard)}`);
      misplaced();
    }
    return true;
  };
  const some = (): readonly Promise<unknown>[] => Array.from({ length: AT_ONCE }, say);
  const answers = (what: string): Promise<unknown> =>
    Promise.race([over, eventually(what, () => (wrong.length > 0 ? true : say()))]);
  const asked: Promise<unknown>[] = [];
  for (let round = 0; round < rounds && wrong.length === 0; round++) {
    await answers("it is connected");
    await new Promise<void>((resolve) => {
      setTimeout(() => {
        asked.push(...some());
        proxy.cut();
        asked.push(...some());
        resolve();
      });
    });
    await answers("it is connected again");
    asked.push(...some());
  }
  await Promise.race([over, Promise.all(asked)]);
  return { right, wrong };
}

describe.concurrent("connections that are reset while commands are sent", () => {
  test.each(Object.values(libraries))(
    "S180: no answer reaches another command than its own, with $name",
    async (library) => {
      await using testClients = new Clients();
      const proxy = testClients.own(await proxyOf());
      const { client, close } = await library.standalone(proxy.port);
      testClients.later(close);
      const { right, wrong } = await resetWhileSending(connectionOf(client), proxy, ROUNDS);
      expect(wrong).toEqual([]);
      expect(right).toBeGreaterThan(ROUNDS * AT_ONCE);
    },
  );

  test("S180: with node-redis 5 they do, which is why it is refused", async () => {
    await using testClients = new Clients();
    const proxy = testClients.own(await proxyOf());
    const { client, close } = await nodeRedis("node-redis 5", library5 as never).standalone(proxy.port);
    testClients.later(close);
    const { wrong } = await resetWhileSending(adaptNodeRedis(client as never), proxy, 200);
    expect(wrong).not.toEqual([]);
  });
});

async function proxyOf(): Promise<Proxy & { close(): Promise<void> }> {
  const proxy = await startProxy({ port: server.port });
  return Object.assign(proxy, { close: () => proxy.stop() });
}

const old = {
  standalone: createClient5(),
  Sentinel: createSentinel5({ name: "service", sentinelRootNodes: [{ host: "127.0.0.1", port: 1 }] }),
  Cluster: createCluster5({ rootNodes: [{ url: "redis://127.0.0.1:1" }] }),
};

test.each(Object.entries(old))(
  "S180: a client of node-redis 5 is refused, with what to install: %s",
  async (_, client) => {
    const words =
      "Expected a client of node-redis 6.2.1 or later, but this one is older. Before that, answers can reach other commands than their own " +
      "when a connection ends: a lock could have two holders. npm install redis@6, or use ioredis";
    const refusal = { name: "TypeError", code: "ERR_LOCK_ARGUMENT", message: words };
    expect(() => redis(client as RedisClient)).toThrow(expect.objectContaining(refusal));
    await expect(writeFenced(client, { name: "a", fence: 1n }, [])).rejects.toMatchObject(refusal);
  },
);
