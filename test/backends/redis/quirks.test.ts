/** What client libraries do on their own: send again, answer in other types, limit listeners, time out. On each library. */
import { inspect } from "node:util";
import { createClientPool, RESP_TYPES } from "redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../../src/contract/clock.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { freePort } from "../../../src/lab/servers/free-port.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { release } from "../../../src/backends/redis/generated/scripts.ts";
import { type RedisBackend, type RedisClient, redis } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { libraries, type Library } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const all = Object.values(libraries);

async function backendOf(testClients: Clients, library: Library, port: number, extra?: object): Promise<RedisBackend> {
  const { client, close } = await library.standalone(port, extra);
  testClients.later(close);
  return testClients.own(redis(client));
}

/** Loses the reply to the next release, with its connection. */
function loseReply(proxy: Proxy): void {
  let lose = false;
  proxy.onRequest = (chunk) => {
    lose ||= chunk.includes(release.sha);
    return undefined;
  };
  proxy.onReply = () => {
    if (!lose) return undefined;
    lose = false;
    proxy.onRequest = undefined;
    return "reset";
  };
}

/** Everything a lock does, with the answers that it must give. */
async function works(testClients: Clients, backend: RedisBackend): Promise<void> {
  const other = testClients.backend(server.port);
  const claim = claimOf();
  await granted(backend, claim);
  const [first, second] = [rivalOf(claim), rivalOf(claim)];
  expect(await refused(other, first)).toMatchObject({ position: 1 });
  expect(await refused(backend, second)).toMatchObject({ position: 2 });
  expect(await backend.renew([claim, second])).toMatchObject([{ held: true }, { held: false }]);
  expect(await backend.release(claim)).toBe("held");
  await waitFor(other, first);
  const handed = waitFor(backend, second);
  expect(await other.release(first)).toBe("held");
  const { fence } = await handed;
  expect((await backend.query(claim.name)).held).toMatchObject([{ fence }]);
  const swapped = await backend.swap(second, rivalOf(claim));
  expect(swapped).toMatchObject({ released: "held", granted: true });
  expect(await backend.forceRelease(claim.name, fence, "ops", "test")).toBe(false);
  await backend.join({ quarantineMs: 0, allowEviction: false });
  expect(await backend.vote(claimOf(), 5n)).toMatchObject({ vote: "granted" });
  expect(await backend.identify()).toMatchObject({ role: "master", minReplicas: 0 });
}

for (const library of all) {
  describe.concurrent(library.name, () => {
    test("S130: a release whose reply is lost with its connection is never answered with a plain no", async () => {
      await using testClients = new Clients();
      const proxy = await startProxy({ port: server.port });
      testClients.later(() => proxy.stop());
      const backend = await backendOf(testClients, library, proxy.port);
      const observer = testClients.backend(server.port);
      // Known to the server, so that one request does it.
      const before = claimOf();
      await granted(backend, before);
      await backend.release(before);
      const claim = claimOf();
      await granted(backend, claim);
      loseReply(proxy);
      // Unknown, whether the library rejects it or sends it again; only then may it be asked for again.
      await expect(backend.release(claim)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: false });
      expect((await observer.query(claim.name)).held).toEqual([]);
      expect(await backend.release(claim)).toBe("absent");
      // Work that was done under a lease that was there to the end is done.
      const locks = createLocks(backend);
      loseReply(proxy);
      await expect(locks.run(claimOf().name, () => Promise.resolve("done"))).resolves.toBe("done");
    });

    test("S133: close() settles when the client never connected", async () => {
      const { client, close } = library.connecting(await freePort());
      const backend = redis(client);
      backend.attempt(claimOf()).catch(() => undefined);
      const closed = await backend.close().catch((error: Error) => error);
      // What is still in the library's own queue may be carried out later, and is reported.
      expect(closed).toMatchObject({ code: "ERR_LOCK_BACKEND", message: expect.stringContaining("test:") as string });
      await close();
      const idle = library.connecting(await freePort());
      await expect(redis(idle.client).close()).resolves.toBeUndefined();
      await idle.close();
    });

    test("S140: where SUBSCRIBE is never answered, only the first acquire waits for it", async () => {
      await using testClients = new Clients();
      const proxy = await startProxy({ port: server.port });
      testClients.later(() => proxy.stop());
      proxy.onRequest = (chunk) => (/\r\nsubscribe\r\n/iu.test(chunk.toString()) ? "hold" : undefined);
      const { client, close } = await library.standalone(proxy.port);
      testClients.later(close);
      const waits: number[] = [];
      const clock: Clock = {
        ...systemClock,
        now: () => systemClock.now(),
        setTimer: (run, ms, ...rest) => {
          if (ms === 1000) waits.push(ms);
          return systemClock.setTimer(run, ms, ...rest);
        },
      };
      const backend = testClients.own(redis(client, { clock }));
      for (let i = 0; i < 4; i++) await granted(backend, claimOf());
      expect(waits.length).toBeLessThanOrEqual(1);
      // And waiting works without messages: the answers to signs of life bring the same.
      const claim = claimOf({ ttlMs: 1500 });
      await granted(testClients.backend(server.port), claim);
      await waitFor(backend, rivalOf(claim));
    });

    test("S146: a dozen backends on one client print no warning, and leave no listener behind", async () => {
      await using testClients = new Clients();
      const warnings: string[] = [];
      const warn = (warning: Error): void => void warnings.push(warning.name);
      process.on("warning", warn);
      testClients.later(() => process.off("warning", warn));
      const { client, close } = await library.standalone(server.port);
      testClients.later(close);
      const emitter = client as unknown as { eventNames(): string[]; listenerCount(event: string): number };
      const count = (): number => emitter.eventNames().reduce((sum, event) => sum + emitter.listenerCount(event), 0);
      const before = count();
      const backends = Array.from({ length: 12 }, () => redis(client));
      await Promise.all(backends.map((backend) => granted(backend, claimOf())));
      await Promise.all(backends.map((backend) => backend.close()));
      await new Promise((resolve) => setImmediate(resolve));
      expect(warnings).not.toContain("MaxListenersExceededWarning");
      expect(count()).toBe(before);
    });

    test("S178: no error carries a claim's id or its meta", async () => {
      await using testClients = new Clients();
      const backend = await backendOf(testClients, library, server.port);
      const claim = claimOf({ meta: { ticket: "s3cret-ticket" } });
      await server.cli("SET", namesOf("holdfast", false).lock(claim.name), "mine");
      const own = await startRedis({ args: ["--rename-command", "EVALSHA", ""] });
      testClients.later(() => own.stop());
      const mute = await backendOf(testClients, library, own.port);
      for (const one of [backend, mute]) {
        const error: unknown = await one.attempt(claim).catch((reason: unknown) => reason);
        expect(error).toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
        const shown = inspect(error, { depth: 12, showHidden: true });
        expect(shown).not.toContain(claim.id);
        expect(shown).not.toContain("s3cret-ticket");
        expect((error as Error).cause).toBeInstanceOf(Error);
      }
    });

    test("S140: a client in subscriber mode is refused, and one that enters it later says so", async () => {
      await using testClients = new Clients();
      // With RESP3, which version 6 of either library speaks by default, a client may do both.
      const { client, close } = await library.standalone(server.port, { RESP: 2, protocol: 2 });
      testClients.later(close);
      const backend = testClients.own(redis(client));
      await granted(backend, claimOf());
      await (client as unknown as { subscribe(channel: string, heard: () => void): Promise<unknown> }).subscribe(
        "news",
        () => {},
      );
      expect(() => redis(client)).toThrow(TypeError);
      expect(() => redis(client)).toThrow(/subscriber mode.*duplicate/u);
      await expect(backend.attempt(claimOf())).rejects.toMatchObject({
        fatal: true,
        message: expect.stringMatching(/subscriber mode.*duplicate/u) as string,
      });
    });
  });
}

