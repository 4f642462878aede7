/** Where the drop-in must differ from redlock 5 for the better, what it adds, and what old and new pods are to each other. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { memory } from "../../../src/backends/memory/index.ts";
import { createLocks } from "../../../src/index.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { redisPlain } from "../../../src/backends/redis-plain/index.ts";
import type { RedisServer } from "../../../src/lab/servers/redis.ts";
import type { Locks } from "../../../src/core/api.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { type Servers, startServers } from "../servers.ts";
import { ours, theirs } from "./both.ts";

const { default: Redlock, ExecutionError, Lock, ResourceLockedError } = ours;
const ONCE = { retryCount: 0 };

let lab: Servers;
let names = 0;

beforeAll(async () => {
  lab = await startServers(3);
});
afterAll(() => lab[Symbol.asyncDispose]());

const newName = (): string => `beyond:${++names}`;
const first = (): readonly [Redis] => [lab.raw];

/** A process of redlock itself that takes a lock, says so, and stays. */
async function oldPod(name: string, ttlMs: number): Promise<ChildProcess> {
  const { host, port, password } = lab.servers[0] as RedisServer;
  const order = JSON.stringify({ client: { host, port, password }, name, ttlMs });
  const child = spawn(process.execPath, [join(import.meta.dirname, "old-pod.mjs"), order]);
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  return child;
}

function cleanLocks(backend = memory()): Locks {
  const locks = createLocks(backend);
  onTestFinished(() => locks.close());
  return locks;
}

describe("beside redlock itself, on the same keys", () => {
  test("each excludes the other, and may have it after the other", async () => {
    const name = newName();
    const [old, young] = [new theirs.default(first(), ONCE), new Redlock(first(), ONCE)];
    const held = await old.acquire([name], 60_000);
    await expect(young.acquire([name], 60_000)).rejects.toThrow(ExecutionError);
    await held.release();
    const next = await young.acquire([name], 60_000);
    await expect(old.acquire([name], 60_000)).rejects.toThrow(theirs.ExecutionError);
    await next.release();
    await (await old.acquire([name], 60_000)).release();
  });

  test("on three servers too", async () => {
    const name = newName();
    const [old, young] = [new theirs.default(lab.raws, ONCE), new Redlock(lab.raws, ONCE)];
    const held = await old.acquire([name], 60_000);
    await expect(young.acquire([name], 60_000)).rejects.toThrow(ExecutionError);
    await held.release();
    const next = await young.acquire([name], 60_000);
    await expect(old.acquire([name], 60_000)).rejects.toThrow(theirs.ExecutionError);
    await next.release();
  });

  test("a lock of one can be extended and released by the other, by its value", async () => {
    const name = newName();
    const [old, young] = [new theirs.default(first(), ONCE), new Redlock(first(), ONCE)];
    const held = await old.acquire([name], 60_000);
    const taken = new Lock(young, held.resources, held.value, [], held.expiration);
    await (await taken.extend(120_000)).release();
    expect(await lab.raw.exists(name)).toBe(0);
    const next = await young.acquire([name], 60_000);
    await new theirs.Lock(old, next.resources, next.value, [], next.expiration).release();
    expect(await lab.raw.exists(name)).toBe(0);
  });

  test("when an old pod is killed, a new one has its lock after its time", async () => {
    const name = newName();
    const child = await oldPod(name, 1000);
    const young = new Redlock(first(), { retryCount: -1, retryDelay: 20, retryJitter: 10 });
    await expect(young.acquire([name], 60_000, ONCE)).rejects.toThrow(ExecutionError);
    child.kill("SIGKILL");
    await (await young.acquire([name], 60_000)).release();
  });

  test("locks of Holdfast over plain keys are excluded, too", async () => {
    const name = newName();
    const locks = createLocks(redisPlain(lab.raw));
    onTestFinished(() => locks.close());
    const lock = await new Redlock(first(), ONCE).acquire([name], 60_000);
    expect(await locks.tryAcquire(name)).toBeNull();
    await lock.release();
    const lease = await locks.acquire(name);
    await expect(new Redlock(first(), ONCE).acquire([name], 60_000)).rejects.toThrow(ExecutionError);
    await lease.release();
  });
});

