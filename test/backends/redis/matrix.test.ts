/**
 * What is said of every client, on every client: a lost reply to any operation makes no false answer, no second hold and nothing
 * that stays; and close() gives back the user's client as it was, and closes the client that was ours.
 */
import type { EventEmitter } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { systemClock } from "../../../src/contract/clock.ts";
import { leftInRedis } from "../../../src/lab/leftovers.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { type ClusterLab, startCluster } from "../../../src/lab/servers/cluster.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { type SentinelLab, startSentinels } from "../../../src/lab/servers/sentinels.ts";
import { type RedisBackend, redis } from "../../../src/backends/redis/index.ts";
import { openBackend } from "../../../src/backends/redis/open.ts";
import { countTimers, Leftovers } from "../../../src/testing/leftovers.ts";
import { libraries, type Opened } from "./clients.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf } from "./lab.ts";

let server: RedisServer;
let sentinels: SentinelLab;
let cluster: ClusterLab;

beforeAll(async () => {
  [server, sentinels, cluster] = await Promise.all([startRedis(), startSentinels(), startCluster()]);
});
afterAll(async () => {
  await Promise.all([server, sentinels, cluster].map((started) => started?.stop()));
});

/** Loses the reply to the next request that mentions `text`, with its connection. Tells whether it did. */
function loseReplyTo(proxy: Proxy, text: string): () => boolean {
  let connection: number | undefined;
  let lost = false;
  proxy.onRequest = (chunk, id) => {
    if (!lost && chunk.includes(text)) connection ??= id;
    return undefined;
  };
  proxy.onReply = (_, id) => {
    if (lost || id !== connection) return undefined;
    lost = true;
    return "reset";
  };
  return () => lost;
}

/** The answer, or what there is instead: an error that says “unknown”, and never one that says no. */
const UNKNOWN = Symbol("unknown");
async function orUnknown<T>(asked: Promise<T>): Promise<T | typeof UNKNOWN> {
  return asked.catch((error: unknown) => {
    expect(error).toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: false });
    return UNKNOWN;
  });
}

interface Stage {
  readonly far: RedisBackend;
  readonly near: RedisBackend;
  readonly name: string;
  /** Loses the next reply, does it, and makes sure that one was lost. */
  readonly losing: <T>(text: string, step: () => Promise<T>) => Promise<T | typeof UNKNOWN>;
}

/** Each operation once, with its reply lost; what it may say, and what the store must show afterwards. */
const OPERATIONS: Readonly<Record<string, (stage: Stage) => Promise<void>>> = {
  acquire: async ({ far, losing, name, near }) => {
    const claim = claimOf({ name });
    const answer = await losing(claim.id, () => far.attempt(claim));
    // The core must know: a copy may be on its way.
    if (answer !== UNKNOWN) expect(answer.sentTwice).toBe(true);
    const { fence } = await granted(far, claim);
    expect([UNKNOWN, fence]).toContain(answer === UNKNOWN ? answer : answer.granted && answer.fence);
    expect((await near.query(name)).held).toMatchObject([{ fence }]);
    expect(await far.release(claim)).toBe("held");
  },
  "acquire, queued": async ({ far, losing, name, near }) => {
    const [holder, waiter] = [claimOf({ name }), claimOf({ name })];
    await granted(near, holder);
    const answer = await losing(waiter.id, () => far.attempt(waiter));
    if (answer !== UNKNOWN) expect(answer).toMatchObject({ granted: false, position: 1, sentTwice: true });
    expect(await refused(far, waiter)).toMatchObject({ position: 1 });
    expect((await near.query(name)).pending).toHaveLength(1);
    await near.release(holder);
    await eventually("the waiter is served", async () => ((await far.attempt(waiter)).granted ? true : undefined));
    expect(await far.release(waiter)).toBe("held");
  },
  renew: async ({ far, losing, name }) => {
    const claim = claimOf({ name });
    await granted(far, claim);
    const answer = await losing(claim.id, () => far.renew([claim]));
    if (answer !== UNKNOWN) expect([true, "unknown"]).toContain(answer[0]?.held);
    expect(await far.renew([claim])).toMatchObject([{ held: true }]);
    expect(await far.release(claim)).toBe("held");
  },
  release: async ({ far, losing, name, near }) => {
    const claim = claimOf({ name });
    await granted(far, claim);
    expect([UNKNOWN, "held"]).toContain(await losing(claim.id, () => far.release(claim)));
    expect((await near.query(name)).held).toEqual([]);
  },
  swap: async ({ far, losing, name, near }) => {
    const [held, next] = [claimOf({ name }), claimOf({ name })];
    await granted(far, held);
    const answer = await losing(next.id, () => far.swap(held, next));
    if (answer !== UNKNOWN) expect([undefined, "held"]).toContain(answer.released);
    const { fence } = await granted(far, next);
    if (answer !== UNKNOWN) expect(answer).toMatchObject({ granted: true, fence, sentTwice: true });
    expect((await near.query(name)).held).toMatchObject([{ fence }]);
    expect(await far.release(next)).toBe("held");
  },
  "release by force": async ({ far, losing, name, near }) => {
    const claim = claimOf({ name });
    const { fence } = await granted(near, claim);
    const answer = await losing("the reply to this is lost", () =>
      far.forceRelease(name, fence, "ops", "the reply to this is lost"),
    );
    expect([UNKNOWN, true]).toContain(answer);
    expect(await near.query(name)).toMatchObject({ held: [], forced: [{ fence, by: "ops" }] });
    expect(await near.renew([claim])).toMatchObject([{ held: false }]);
  },
  query: async ({ far, losing, name, near }) => {
    const claim = claimOf({ name });
    const { fence } = await granted(near, claim);
    const answer = await losing(name, () => far.query(name));
    if (answer !== UNKNOWN) expect(answer.held).toMatchObject([{ fence }]);
    expect((await far.query(name)).held).toMatchObject([{ fence }]);
    expect(await near.release(claim)).toBe("held");
  },
};

