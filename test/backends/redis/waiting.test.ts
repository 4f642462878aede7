/** Waiting in the store's queue: what it costs, who is served, and what happens when messages or waiters are lost. */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startProxy } from "../../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { DIST } from "../../dist.ts";
import { calls, claimOf, Clients, eventually, granted, immortalKeys, refused, rivalOf, sleep, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

interface Served {
  readonly fence: string;
  readonly cameUs: string;
  readonly wentUs: string;
  readonly released: boolean;
}

class Crowd {
  readonly served: Served[] = [];
  readonly child: ChildProcess;
  readonly queued: Promise<void>;
  readonly done: Promise<void>;

  constructor(testClients: Clients, port: number, name: string, count: number, ttlMs: number, ticketMs: number) {
    const program = join(import.meta.dirname, "waiter-process.mjs");
    this.child = fork(program, [DIST, ...[port, name, count, ttlMs, ticketMs].map(String)]);
    testClients.later(() => this.child.kill("SIGKILL"));
    const heard = (word: string): Promise<void> =>
      new Promise((resolve) => this.child.on("message", (message) => message === word && resolve()));
    this.queued = heard("queued");
    this.done = heard("done");
    this.child.on("message", (message) => {
      if (typeof message === "object") this.served.push(message as Served);
    });
  }
}

test("S58: 20 waiters or 1,000 of 8 processes cost at most 3 scripts and 1 message per hand-over; each is served once, one at a time", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const admin = testClients.client(own.port);
  const backend = testClients.backend(own.port);
  const perHandOver = async (processes: number, each: number): Promise<Record<string, number>> => {
    const claim = claimOf();
    await granted(backend, claim);
    const crowds = Array.from(
      { length: processes },
      () => new Crowd(testClients, own.port, claim.name, each, 60_000, 60_000),
    );
    await Promise.all(crowds.map(({ queued }) => queued));
    await admin.config("RESETSTAT");
    await backend.release(claim);
    await Promise.all(crowds.map(({ done }) => done));
    const { evalsha = 0, publish = 0 } = await calls(admin);
    const served = crowds.flatMap((crowd) => crowd.served);
    expect(served).toHaveLength(processes * each);
    expect(served.filter(({ released }) => !released)).toEqual([]);
    expect(new Set(served.map(({ fence }) => fence)).size).toBe(served.length);
    // By fence, no claim came before the one ahead had gone: one machine, one monotonic clock for all processes.
    const inOrder = served.toSorted((a, b) => (BigInt(a.fence) < BigInt(b.fence) ? -1 : 1));
    const early = inOrder.filter(
      ({ cameUs }, i) => i > 0 && BigInt(cameUs) < BigInt((inOrder[i - 1] as Served).wentUs),
    );
    expect(early).toEqual([]);
    expect((await backend.query(claim.name)).pending).toEqual([]);
    return { scripts: evalsha / served.length, messages: publish / served.length };
  };
  for (const cost of [await perHandOver(2, 10), await perHandOver(8, 125)]) {
    expect(cost["scripts"]).toBeLessThanOrEqual(3);
    expect(cost["messages"]).toBeLessThanOrEqual(1);
  }
}, 180_000);

test("S54: with the head waiter killed and 10 behind it, the next is served within a ticket, at a bounded command rate", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const admin = testClients.client(own.port);
  const backend = testClients.backend(own.port);
  const claim = claimOf();
  const ticketMs = 1500;
  await granted(backend, claim);
  const doomed = new Crowd(testClients, own.port, claim.name, 1, 60_000, ticketMs);
  await doomed.queued;
  const behind = Array.from({ length: 10 }, () => rivalOf(claim));
  const living = testClients.backend(own.port, { ticket: ticketMs });
  for (const each of behind) await refused(living, each);
  const ended = new Promise((resolve) => doomed.child.once("exit", resolve));
  doomed.child.kill("SIGKILL");
  await ended;
  const signs = await calls(admin);
  await admin.config("RESETSTAT");
  const releasedMs = performance.now();
  await backend.release(claim);
  for (const each of behind) {
    await waitFor(living, each);
    await living.release(each);
  }
  const tookMs = performance.now() - releasedMs;
  expect(signs["evalsha"]).toBeGreaterThan(0);
  expect(doomed.served).toEqual([]);
  // Not a speed test: without skipping the dead waiter it would take its ttl of a minute.
  expect(tookMs).toBeLessThan(20_000);
  // Ten hand-overs, and a few signs of life per second while the dead one's ticket ran out.
  const { evalsha = 0 } = await calls(admin);
  expect(evalsha).toBeLessThan(60 + (tookMs / ticketMs) * 10);
});