describe("for the better", () => {
  test("an attempt without a majority gives its votes back before the next one", async () => {
    const name = newName();
    await lab.raws[1]!.set(name, "other", "PX", 700);
    await lab.raws[2]!.set(name, "other", "PX", 700);
    const seen = new Set<string | null>();
    const acquired = new Redlock(lab.raws, { retryCount: -1, retryDelay: 100, retryJitter: 0 }).acquire([name], 60_000);
    await eventually("the vote of the first server is given back", async () => {
      seen.add(await lab.raw.get(name));
      return seen.size > 1 && seen.has(null) ? true : undefined;
    });
    const lock = await acquired;
    // With redlock 5, its own key on the first server would vote against it.
    const stats = await lock.attempts.at(-1);
    expect(stats?.votesFor.size).toBe(3);
    await lock.release();
  });

  test("its time counts from the attempt that got it", async () => {
    const name = newName();
    await lab.raw.set(name, "other", "PX", 1500);
    const startMs = Date.now();
    const lock = await new Redlock(first(), { retryCount: -1 }).acquire([name], 1000);
    expect(lock.expiration).toBeGreaterThan(startMs + 1500 + 1000 - 50);
    await lock.release().catch(() => undefined);
  });

  test("a tie of two servers is a failed attempt, not a promise that stays open", async () => {
    const name = newName();
    await lab.raws[1]!.set(name, "other");
    const error: unknown = await new Redlock(lab.raws.slice(0, 2), ONCE).acquire([name], 60_000).catch((e) => e);
    expect(error).toBeInstanceOf(ExecutionError);
    expect(await lab.raw.exists(name)).toBe(0);
  });

  test("a server that does not answer is against it after the lock's time", async () => {
    const name = newName();
    const own = await startServers(1);
    onTestFinished(() => own[Symbol.asyncDispose]());
    await own.raw.ping();
    own.servers[0]!.pause();
    const error: unknown = await new Redlock([own.raw], ONCE).acquire([name], 200).catch((e) => e);
    own.servers[0]!.resume();
    expect(error).toBeInstanceOf(ExecutionError);
    const [stats] = await Promise.all((error as InstanceType<typeof ExecutionError>).attempts);
    expect([...stats!.votesAgainst.values()].map(({ message }) => message)).toEqual(["No answer within 200 ms."]);
  });

  test("using() aborts its signal when the lock's time is over, not when its retries are", async () => {
    const name = newName();
    const settings = { automaticExtensionThreshold: 300, retryCount: 20, retryDelay: 100, retryJitter: 0 };
    const redlock = new Redlock(first(), settings);
    let failures = 0;
    redlock.on("error", () => failures++);
    let seen: { readonly failures: number; readonly error: unknown } | undefined;
    const used = redlock.using([name], 1000, async (signal) => {
      await lab.raw.set(name, "other", "PX", 60_000);
      await eventually("the signal aborts", () => (signal.aborted ? true : undefined));
      seen = { failures, error: signal.error };
    });
    // The release fails, too, and hides what the routine threw.
    await expect(used).rejects.toThrow(ExecutionError);
    expect(seen?.failures).toBeLessThan(20);
    expect(seen?.error).toBeInstanceOf(ExecutionError);
  });

  test("a ttl below 100 ms is raised to it", async () => {
    const name = newName();
    const sentMs = Date.now();
    const lock = await new Redlock(first()).acquire([name], 5);
    expect(lock.expiration).toBeGreaterThanOrEqual(sentMs + 100 - 3);
  });

  test("a fence rises from one holder to the next, on one server", async () => {
    const name = newName();
    const redlock = new Redlock(first());
    const one = await redlock.acquire([name], 60_000);
    const again = await one.extend(60_000);
    expect(again.fence).toBe(one.fence);
    await again.release();
    const next = await redlock.acquire([name], 60_000);
    expect(next.fence).toBeGreaterThan(one.fence as bigint);
    await next.release();
    const both = await redlock.acquire([name, newName()], 60_000);
    expect([both.fence, both.fences.size]).toEqual([undefined, 2]);
    await both.release();
    const majority = await new Redlock(lab.raws).acquire([newName()], 60_000);
    expect([majority.fence, majority.fences.size]).toEqual([undefined, 0]);
    await majority.release();
  });

  test("a user who may not ask for the time has no fence, and the lock all the same", async () => {
    const name = newName();
    await lab.raw.call("ACL", "SETUSER", "few", "on", ">few", "~*", "+@all", "-time");
    const lock = await new Redlock([lab.client(0, { username: "few", password: "few" })], ONCE).acquire([name], 60_000);
    expect([await lab.raw.get(name), lock.fence]).toEqual([lock.value, undefined]);
    await lock.release();
  });

  test("a client of node-redis is as good", async () => {
    const name = newName();
    const { url } = lab.servers[0] as RedisServer;
    const client = createClient({ url });
    await client.connect();
    const redlock = new Redlock([client]);
    const lock = await redlock.acquire([name], 60_000);
    expect(await lab.raw.get(name)).toBe(lock.value);
    await (await lock.extend(120_000)).release();
    await redlock.quit();
    expect(client.isOpen).toBe(false);
  });
});