describe.concurrent.each(Object.values(libraries))("a lost reply, with $name, to", (library) => {
  test.each(Object.entries(OPERATIONS))("%s", async (_, play) => {
    await using testClients = new Clients();
    const proxy = await startProxy({ port: server.port });
    testClients.later(() => proxy.stop());
    const { client, close } = await library.standalone(proxy.port);
    testClients.later(close);
    const [far, near] = [testClients.own(redis(client)), testClients.backend(server.port)];
    const { name } = claimOf();
    await warm(far, name);
    await play({
      far,
      near,
      name,
      losing: async (text, step) => {
        const lost = loseReplyTo(proxy, text);
        const answer = await orUnknown(step());
        expect(lost(), "the reply was lost").toBe(true);
        return answer;
      },
    });
    expect(await leftInRedis(server, name)).toEqual([]);
  });
});

/** The server knows the scripts from here on, so that one request does it. */
async function warm(backend: RedisBackend, name: string): Promise<void> {
  const claims = [claimOf({ name: `${name}/warm` }), claimOf({ name: `${name}/warm` })] as const;
  const { fence } = await granted(backend, claims[0]);
  await backend.renew([claims[0]]);
  await backend.swap(...claims);
  await backend.forceRelease(claims[0].name, fence, "ops", "not held any more");
  await backend.query(`${name}/warm`);
  await backend.release(claims[1]);
}

const TOPOLOGIES: Readonly<
  Record<string, { open: (library: (typeof libraries)["redis6"]) => Promise<Opened>; url: () => string }>
> = {
  standalone: { open: (library) => library.standalone(server.port), url: () => `${server.url}?` },
  sentinel: { open: (library) => library.sentinel(sentinels), url: () => `${sentinels.url}&` },
  cluster: { open: (library) => library.cluster(cluster), url: () => `${cluster.url}?` },
};

/** Holds, waits and is notified: everything that needs a listener, a timer or a connection of the backend's own. */
async function use(backend: RedisBackend, done: () => Promise<void>): Promise<void> {
  const claim = claimOf();
  const waiter = rivalOf(claim);
  await granted(backend, claim);
  await refused(backend, waiter);
  const watching = backend.watch(waiter, AbortSignal.timeout(10_000));
  await backend.release(claim);
  const news = await watching;
  if (news === undefined)
    await eventually("granted", async () => ((await backend.attempt(waiter)).granted ? 1 : undefined));
  expect(await backend.release(waiter)).toBe("held");
  await done();
}

/** Where processes of ours hear of their grants, on every server there is. */
async function inboxes(): Promise<readonly string[]> {
  const all = [server, sentinels.primary, ...sentinels.replicas, ...cluster.nodes];
  const channels = await Promise.all(all.map((one) => one.cli("PUBSUB", "CHANNELS", "holdfast:inbox:*")));
  return channels.filter((text) => text !== "");
}

describe("close()", () => {
  countTimers(systemClock);

  for (const library of Object.values(libraries)) {
    test.each(Object.entries(TOPOLOGIES))(
      `gives a client of ${library.name} back as it was: %s`,
      { timeout: 180_000 },
      async (_, { open }) => {
        const { client, close } = await open(library);
        try {
          // A cluster client connects to its nodes when it first needs them.
          const first = redis(client);
          await use(first, () => first.close());
          const emitters = { client: client as unknown as EventEmitter };
          const before = new Leftovers({ emitters, clock: systemClock, process: false });
          const backend = redis(client);
          await use(backend, () => backend.close());
          expect(await before.lookAtLast(10_000)).toEqual([]);
          // Still open, and still the user's.
          const again = redis(client);
          await use(again, () => again.close());
        } finally {
          await close();
        }
        await eventually("no inbox is left", async () => ((await inboxes()).length === 0 ? true : undefined));
      },
    );
  }

  for (const client of ["ioredis", "redis"]) {
    test.each(Object.entries(TOPOLOGIES))(
      `closes the client of ${client} that was opened by URL: %s`,
      { timeout: 180_000 },
      async (_, { url }) => {
        const before = new Leftovers({ clock: systemClock });
        const backend = (await openBackend(`${url()}client=${client}`)) as RedisBackend;
        expect(before.look()).not.toEqual([]);
        await use(backend, () => backend.close());
        expect(await before.lookAtLast(15_000)).toEqual([]);
        expect(await inboxes()).toEqual([]);
      },
    );
  }
});