test("S52: 2,000 different locks waited for need one subscription on one connection", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const admin = testClients.client(own.port);
  const [a, b] = [testClients.backend(own.port), testClients.backend(own.port)];
  const claims = Array.from({ length: 2000 }, () => claimOf());
  await Promise.all(claims.map((claim) => granted(a, claim)));
  const waiters = claims.map((claim) => rivalOf(claim));
  await Promise.all(waiters.map((waiter) => refused(b, waiter)));
  const clients = (await admin.call("CLIENT", "LIST", "TYPE", "pubsub")) as string;
  expect(
    clients
      .trim()
      .split("\n")
      .map((line) => / sub=(\d+)/u.exec(line)?.[1]),
  ).toEqual(["1", "1"]);
  const news = waiters.map((waiter) => b.watch(waiter, AbortSignal.timeout(20_000)));
  await Promise.all(claims.map((claim) => a.release(claim)));
  const granted_ = (await Promise.all(news)).filter((each) => each?.granted === true);
  expect(granted_).toHaveLength(2000);
});

describe.concurrent("messages", () => {
  test("S51: with every message lost, each waiter is still served, in order", async () => {
    await using testClients = new Clients();
    const proxy = await startProxy({ port: server.port });
    testClients.later(() => proxy.stop());
    // A message is lost with its connection: the subscriber comes back, and loses the next one too.
    proxy.onReply = (chunk) => (chunk.includes("granted ") ? "reset" : undefined);
    const [near, far] = [testClients.backend(server.port), testClients.backend(proxy.port, { ticket: 4000 })];
    const holder = claimOf();
    const waiters = Array.from({ length: 4 }, () => rivalOf(holder));
    await granted(near, holder);
    for (const waiter of waiters) await refused(far, waiter);
    const order: number[] = [];
    const served = waiters.map(async (waiter, index) => {
      await waitFor(far, waiter);
      order.push(index);
      await far.release(waiter);
    });
    await near.release(holder);
    await Promise.all(served);
    expect(order).toEqual([0, 1, 2, 3]);
  });

  test("S51: a subscriber that hangs without an error costs time, never a grant", async () => {
    await using testClients = new Clients();
    const proxy = await startProxy({ port: server.port });
    testClients.later(() => proxy.stop());
    const [near, far] = [testClients.backend(server.port), testClients.backend(proxy.port, { ticket: 600 })];
    const holder = claimOf();
    const waiter = rivalOf(holder);
    await granted(near, holder);
    await refused(far, waiter);
    proxy.onReply = (chunk) => (chunk.includes("granted ") ? "drop" : undefined);
    const serving = waitFor(far, waiter);
    await near.release(holder);
    const { fence } = await serving;
    expect((await near.query(holder.name)).held.map((holding) => holding.fence)).toEqual([fence]);
  });

  test("a subscriber that reconnects asks at once what it missed", async () => {
    await using testClients = new Clients();
    const proxy = await startProxy({ port: server.port });
    testClients.later(() => proxy.stop());
    // A ticket so long that only the reconnect can be in time.
    const [near, far] = [testClients.backend(server.port), testClients.backend(proxy.port, { ticket: "60s" })];
    const holder = claimOf();
    const waiter = rivalOf(holder);
    await granted(near, holder);
    await refused(far, waiter);
    await proxy.refuse();
    proxy.cut();
    await near.release(holder);
    await proxy.heal();
    expect(await far.watch(waiter, AbortSignal.timeout(15_000))).toMatchObject({ granted: true });
  });

  test("S53: a release between the refusal and the subscription is no lost wake-up", async () => {
    await using testClients = new Clients();
    const proxy = await startProxy({ port: server.port });
    testClients.later(() => proxy.stop());
    const near = testClients.backend(server.port);
    const holder = claimOf({ ttlMs: 4000 });
    await granted(near, holder);
    // Its subscription takes its time.
    proxy.onRequest = (chunk) => (/subscribe/iu.test(chunk.toString("latin1")) ? "hold" : undefined);
    const far = testClients.backend(proxy.port);
    const waiting = waitFor(far, rivalOf(holder));
    await sleep(100);
    await near.release(holder);
    proxy.onRequest = undefined;
    proxy.deliver();
    expect((await waiting).granted).toBe(true);
  });

  test("a grant that no claim waits for any more is given back", async () => {
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)];
    const holder = claimOf();
    const waiter = rivalOf(holder);
    await granted(a, holder);
    await refused(b, waiter);
    // The process forgot the claim, but its release never reached the store.
    const client = testClients.client(server.port);
    await client.client("PAUSE", 300, "WRITE");
    const forgotten = b.release(waiter);
    await a.release(holder);
    await forgotten;
    await eventually("the lock is free", async () => {
      const rival = rivalOf(holder, { queues: false });
      return (await a.attempt(rival)).granted ? true : undefined;
    });
  });
});