describe("as in redlock", () => {
  test("its defaults, its errors and their words", async () => {
    expect(new Redlock(first()).settings).toEqual({ ...new theirs.default(first()).settings });
    expect(() => new Redlock([])).toThrow("Redlock must be instantiated with at least one redis client.");
    const redlock = new Redlock(first());
    const noInteger = "Duration must be an integer value in milliseconds.";
    await expect(redlock.acquire(["a"], 1.5)).rejects.toThrow(noInteger);
    await expect(redlock.using(["a"], 1.5, () => Promise.resolve())).rejects.toThrow(noInteger);
    await expect(redlock.using(["a"], 550, () => Promise.resolve())).rejects.toThrow(
      "A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.",
    );
    await expect(redlock.using(["a"], 5000, {})).rejects.toThrow("INVARIANT: routine is not a function.");
    expect(new ResourceLockedError("x")).toMatchObject({ name: "ResourceLockedError", message: "x" });
    expect(new ExecutionError("x", [])).toMatchObject({ name: "ExecutionError", message: "x", attempts: [] });
  });

  test.each([
    ["redlock 5", theirs],
    ["holdfast/redlock", ours],
  ])("%s: a lock that is over can be neither extended nor released", async (_, library) => {
    const name = newName();
    const lock = await new library.default(first(), ONCE).acquire([name], 60_000);
    await lab.raw.del(name);
    const error: unknown = await lock.release().catch((e) => e);
    expect(error).toBeInstanceOf(library.ExecutionError);
    expect((error as Error).message).toBe("The operation was unable to achieve a quorum during its retry window.");
    expect(lock.expiration).toBe(0);
    const late: unknown = await lock.extend(60_000).catch((e) => e);
    expect(late).toBeInstanceOf(library.ExecutionError);
    expect((late as Error).message).toBe("Cannot extend an already-expired lock.");
  });

  test("each vote against it is an event, and no event ends the process", async () => {
    const name = newName();
    await lab.raw.set(name, "other");
    const redlock = new Redlock(first(), { retryCount: 2, retryDelay: 5, retryJitter: 0 });
    const seen: unknown[] = [];
    redlock.on("error", (error) => seen.push(error));
    await expect(redlock.acquire([name], 60_000)).rejects.toThrow(ExecutionError);
    expect(seen).toHaveLength(3);
    for (const error of seen) expect(error).toBeInstanceOf(ResourceLockedError);
  });

  test("scripts of the user's are sent, and may answer as those of redlock do", async () => {
    const name = newName();
    const calls: string[] = [];
    const redlock = new Redlock(first(), ONCE, {
      acquireScript: (script) => (
        calls.push(script),
        'redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return #KEYS'
      ),
    });
    expect(calls).toHaveLength(1);
    await lab.raw.set(name, "other");
    const lock = await redlock.acquire([name], 60_000);
    expect(await lab.raw.get(name)).toBe(lock.value);
    expect(lock.fence).toBeUndefined();
    expect(redlock.scripts.acquireScript.value).toContain("#KEYS");
    await lock.release();
  });
});

