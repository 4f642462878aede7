/**
 * The cases of redis-semaphore's published suite (those of its classes, at 5.8.0), in our words: for each of the six classes, against
 * redis-semaphore itself and against the drop-in. docs/from-redis-semaphore.md lists what of that suite is not here, and why.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { RedisServer } from "../../../src/lab/servers/redis.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { type Servers, startServers } from "../servers.ts";
import { BOTH, type Kind, KINDS, type Options } from "./both.ts";

const run = promisify(execFile);
/** Long enough to hold on a busy machine, and refreshed often. */
const KEPT: Options = { lockTimeout: 3000, acquireTimeout: 100, refreshInterval: 100, retryInterval: 10 };
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/u;

let lab: Servers;
let keys = 0;

beforeAll(async () => {
  lab = await startServers(3);
});
afterAll(() => lab[Symbol.asyncDispose]());

const newKey = (): string => `key${++keys}`;
const clientsOf = ({ servers }: Kind): readonly Redis[] => lab.raws.slice(0, servers);

/** Who has the lock there. */
async function holders(client: Redis, kind: Kind, key: string): Promise<readonly string[]> {
  const full = kind.prefix + key;
  if (kind.prefix === "semaphore:") return (await client.zrange(full, 0, -1)).toSorted();
  const value = await client.get(full);
  return value === null ? [] : [value];
}

async function expectHolders(
  kind: Kind,
  key: string,
  locks: readonly { readonly identifier: string }[],
): Promise<void> {
  const expected = locks.flatMap(({ identifier }) => membersOf(kind, identifier)).toSorted();
  // A refresh of redis-semaphore that was under way during a release may write its locks again, for one lockTimeout.
  for (const client of clientsOf(kind)) {
    await eventually(`${key} is held by ${expected.join()}`, async () =>
      (await holders(client, kind, key)).join() === expected.join() ? true : undefined,
    );
  }
}

function membersOf(kind: Kind, identifier: string): readonly string[] {
  const members = kind.members(identifier);
  return members.length === 0 ? [identifier] : members;
}

/** As another instance would, after the lock was over. */
async function takeAway(kind: Kind, key: string, isFree: boolean): Promise<void> {
  for (const client of clientsOf(kind)) {
    await client.del(kind.prefix + key);
    if (isFree) continue;
    if (kind.prefix === "mutex:") await client.set(kind.prefix + key, "222");
    else await client.zadd(kind.prefix + key, Date.now(), "aaa", Date.now(), "bbb", Date.now(), "ccc");
  }
}