describe.concurrent("the queue", () => {
  test("S56: a waiter that stops while it is being queued leaves no ticket", async () => {
    await using testClients = new Clients();
    const locks = createLocks(testClients.backend(server.port), { ttl: "60s" });
    testClients.later(() => locks.close());
    const rivals = createLocks(testClients.backend(server.port), { ttl: "60s" });
    testClients.later(() => rivals.close());
    const name = claimOf().name;
    const lease = await locks.acquire(name);
    const waits = Array.from({ length: 30 }, (_, i) => {
      const stop = new AbortController();
      setTimeout(() => stop.abort(new Error("changed my mind")), i % 7);
      return expect(rivals.acquire(name, { wait: "30s", signal: stop.signal })).rejects.toThrow("changed my mind");
    });
    await Promise.all(waits);
    await eventually("no ticket is left", async () => {
      const { pending } = await rivals.query(name);
      return pending.length === 0 ? true : undefined;
    });
    expect(await lease.release()).toBe("released");
  });

  test("S57: a waiter keeps its place for many times its ticket, by signs of life alone", async () => {
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port, { ticket: 1000 })];
    const holder = claimOf();
    const [first, second] = [rivalOf(holder), rivalOf(holder)];
    await granted(a, holder);
    await refused(b, first);
    await refused(b, second);
    await sleep(3000);
    const { pending } = await a.query(holder.name);
    expect(pending).toHaveLength(2);
    expect((await refused(b, second)).position).toBe(2);
  });

  test("a dead holder's lease goes to the head when its time is over, though no release comes", async () => {
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port, { ticket: "30m" })];
    // Connected before the lease begins, which a busy machine may need a second for.
    await b.query("none");
    const dead = claimOf({ ttlMs: 5000 });
    await granted(a, dead);
    const waiter = rivalOf(dead, { ttlMs: 1_800_000 });
    await refused(b, waiter);
    // Signs of life come every ten minutes here; the head's comes when the lease ends.
    expect(await b.watch(waiter, AbortSignal.timeout(120_000))).toMatchObject({ granted: true });
  });

  test("S59: a downgrade lets all readers in that wait at the head, and not those behind a writer", async () => {
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)];
    const writer = claimOf();
    const readers = [1, 2, 3].map(() => rivalOf(writer, { mode: "shared" }));
    const [nextWriter, late] = [rivalOf(writer), rivalOf(writer, { mode: "shared" })];
    await granted(a, writer);
    for (const claim of [...readers, nextWriter, late]) await refused(b, claim);
    const news = readers.map((reader) => b.watch(reader, AbortSignal.timeout(10_000)));
    const downgraded = rivalOf(writer, { mode: "shared" });
    const answer = await a.swap(writer, downgraded);
    expect(answer).toMatchObject({ granted: false, released: "held" });
    expect((await Promise.all(news)).every((each) => each?.granted)).toBe(true);
    expect((await a.query(writer.name)).held).toHaveLength(3);
    for (const reader of readers) await b.release(reader);
    await waitFor(b, nextWriter);
    await b.release(nextWriter);
    await waitFor(b, late);
    await waitFor(a, downgraded);
  });

  test("S61: a killed semaphore holder's place comes back after its ttl, there are never more than the limit, and the limit can change", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port);
    const dead = claimOf({ limit: 5, ttlMs: 6000 });
    const others = Array.from({ length: 4 }, () => rivalOf(dead, { ttlMs: 60_000 }));
    for (const other of others) await granted(backend, other);
    await granted(backend, dead);
    const waiter = rivalOf(dead, { ttlMs: 60_000 });
    await refused(backend, waiter);
    await waitFor(backend, waiter);
    expect((await backend.query(dead.name)).held).toHaveLength(5);
    await expect(backend.attempt(rivalOf(dead, { limit: 3 }))).rejects.toThrow(/limit 3.*limit 5/u);
    for (const claim of [...others, waiter]) await backend.release(claim);
    for (const limit of [3, 5]) {
      const claims = Array.from({ length: limit }, () => rivalOf(dead, { limit, ttlMs: 60_000 }));
      for (const claim of claims) await granted(backend, claim);
      await refused(backend, rivalOf(dead, { limit, queues: false }));
      for (const claim of claims) await backend.release(claim);
    }
  });

  test("O6: after a storm of acquires, aborts and releases no key is without a ttl, and nothing is held or waited for", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const all = [1, 2, 3].map(() => {
      const locks = createLocks(testClients.backend(own.port), { ttl: "5s" });
      testClients.later(() => locks.close());
      return locks;
    });
    let inside = 0;
    const visits = all.flatMap((locks, who) =>
      Array.from({ length: 60 }, async (_, i) => {
        const signal = i % 4 === 0 ? AbortSignal.timeout(1 + ((i * 7 + who) % 30)) : undefined;
        const options = { wait: "20s", mode: i % 9 === 0 ? "shared" : "exclusive", signal } as const;
        const visit = locks.run(`storm:${i % 3}`, options, async () => {
          inside++;
          await sleep(i % 3);
        });
        await visit.catch((error: unknown) => {
          if (signal === undefined) throw error;
        });
      }),
    );
    await Promise.all(visits);
    expect(inside).toBeGreaterThan(100);
    await eventually("nothing is left", async () => {
      const { held, pending } = await (all[0] as (typeof all)[0]).query();
      return held.length + pending.length === 0 ? true : undefined;
    });
    expect(await immortalKeys(admin)).toEqual([]);
  });
});

