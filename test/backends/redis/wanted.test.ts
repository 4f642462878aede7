/** The hint that a lock is wanted: what it costs, whom it reaches, and what it is worth when another process sends it. */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { makeWallClock } from "../../../src/lab/servers/wall-clock.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { readMessage } from "../../../src/backends/redis/messages.ts";
import { calls, claimOf, Clients, eventually, granted, refused, rivalOf, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

function listen(backend: Backend): string[] {
  const wanted: string[] = [];
  backend.listen?.({ lost: () => undefined, doubt: () => undefined, wanted: (id) => wanted.push(id) });
  return wanted;
}

describe("what it costs", () => {
  test("no message is sent about a lock that no claim waits for, and the second waiter sends nothing", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [a, b] = [testClients.backend(own.port), testClients.backend(own.port)];
    // Both listen, and have loaded their scripts.
    for (const backend of [a, b]) {
      const claim = claimOf();
      await granted(backend, claim);
      await backend.renew([claim]);
      await backend.release(claim);
    }
    const cost = async (step: () => Promise<unknown>): Promise<readonly number[]> => {
      await admin.config("RESETSTAT");
      await step();
      const { evalsha = 0, eval: evals = 0, publish = 0 } = await calls(admin);
      return [evalsha + evals, publish];
    };
    for (const change of [{}, { limit: 2 }, { mode: "shared" as const }]) {
      const holder = claimOf(change);
      const writer = rivalOf(holder, { mode: "exclusive" });
      const others = change.limit === 2 ? [rivalOf(holder)] : [];
      expect(await cost(() => granted(a, holder))).toEqual([1, 0]);
      for (const other of others) await granted(a, other);
      a.expectWanted(holder);
      expect(await cost(() => a.renew([holder]))).toEqual([1, 0]);
      expect(await cost(() => refused(b, rivalOf(writer, { queues: false })))).toEqual([1, 0]);
      expect(await cost(() => refused(b, writer))).toEqual([1, 1]);
      expect(await cost(() => refused(b, writer))).toEqual([1, 0]);
      expect(await cost(() => refused(b, rivalOf(writer)))).toEqual([1, 0]);
      expect(await cost(() => a.renew([holder]))).toEqual([1, 0]);
      // A hand-over is the message that there was before.
      expect(await cost(() => a.release(holder))).toEqual([1, 1]);
    }
  });

  test("with a limit, the oldest of many is found once, and not again for each renewal beside a long queue", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [a, b] = [testClients.backend(own.port), testClients.backend(own.port)];
    const holders = Array.from({ length: 20 }, () => claimOf({ name: "limited", limit: 20 }));
    for (const claim of holders) await granted(a, claim);
    await Promise.all(holders.map((claim) => refused(b, rivalOf(claim))));
    const bits = async (claims: readonly Claim[]): Promise<readonly (boolean | undefined)[]> =>
      (await a.renew(claims)).map((one) => (one.held === true ? one.wanted : undefined));
    expect(await bits(holders)).toEqual([true, ...holders.slice(1).map(() => undefined)]);
    await admin.config("RESETSTAT");
    await bits(holders);
    expect((await calls(admin))["hkeys"] ?? 0).toBe(0);
    const [oldest, ...rest] = holders as [Claim, ...Claim[]];
    await a.release(oldest);
    expect(await bits(rest)).toEqual([true, ...rest.slice(1).map(() => undefined)]);
    expect((await calls(admin))["hkeys"]).toBe(1);
  });

  test("a renewal carries what a process says of itself only where that has changed", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const local = { waiters: 1, users: 1, holds: [{ name: "other", fence: 7n }], holdsMore: false };
    const claims = [claimOf({ local }), claimOf({ local, meta: { job: "1" } })];
    for (const claim of claims) await granted(backend, claim);
    await backend.renew(claims);
    const sent: (readonly string[])[] = [];
    const monitor = await admin.monitor();
    testClients.later(() => monitor.disconnect());
    monitor.on("monitor", (_: string, args: string[], source: string) => void (source === "lua" || sent.push(args)));
    await backend.renew(claims);
    await backend.renew([claims[0]!, { ...claims[1]!, local: { ...local, waiters: 9 }, changed: true }]);
    const asked = await eventually("all is seen", () => {
      const scripts = sent.filter(([name]) => /evalsha/iu.test(name ?? ""));
      return scripts.length >= 3 ? scripts : undefined;
    });
    expect(asked.map((args) => args.join(" ").includes("other"))).toEqual([false, false, true]);
    expect((await backend.inspect(claims[1]!.name)).held[0]?.local?.waiters).toBe(9);
    expect((await backend.inspect(claims[0]!.name)).held[0]?.local?.waiters).toBe(1);
    // Without waiters it stays the short form, which the short ways read.
    expect(await admin.hkeys(keyOf(claims[1]!.name))).toEqual(["s"]);
    for (const claim of claims) expect(await backend.release(claim)).toBe("held");
  });
});

