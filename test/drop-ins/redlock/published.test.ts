/**
 * The cases of redlock's published suite (its single.test.ts and multi.test.ts, at 5.0.0-beta.2), in our words: 11 cases on instances and on
 * clusters, against redlock itself and against the drop-in. All pass; docs/from-redlock.md says so.
 */
import type { Cluster, Redis } from "ioredis";
import { Redis as Client } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../../src/lab/servers/free-port.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { type Clusters, type Servers, startClusters, startServers } from "../servers.ts";
import { BOTH, type Library } from "./both.ts";

type AnyClient = Redis | Cluster;

/** About 28,000 years: no test waits for it to be over. */
const LONG_MS = Math.floor(Number.MAX_SAFE_INTEGER / 10);
/** The attempts of one call, without settings. */
const ATTEMPTS = 11;
/** A busy machine reads a ttl late. */
const LATE_MS = 60_000;

let servers: Servers;
let clusters: Clusters;
let names = 0;

beforeAll(async () => {
  [servers, clusters] = await Promise.all([startServers(3), startClusters(3)]);
});
afterAll(async () => {
  await Promise.all([servers[Symbol.asyncDispose](), clusters[Symbol.asyncDispose]()]);
});

/** All in one slot, as redlock's own tests have them. */
function newName(): string {
  return `{redlock}${++names}`;
}

/** A majority is enough to go on: the last server may be a little later. */
async function expectHeld(clients: readonly AnyClient[], name: string, value: string, ttlMs: number): Promise<void> {
  for (const client of clients) {
    const leftMs = await eventually(`${name} is held for ${ttlMs} ms`, async () => {
      const [found, left] = [await client.get(name), await client.pttl(name)];
      return found === value && left > ttlMs - LATE_MS ? left : undefined;
    });
    expect(leftMs).toBeLessThanOrEqual(ttlMs);
  }
}

async function expectFree(clients: readonly AnyClient[], ...all: readonly string[]): Promise<void> {
  for (const client of clients) {
    await eventually(`${all.join()} is free`, async () => ((await client.exists(...all)) === 0 ? true : undefined));
  }
}

/** Resolves to the errors of all votes against it. */
async function refusals(library: Library, acquired: Promise<unknown>): Promise<readonly Error[]> {
  const error = await acquired.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof library.ExecutionError)) throw new Error("This lock should not be had.", { cause: error });
  expect(error.attempts).toHaveLength(ATTEMPTS);
  const stats = await Promise.all(error.attempts);
  return stats.flatMap(({ votesAgainst }) => [...votesAgainst.values()]);
}

const STORES: readonly (readonly [string, (count: number) => readonly AnyClient[]])[] = [
  ["instances", (count) => servers.raws.slice(0, count)],
  ["clusters", (count) => clusters.clients.slice(0, count)],
];

