/** ioredis: the commands of one turn of the event loop go in few writes, so that the server begins while others are still being made. */
import type { Socket } from "node:net";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { createLocks } from "../../../src/core/locks.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { startCluster } from "../../../src/lab/servers/cluster.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { libraries, type Library } from "./clients.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const each = [libraries.ioredis5, libraries.ioredis6];

async function start(library: Library) {
  const { client, close } = await library.standalone(server.port);
  const locks = createLocks(redis(client));
  onTestFinished(async () => {
    await locks.close();
    await close();
  });
  // Whatever is sent once, at the beginning, has been sent.
  await (await locks.acquire("first")).release();
  const stream = (client as unknown as { stream: Socket }).stream;
  return { locks, stream };
}

test.each(each)(
  "a turn of fifty commands is sent in portions of sixteen, and nothing stays behind: $name",
  async (library) => {
    const { locks, stream } = await start(library);
    const uncork = vi.spyOn(stream, "uncork");
    const sent = vi.spyOn(stream, "write");
    const asked = Promise.all(Array.from({ length: 50 }, (_, at) => locks.acquire(`lock ${at}`)));
    // The first finds no other under way and goes by itself; of the rest, three times sixteen, and one at the end of the turn.
    expect(sent).toHaveBeenCalledTimes(50);
    expect(uncork).toHaveBeenCalledTimes(3);
    expect(stream.writableCorked).toBe(1);
    await new Promise((resolve) => process.nextTick(resolve));
    expect(uncork).toHaveBeenCalledTimes(4);
    expect(stream.writableCorked).toBe(0);
    for (const lease of await asked) expect(await lease.release()).toBe("released");
  },
);

test.each(each)("a single command is not held back: $name", async (library) => {
  const { locks, stream } = await start(library);
  const cork = vi.spyOn(stream, "cork");
  await (await locks.acquire("alone")).release();
  expect(cork).not.toHaveBeenCalled();
});

test.each(each)("a stream that others hold back is left to them: $name", async (library) => {
  const { locks, stream } = await start(library);
  stream.cork();
  const uncork = vi.spyOn(stream, "uncork");
  const asked = Promise.all(Array.from({ length: 40 }, (_, at) => locks.acquire(`held back ${at}`)));
  await new Promise((resolve) => process.nextTick(resolve));
  expect(uncork).not.toHaveBeenCalled();
  stream.uncork();
  for (const lease of await asked) expect(await lease.release()).toBe("released");
});

interface Node {
  readonly stream: Socket;
}

test("in a cluster what goes to one node is sent in portions, whatever goes to the others", async () => {
  await using lab = await startCluster({ primaries: 2 });
  for (const library of each) {
    const { client, close } = await library.cluster(lab);
    const locks = createLocks(redis(client));
    try {
      const name = (at: number): string => `${library.name} ${at}`;
      // So that every node is connected, and has the scripts.
      await Promise.all(
        Array.from({ length: 50 }, async (_, at) => (await locks.acquire(`${name(at)} first`)).release()),
      );
      const streams = (client as unknown as { nodes(role: "master"): Node[] })
        .nodes("master")
        .map(({ stream }) => stream);
      expect(streams).toHaveLength(2);
      const spies = streams.map((stream) => ({ sent: vi.spyOn(stream, "write"), uncork: vi.spyOn(stream, "uncork") }));
      const asked = Promise.all(Array.from({ length: 100 }, (_, at) => locks.acquire(name(at))));
      await new Promise((resolve) => process.nextTick(resolve));
      const counts = spies.map(({ sent, uncork }) => [sent.mock.calls.length, uncork.mock.calls.length] as const);
      expect(counts[0]![0] + counts[1]![0]).toBe(100);
      for (const [sent, uncorked] of counts) {
        expect(sent).toBeGreaterThan(16);
        // The first by itself, then sixteen at a time, and the rest at the end of the turn.
        expect(uncorked).toBe(Math.floor((sent - 1) / 16) + 1);
      }
      for (const stream of streams) expect(stream.writableCorked).toBe(0);
      for (const lease of await asked) expect(await lease.release()).toBe("released");
    } finally {
      await locks.close();
      await close();
    }
  }
});