describe("whom it reaches", () => {
  test("a lease that is handed over by a message is known to be wanted if others wait, and only then", async () => {
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)];
    const first = claimOf();
    const [next, last] = [rivalOf(first), rivalOf(first)];
    await granted(a, first);
    await refused(b, next);
    await refused(b, last);
    const news = b.watch(next, new AbortController().signal);
    await a.release(first);
    expect(await news).toMatchObject({ granted: true, wanted: true, mayLinger: true });
    await b.release(next);
    const second = await waitFor(b, last);
    expect([second.wanted, second.mayLinger]).toEqual([undefined, true]);
    await b.release(last);
  });

  test("with a limit, of several who are handed a place at once the oldest is wanted", async () => {
    const wallClock = await makeWallClock();
    await using own = await startRedis({ env: wallClock.env });
    await using testClients = new Clients();
    testClients.later(() => wallClock.stop());
    const [a, b] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: "24h" })];
    const dead = [claimOf({ name: "limited", limit: 2 }), claimOf({ name: "limited", limit: 2 })];
    const waiters = Array.from({ length: 3 }, () => rivalOf(dead[0]!, { ttlMs: 24 * 3_600_000 }));
    for (const claim of dead) await granted(a, claim);
    for (const claim of waiters) await refused(b, claim);
    const news = waiters.slice(0, 2).map((claim) => b.watch(claim, new AbortController().signal));
    // Both holders are gone; the next that asks lets the waiters in.
    wallClock.jump(600_000);
    await refused(a, rivalOf(dead[0]!, { queues: false }));
    expect((await Promise.all(news)).map((one) => [one?.granted, one?.wanted])).toEqual([
      [true, true],
      [true, undefined],
    ]);
  });

  test("a holder whose process did not listen yet when the queue began learns of it when it does", async () => {
    await using testClients = new Clients();
    const proxy = await startProxy({ port: server.port });
    testClients.later(() => proxy.stop());
    // The connection for messages is the second one, and does not get through.
    let connections = 0;
    const [far, near] = [testClients.backend(proxy.port), testClients.backend(server.port)];
    const wanted = listen(far);
    proxy.onRequest = (bytes) => {
      if (!bytes.includes("inbox") || !/subscribe/iu.test(String(bytes))) return "pass";
      connections++;
      return "reset";
    };
    const holder = claimOf();
    await granted(far, holder);
    far.expectWanted(holder);
    await eventually("it tried to listen", () => (connections > 0 ? true : undefined));
    await refused(near, rivalOf(holder));
    proxy.onRequest = undefined;
    await eventually("it learns of it", () => (wanted.length > 0 ? true : undefined));
    expect(new Set(wanted)).toEqual(new Set([holder.id]));
  });

  test("what is left of a minHold gets no message, nor does another process", async () => {
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)];
    const wanted = listen(a);
    const [early, holder] = [claimOf({ minHoldMs: 60_000 }), claimOf()];
    await granted(a, early);
    await a.release(early);
    expect((await refused(b, rivalOf(early))).position).toBe(1);
    // Messages come in order.
    await granted(a, holder);
    await refused(b, rivalOf(holder));
    await eventually("it learns of the other", () => (wanted.length > 0 ? true : undefined));
    expect(wanted).toEqual([holder.id]);
  });
});

describe("who else may send it", () => {
  test("S171: it counts only with its seal, and repeated it reaches the holder only now and then", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [a, b] = [testClients.backend(own.port), testClients.backend(own.port)];
    const wanted = listen(a);
    const holder = claimOf();
    await granted(a, holder);
    const [inbox = ""] = await eventually("it listens", async () => {
      const channels = (await admin.pubsub("CHANNELS", "holdfast:inbox:*")) as string[];
      return channels.length > 0 ? channels : undefined;
    });
    const shown = holder.id.slice(0, 8);
    for (const forged of [`wanted ${holder.id}`, `wanted ${shown}*.${"0".repeat(20)}`, `wanted ${shown}*`])
      await admin.publish(inbox, forged);
    const seal = createHash("sha1").update(`${holder.id}*`).digest("hex").slice(0, 20);
    // What was sealed to say something else says nothing here.
    await admin.publish(inbox, `done ${shown}*.${seal}`);
    expect(wanted).toEqual([]);
    const sentMs = performance.now();
    for (let i = 0; i < 500; i++) await admin.publish(inbox, `wanted ${shown}*.${seal}`);
    await eventually("it learns of it", () => (wanted.length > 0 ? true : undefined));
    expect(wanted.length).toBeLessThanOrEqual(2 + (performance.now() - sentMs) / 50);
    expect(new Set(wanted)).toEqual(new Set([holder.id]));
    await refused(b, rivalOf(holder));
  });

  test("S171: a message is about 200 claims at most, and 0.1 reads the grants in one that says they are wanted", () => {
    const news = Array.from({ length: 300 }, () => `abcdefgh*.${"0".repeat(20)}`).join(",");
    expect(readMessage(`wanted ${news}`).wanted).toEqual([]);
    expect(readMessage(`wanted ${news.slice(0, 6300)}`).wanted.length).toBeLessThanOrEqual(200);
    const grant = (shown: string): string => `${shown}:1790000000000000+000063.${"0".repeat(20)}`;
    const text = `${grant("abcdefgh")},${grant("ijklmnop")}`;
    const wanted = (message: string): unknown =>
      readMessage(message).grants.map(({ news: { fences } }) => fences.wanted);
    expect(wanted(`granted ${text}`)).toEqual([false, false]);
    expect(wanted(`granted ${text},*`)).toEqual([true, true]);
    expect(wanted(`granted ${text},*ijklmnop`)).toEqual([false, true]);
    // As 0.1 does it: each part by itself, and what is not a grant is none.
    const GRANT_OF_01 = /^[^\s,:?!]{1,8}[:?]\d{1,16}\+\d{6}(?:@[0-9a-f]{12})?\.[0-9a-f]{20}$/u;
    const parts = `${text},*`.split(",", 64);
    expect(parts.filter((part) => GRANT_OF_01.test(part))).toHaveLength(2);
  });
});