describe.each(BOTH)("%s", (_, library) => {
  const { default: Redlock, ResourceLockedError } = library;

  describe.concurrent.each(STORES)("on %s", (_kind, clientsOf) => {
    test("a lock is acquired, extended and released", async () => {
      const clients = clientsOf(1);
      const name = newName();
      let lock = await new Redlock(clients).acquire([name], LONG_MS);
      await expectHeld(clients, name, lock.value, LONG_MS);
      lock = await lock.extend(3 * LONG_MS);
      await expectHeld(clients, name, lock.value, 3 * LONG_MS);
      await lock.release();
      await expectFree(clients, name);
    });

    test("a lock of several resources is acquired, extended and released", async () => {
      const clients = clientsOf(1);
      const both = [newName(), newName()];
      let lock = await new Redlock(clients).acquire(both, LONG_MS);
      for (const name of both) await expectHeld(clients, name, lock.value, LONG_MS);
      lock = await lock.extend(3 * LONG_MS);
      for (const name of both) await expectHeld(clients, name, lock.value, 3 * LONG_MS);
      await lock.release();
      await expectFree(clients, ...both);
    });

    test("a server that cannot be reached is a failed attempt each time", async () => {
      const client = new Client({
        host: "127.0.0.1",
        port: await freePort(),
        maxRetriesPerRequest: 0,
        autoResendUnfulfilledCommands: false,
        retryStrategy: () => null,
      });
      client.on("error", () => undefined);
      const errors = await refusals(library, new Redlock([client]).acquire([newName()], LONG_MS));
      expect(errors).toHaveLength(ATTEMPTS);
      for (const { message } of errors) expect(message).toBe("Connection is closed.");
    });

    test("a lock ends by its time", async () => {
      const clients = clientsOf(1);
      const name = newName();
      const redlock = new Redlock(clients);
      const first = await redlock.acquire([name], 200);
      const second = await redlock.acquire([name], LONG_MS);
      expect(second.value).not.toBe(first.value);
      await expectHeld(clients, name, second.value, LONG_MS);
      await second.release();
      await expectFree(clients, name);
    });

    test("a lock excludes another", async () => {
      const clients = clientsOf(1);
      const name = newName();
      const redlock = new Redlock(clients);
      const lock = await redlock.acquire([name], LONG_MS);
      const errors = await refusals(library, redlock.acquire([name], LONG_MS));
      expect(errors).toHaveLength(ATTEMPTS);
      for (const error of errors) expect(error).toBeInstanceOf(ResourceLockedError);
      await expectHeld(clients, name, lock.value, LONG_MS);
      await lock.release();
      await expectFree(clients, name);
    });

    test("locks of several resources exclude each other where they overlap, and the rest stays free", async () => {
      const clients = clientsOf(1);
      const [a, b, c] = [newName(), newName(), newName()];
      const redlock = new Redlock(clients);
      const lock = await redlock.acquire([a, b], LONG_MS);
      for (const error of await refusals(library, redlock.acquire([b, c], LONG_MS))) {
        expect(error).toBeInstanceOf(ResourceLockedError);
      }
      for (const name of [a, b]) await expectHeld(clients, name, lock.value, LONG_MS);
      await expectFree(clients, c);
      await lock.release();
      await expectFree(clients, a, b, c);
    });

    test("using() acquires, extends and releases", async () => {
      const [client] = clientsOf(1) as [AnyClient];
      const name = newName();
      const settings = { automaticExtensionThreshold: 1000 };
      const value = await new Redlock([client]).using([name], 3000, settings, async (signal) => {
        const held = await client.get(name);
        let leastMs = Infinity;
        await eventually("it was extended", async () => {
          const leftMs = await client.pttl(name);
          leastMs = Math.min(leastMs, leftMs);
          return leftMs > leastMs ? true : undefined;
        });
        expect(signal.aborted).toBe(false);
        expect(signal.error).toBeUndefined();
        expect(await client.get(name)).toBe(held);
        return held;
      });
      expect(value).toMatch(/./u);
      await expectFree([client], name);
    });

    test("using() excludes another", async () => {
      const [client] = clientsOf(1) as [AnyClient];
      const name = newName();
      const redlock = new Redlock([client]);
      let inside = 0;
      const work = async (): Promise<string | null> => {
        expect(++inside).toBe(1);
        const value = await client.get(name);
        await new Promise((resolve) => setTimeout(resolve, 50));
        inside--;
        return value;
      };
      const once = (): Promise<string | null> => redlock.using([name], 30_000, { retryCount: -1 }, work);
      const [first, second] = await Promise.all([once(), once()]);
      expect(first).not.toBe(second);
      await expectFree([client], name);
    });

    test("a majority of three is acquired, extended and released", async () => {
      const clients = clientsOf(3);
      const name = newName();
      let lock = await new Redlock(clients).acquire([name], LONG_MS);
      await expectHeld(clients, name, lock.value, LONG_MS);
      lock = await lock.extend(3 * LONG_MS);
      await expectHeld(clients, name, lock.value, 3 * LONG_MS);
      await lock.release();
      await expectFree(clients, name);
    });

    test("a minority may fail", async () => {
      const clients = clientsOf(3);
      const [first, second, third] = clients as [AnyClient, AnyClient, AnyClient];
      const name = newName();
      await third.set(name, "other");
      let lock = await new Redlock(clients).acquire([name], LONG_MS);
      await expectHeld([first, second], name, lock.value, LONG_MS);
      lock = await lock.extend(3 * LONG_MS);
      await expectHeld([first, second], name, lock.value, 3 * LONG_MS);
      await lock.release();
      await expectFree([first, second], name);
      expect(await third.get(name)).toBe("other");
      expect(await third.pttl(name)).toBe(-1);
    });

    test("a majority that fails is a failure, and leaves nothing behind", async () => {
      const clients = clientsOf(3);
      const [first, second, third] = clients as [AnyClient, AnyClient, AnyClient];
      const name = newName();
      await second.set(name, "other1");
      await third.set(name, "other2");
      const errors = await refusals(library, new Redlock(clients).acquire([name], LONG_MS));
      await expectFree([first], name);
      expect([await second.get(name), await third.get(name)]).toEqual(["other1", "other2"]);
      for (const error of errors) {
        expect(error).toBeInstanceOf(ResourceLockedError);
        expect(error.message).toBe("The operation was applied to: 0 of the 1 requested resources.");
      }
    });
  });
});