describe.concurrent("replies are read by value", () => {
  for (const library of [libraries.ioredis5, libraries.ioredis6]) {
    test(`S140: ${library.name} with stringNumbers`, async () => {
      await using testClients = new Clients();
      await works(testClients, await backendOf(testClients, library, server.port, { stringNumbers: true }));
    });
  }
  const library = libraries.redis6;
  test(`S140: ${library.name} with Buffers for strings and text for numbers`, async () => {
    await using testClients = new Clients();
    const typeMapping = {
      [RESP_TYPES.BLOB_STRING]: Buffer,
      [RESP_TYPES.SIMPLE_STRING]: Buffer,
      [RESP_TYPES.NUMBER]: String,
    };
    await works(testClients, await backendOf(testClients, library, server.port, { commandOptions: { typeMapping } }));
    const { client, close } = await library.standalone(server.port);
    testClients.later(close);
    const mapped = (client as unknown as { withTypeMapping(mapping: object): RedisClient }).withTypeMapping(
      typeMapping,
    );
    await works(testClients, testClients.own(redis(mapped)));
  });
  test(`S163: ${library.name} with a socketTimeout keeps its inbox`, async () => {
    await using testClients = new Clients();
    const own = await startRedis();
    testClients.later(() => own.stop());
    const { client, close } = await library.standalone(own.port, { socket: { socketTimeout: 250 } });
    testClients.later(close);
    let reconnects = 0;
    (client as unknown as { on(event: string, call: () => void): void }).on("ready", () => void reconnects++);
    const backend = testClients.own(redis(client));
    await granted(backend, claimOf());
    const ears = async (): Promise<string> =>
      (await own.cli("CLIENT", "LIST", "TYPE", "pubsub"))
        .replace(/ (?:addr|age|idle|tot-mem|qbuf|argv-mem|rbp)[^ ]*/gu, "")
        .slice(0, 20);
    const before = await ears();
    expect(before).toMatch(/^id=\d+/u);
    await eventually("the client itself was cut off three times", () => (reconnects >= 3 ? true : undefined));
    expect(await ears()).toBe(before);
  });
});

test("S140: a pool of connections is refused, with what to use instead", () => {
  const socket = { host: "127.0.0.1", port: server.port };
  const pool = createClientPool({ socket }) as unknown as RedisClient;
  expect(() => redis(pool)).toThrow(TypeError);
  expect(() => redis(pool)).toThrow(/pool.*createClient\(\)/u);
});