describe("with `locks`: the clean layout", () => {
  test("locks are leases, and their keys are not those of redlock", async () => {
    const name = newName();
    const locks = cleanLocks(redis(lab.raw));
    const redlock = new Redlock(first(), { ...ONCE, locks });
    const lock = await redlock.acquire([name, `${name}b`], 60_000);
    expect(await locks.isHeld(name)).toBe(true);
    expect(await lab.raw.exists(name)).toBe(0);
    expect([...lock.fences.keys()]).toEqual([name, `${name}b`]);
    expect(lock.expiration).toBeGreaterThan(Date.now() + 30_000);
    await expect(redlock.acquire([name], 60_000)).rejects.toThrow(ExecutionError);
    const next = await lock.extend(60_000);
    expect(lock.expiration).toBe(0);
    await next.release();
    expect(await locks.isHeld(name)).toBe(false);
    await expect(next.release()).rejects.toThrow(ExecutionError);
  });

  test("it waits in the queue for as long as redlock would try", async () => {
    const name = newName();
    const redlock = new Redlock(first(), { locks: cleanLocks(), retryCount: -1 });
    const lock = await redlock.acquire([name], 60_000);
    const waiting = redlock.acquire([name], 60_000);
    await lock.release();
    await (await waiting).release();
  });

  test("it never re-enters, also inside run() of these locks", async () => {
    const [name, other] = [newName(), newName()];
    const locks = cleanLocks();
    const redlock = new Redlock(first(), { ...ONCE, locks });
    await locks.run(name, async () => {
      await expect(redlock.acquire([name], 60_000)).rejects.toThrow(ExecutionError);
      await expect(redlock.acquire([other, name], 60_000)).rejects.toThrow(ExecutionError);
    });
    expect(await locks.isHeld(other)).toBe(false);
  });

  test("a lock that is lost aborts using() and its own signal", async () => {
    const name = newName();
    const locks = cleanLocks();
    const redlock = new Redlock(first(), { locks });
    await expect(
      redlock.using([name], 60_000, async (signal) => {
        const { held } = await locks.inspect(name);
        await locks.forceRelease(name, { fence: held[0]!.fence, reason: "test" });
        await eventually("the signal aborts", () => (signal.aborted ? true : undefined));
        expect(signal.error).toBeInstanceOf(ExecutionError);
      }),
    ).rejects.toThrow(ExecutionError);
  });

  test("what it cannot do is refused", async () => {
    const locks = cleanLocks();
    expect(() => new Redlock(first(), { locks }, { acquireScript: (text) => text })).toThrow(/no scripts beside/);
    expect(() => new Redlock(first(), { locks: {} as Locks })).toThrow(/Expected `locks`/);
    const redlock = new Redlock(first(), { ...ONCE, locks });
    await expect(redlock.acquire(["a"], 25 * 3_600_000)).rejects.toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
    const unknown = new Lock(redlock, ["a"], "made elsewhere", [], Date.now() + 60_000);
    await expect(unknown.release()).rejects.toThrow(ExecutionError);
  });
});