test("a release passes over a waiter whose ticket has lapsed, though its process still listens", async () => {
  await using testClients = new Clients();
  const silenced = testClients.client(server.port);
  const [a, b, c] = [
    testClients.backend(server.port),
    testClients.own(redis(silenced, { ticket: 200 })),
    testClients.backend(server.port, { ticket: "60s" }),
  ];
  const holder = claimOf();
  const [silent, alive] = [rivalOf(holder, { holder: "silent" }), rivalOf(holder, { holder: "alive" })];
  await granted(a, holder);
  await refused(b, silent);
  await refused(c, alive);
  // Its inbox has a connection of its own, which stays.
  silenced.disconnect();
  await eventually("its ticket has lapsed", async () =>
    (await a.query(holder.name)).pending.length === 1 ? true : undefined,
  );
  await a.release(holder);
  expect((await a.query(holder.name)).held.map((one) => one.holder)).toEqual(["alive"]);
});

test("an uncontended acquire and release are two commands, and a quiet lock gets no message", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const admin = testClients.client(own.port);
  const locks = createLocks(testClients.backend(own.port));
  testClients.later(() => locks.close());
  await locks.run("warm", () => undefined);
  await admin.config("RESETSTAT");
  for (let i = 0; i < 100; i++) await locks.run("solo", () => undefined);
  const { evalsha = 0, eval: evals = 0, publish = 0 } = await calls(admin);
  expect({ scripts: evalsha + evals, publish }).toEqual({ scripts: 200, publish: 0 });
});