describe.each(BOTH)("%s", (_, library) => {
  describe.each(KINDS)("$name", (kind) => {
    const make = (key: string, options?: Options): ReturnType<Kind["make"]> => {
      const lock = kind.make(library, clientsOf(kind), key, options);
      onTestFinished(() => lock.stopRefresh());
      return lock;
    };
    /** As many as may hold at once. */
    const fill = async (key: string, options?: Options): Promise<readonly ReturnType<Kind["make"]>[]> => {
      const locks = Array.from({ length: kind.holders }, () => make(key, options));
      for (const lock of locks) await lock.acquire();
      return locks;
    };

    test("refuses wrong arguments in these words", () => {
      const nothing = undefined as unknown as readonly Redis[];
      const needed = kind.servers === 1 ? '"client" is required' : '"clients" array is required';
      const given = kind.servers === 1 ? [nothing] : nothing;
      const refused: readonly (readonly [() => unknown, string])[] = [
        [() => make(""), '"key" is required'],
        [() => make(1 as unknown as string), '"key" must be a string'],
        [() => make("key", { identifier: "" }), "identifier must be not empty random string"],
        [() => make("key", { acquiredExternally: true }), "acquiredExternally=true meanless without custom identifier"],
        [
          () => make("key", { externallyAcquiredIdentifier: "123", identifier: "123" }),
          "Invalid usage. Use custom identifier and acquiredExternally: true",
        ],
        [
          () => make("key", { externallyAcquiredIdentifier: "123", acquiredExternally: true, identifier: "123" }),
          "Invalid usage. Use custom identifier and acquiredExternally: true",
        ],
      ];
      for (const [made, message] of refused) expect(made).toThrow(message);
      if (kind.servers === 1) expect(() => kind.make(library, [], "key")).toThrow(needed);
      else expect(() => new library.RedlockMutex(given as unknown as Redis[], "key")).toThrow(needed);
    });

    test("has an identifier of its own, a suffix, or what was given", () => {
      expect(make("key").identifier).toMatch(UUID);
      expect(make("key", {}).identifier).toMatch(UUID);
      expect(make("key", { identifierSuffix: "abc" }).identifier.slice(0, -4)).toMatch(UUID);
      expect(make("key", { identifier: "abc" }).identifier).toBe("abc");
    });

    test("is acquired and released", async () => {
      const key = newKey();
      const lock = make(key);
      expect(lock.isAcquired).toBe(false);
      await lock.acquire();
      expect(lock.isAcquired).toBe(true);
      await expectHolders(kind, key, [lock]);
      await lock.release();
      expect(lock.isAcquired).toBe(false);
      await expectHolders(kind, key, []);
    });

    test("is held by as many as its limit says, and rejects the next after its time", async () => {
      const key = newKey();
      const locks = await fill(key, KEPT);
      await expectHolders(kind, key, locks);
      const late: unknown = await make(key, KEPT)
        .acquire()
        .catch((error) => error);
      expect(late).toBeInstanceOf(library.TimeoutError);
      expect((late as Error).message).toBe(`Acquire ${kind.words}${key} timeout`);
      for (const lock of locks) await lock.release();
      await expectHolders(kind, key, []);
    });

    test("stops waiting when the signal aborts", async () => {
      const key = newKey();
      const locks = await fill(key, KEPT);
      const waiting = make(key, { ...KEPT, acquireTimeout: 60_000 }).acquire(AbortSignal.timeout(20));
      await expect(waiting).rejects.toThrow("The operation was aborted due to timeout");
      await expect(make(key, KEPT).acquire(AbortSignal.abort(new Error("no")))).rejects.toThrow("no");
      for (const lock of locks) await lock.release();
      await expectHolders(kind, key, []);
    });

    test("tryAcquire() says whether it was", async () => {
      const key = newKey();
      const locks = await fill(key, KEPT);
      expect(await make(key, KEPT).tryAcquire()).toBe(false);
      expect(await make(key, { ...KEPT, acquireAttemptsLimit: 1 }).tryAcquire()).toBe(false);
      for (const lock of locks) await lock.release();
      const next = make(key, KEPT);
      expect(await next.tryAcquire()).toBe(true);
      await next.release();
    });

    test("is refreshed until it is released, and no longer when that is stopped", async () => {
      const key = newKey();
      const lock = make(key, { ...KEPT, lockTimeout: 1000 });
      await lock.acquire();
      let leastMs = Infinity;
      const client = clientsOf(kind)[0] as Redis;
      await eventually("it was refreshed", async () => {
        const leftMs = await client.pttl(kind.prefix + key);
        leastMs = Math.min(leastMs, leftMs);
        return leftMs > leastMs ? true : undefined;
      });
      expect(lock.isAcquired).toBe(true);
      lock.stopRefresh();
      await eventually("it is over", async () => ((await holders(client, kind, key)).length === 0 ? true : undefined));
    });

    test("is not refreshed while a refresh is under way", async () => {
      const lock = make(newKey(), { ...KEPT, refreshInterval: 10 });
      let [open, most, calls] = [0, 0, 0];
      const refresh = async (): Promise<boolean> => {
        most = Math.max(most, ++open);
        await new Promise((resolve) => setTimeout(resolve, 50));
        open--;
        return ++calls > 0;
      };
      Object.assign(lock, { _refresh: refresh });
      await lock.acquire();
      await eventually("it was refreshed thrice", () => (calls >= 3 ? true : undefined));
      expect(most).toBe(1);
      await lock.release();
    });

    test.each([
      ["the deprecated options", (identifier: string): Options => ({ externallyAcquiredIdentifier: identifier })],
      ["`acquiredExternally`", (identifier: string): Options => ({ identifier, acquiredExternally: true })],
    ])("can be acquired here and kept and released there, by %s", async (_how, options) => {
      const key = newKey();
      const here = make(key, { ...KEPT, refreshInterval: 0 });
      const there = make(key, { ...KEPT, ...options(here.identifier) });
      await here.acquire();
      await there.acquire();
      expect(there.isAcquired).toBe(true);
      await expectHolders(kind, key, [there]);
      await there.release();
      await expectHolders(kind, key, []);
      expect(await make(key, { ...KEPT, ...options(here.identifier) }).tryAcquire()).toBe(false);
    });

    test.each([
      ["another has it", false],
      ["it is over", true],
    ])("calls `onLockLost` when %s", async (_why, isFree) => {
      const key = newKey();
      const seen: { readonly error: Error; readonly isAcquired: boolean }[] = [];
      const lock = make(key, {
        ...KEPT,
        onLockLost(error) {
          seen.push({ error, isAcquired: this.isAcquired });
        },
      });
      await lock.acquire();
      await takeAway(kind, key, isFree);
      const [first] = await eventually("its loss is reported", () => (seen.length > 0 ? seen : undefined));
      expect(first?.error).toBeInstanceOf(library.LostLockError);
      const [, words] = /^(\S+) (\S+)$/u.exec(kind.words) ?? [];
      expect(first?.error.message).toBe(`Lost ${words} for key ${kind.prefix}${key}`);
      expect([first?.isAcquired, lock.isAcquired, seen.length]).toEqual([false, false, 1]);
      await lock.release();
    });

    test("does not report the loss of what was released meanwhile", async () => {
      const key = newKey();
      const seen: unknown[] = [];
      const lock = make(key, { ...KEPT, refreshInterval: 10, onLockLost: (error) => void seen.push(error) });
      let asked = 0;
      let answer: (isOurs: boolean) => void = () => {};
      Object.assign(lock, { _refresh: () => (asked++, new Promise<boolean>((resolve) => (answer = resolve))) });
      await lock.acquire();
      await eventually("a refresh is under way", () => (asked > 0 ? true : undefined));
      await lock.release();
      answer(false);
      await new Promise((resolve) => setImmediate(resolve));
      expect(seen).toEqual([]);
    });

    test("can be used again", async () => {
      const key = newKey();
      const lock = make(key, KEPT);
      for (let life = 0; life < 3; life++) {
        await lock.acquire();
        await expectHolders(kind, key, [lock]);
        await lock.release();
        await expectHolders(kind, key, []);
      }
    });

    test("without refreshes it ends by its time, for as many as its limit says", async () => {
      const key = newKey();
      const options = { acquireTimeout: 60_000, lockTimeout: 300, retryInterval: 10, refreshInterval: 0 };
      const before = await fill(key, options);
      const after = await fill(key, options);
      expect(after.map(({ identifier }) => identifier)).not.toEqual(before.map(({ identifier }) => identifier));
      for (const lock of after) await lock.release();
    });
  });

  test("permits of MultiSemaphore and Semaphore are of one semaphore", async () => {
    const key = newKey();
    const { MultiSemaphore, Semaphore } = library;
    const many = new MultiSemaphore(lab.raw, key, 3, 2, KEPT);
    const one = new Semaphore(lab.raw, key, 3, KEPT);
    await many.acquire();
    await one.acquire();
    await expect(new MultiSemaphore(lab.raw, key, 3, 2, KEPT).acquire()).rejects.toThrow(
      `Acquire multi-semaphore semaphore:${key} timeout`,
    );
    await expect(new Semaphore(lab.raw, key, 3, KEPT).acquire()).rejects.toThrow("timeout");
    await many.release();
    expect(await lab.raw.zrange(`semaphore:${key}`, 0, -1)).toEqual([one.identifier]);
    await one.release();
    expect(() => new Semaphore(lab.raw, "key", 0)).toThrow('"limit" is required');
    expect(() => new Semaphore(lab.raw, "key", "10" as unknown as number)).toThrow('"limit" must be a number');
    expect(() => new MultiSemaphore(lab.raw, "key", 5, 0)).toThrow('"permits" is required');
    expect(() => new MultiSemaphore(lab.raw, "key", 5, "2" as unknown as number)).toThrow('"permits" must be a number');
  });

  test("has these names and defaults", () => {
    for (const { name } of KINDS) expect(library).toHaveProperty(name);
    expect(library.defaultTimeoutOptions).toEqual({
      lockTimeout: 10_000,
      acquireTimeout: 10_000,
      acquireAttemptsLimit: Infinity,
      retryInterval: 10,
    });
  });

  describe("servers that stop", { concurrent: true }, () => {
    // With the hook of each test: the common one is that of whichever test runs last.
    test.for(KINDS.filter(({ servers }) => servers === 1))("$name is lost with its server", async (kind, context) => {
      const own = await startServers(1);
      context.onTestFinished(() => own[Symbol.asyncDispose]());
      let lost = 0;
      const lock = kind.make(library, own.raws, "key", { ...KEPT, onLockLost: () => void lost++ });
      await lock.acquire();
      await own.servers[0]!.kill();
      await own.servers[0]!.restart();
      await eventually("its loss is reported", () => (lost > 0 ? true : undefined));
      expect(lock.isAcquired).toBe(false);
      const next = kind.make(library, own.raws, "key", { ...KEPT, acquireTimeout: 10_000 });
      await next.acquire();
      await Promise.all([lock.release(), next.release()]);
    });

    test.for(KINDS.filter(({ servers }) => servers === 3))(
      "$name outlives one of three servers, and is written again when that is back",
      async (kind, context) => {
        const own = await startServers(3);
        context.onTestFinished(() => own[Symbol.asyncDispose]());
        // A client whose commands fail at once, as in the published suite.
        const clients = own.clients({ maxRetriesPerRequest: 0, enableOfflineQueue: false, retryStrategy: () => 50 });
        await Promise.all(
          clients.map((client) => eventually("it is connected", () => client.status === "ready" || undefined)),
        );
        let lost = 0;
        const locks = Array.from({ length: kind.holders }, () =>
          kind.make(library, clients, "key", { ...KEPT, lockTimeout: 10_000, onLockLost: () => void lost++ }),
        );
        for (const lock of locks) await lock.acquire();
        await own.servers[0]!.kill();
        await expect(kind.make(library, clients, "key", KEPT).acquire()).rejects.toThrow("timeout");
        await own.servers[0]!.restart();
        const expected = locks.flatMap(({ identifier }) => membersOf(kind, identifier)).toSorted();
        await eventually("it is there again", async () => {
          const found = await holders(own.raw, kind, "key");
          return found.join() === expected.join() ? true : undefined;
        });
        expect(lost).toBe(0);
        await Promise.all([own.servers[0]!.kill(), own.servers[1]!.kill()]);
        await eventually("its loss is reported", () => (lost === locks.length ? true : undefined));
        await eventually("the third server is free", async () =>
          (await holders(own.raws[2]!, kind, "key")).length === 0 ? true : undefined,
        );
        for (const lock of locks) await lock.release();
      },
    );
  });
});

test.each(["redis-semaphore", "holdfast/redis-semaphore"])(
  "%s: without `onLockLost`, a loss is an unhandled LostLockError",
  async (name) => {
    const { host, port, password } = lab.servers[0] as RedisServer;
    const order = JSON.stringify({ name, client: { host, port, password } });
    const { stdout } = await run(process.execPath, [join(import.meta.dirname, "lose.mjs"), order]);
    expect(stdout).toBe("unhandled: true Lost mutex for key mutex:lost\n");
  },
);
