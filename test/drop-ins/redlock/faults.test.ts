/** What the drop-in for redlock must hold to when clocks are set, answers come late or never, and calls are sent again. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { RedisServer } from "../../../src/lab/servers/redis.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { door, faultyClient, loseNextReply, watchedClient } from "../faulty.ts";
import { type Servers, startServers } from "../servers.ts";
import { ours } from "./both.ts";

const { default: Redlock, ExecutionError } = ours;
const ONCE = { retryCount: 0 };
const FOREVER = { retryCount: -1, retryDelay: 20, retryJitter: 10 };
const HOUR_MS = 3_600_000;

let lab: Servers;
let names = 0;

beforeAll(async () => {
  lab = await startServers(3);
});
afterAll(() => lab[Symbol.asyncDispose]());

const newName = (): string => `faults:${++names}`;
const server = (at = 0): RedisServer => lab.servers[at] as RedisServer;

/** From now on the wall clock is wrong by so much. */
function setWallClock(byMs: number): void {
  const real = Date.now.bind(Date);
  const spy = vi.spyOn(Date, "now").mockImplementation(() => real() + byMs);
  onTestFinished(() => spy.mockRestore());
}

/** Until a lock that was asked for before now, for so long, is surely over. */
async function untilOver(durationMs: number): Promise<void> {
  const overMs = performance.now() + durationMs;
  await eventually("its time is over", () => (performance.now() > overMs ? true : undefined));
}

describe("a wall clock that is set", () => {
  test("forwards takes no trust away", async () => {
    const name = newName();
    const redlock = new Redlock([lab.raw], ONCE);
    const lock = await redlock.acquire([name], 60_000);
    let isAborted: boolean | undefined;
    await redlock.using([newName()], 2000, { automaticExtensionThreshold: 1500 }, async (signal) => {
      setWallClock(HOUR_MS);
      await (await lock.extend(60_000)).release();
      // Through some of its extensions.
      await new Promise((resolve) => setTimeout(resolve, 1500));
      isAborted = signal.aborted;
    });
    expect(isAborted).toBe(false);
  });

  test("back gives none: a lock that is over cannot be extended", async () => {
    const lock = await new Redlock([lab.raw], ONCE).acquire([newName()], 200);
    setWallClock(-HOUR_MS);
    await untilOver(200);
    expect(lock.remaining()).toBe(0);
    await expect(lock.extend(60_000)).rejects.toThrow("Cannot extend an already-expired lock.");
  });

  test("back while an extension is under way does not keep using() from its end", async () => {
    const { proxy, client } = await faultyClient(server());
    const redlock = new Redlock([client], { ...ONCE, automaticExtensionThreshold: 900 });
    let seen: unknown;
    const used = redlock.using([newName()], 1500, async (signal) => {
      await new Promise<void>((resolve) => {
        proxy.onReply = () => (resolve(), "hold");
      });
      setWallClock(-HOUR_MS);
      proxy.onReply = undefined;
      proxy.deliver();
      proxy.hang();
      await eventually("the signal aborts", () => (signal.aborted ? true : undefined));
      seen = signal.error;
      await proxy.heal();
    });
    await used.catch(() => undefined);
    expect(seen).toBeInstanceOf(ExecutionError);
  });
});

describe("an answer that comes late", () => {
  test("is not believed by acquire(), and what it took is given back", async () => {
    const { proxy, client } = await faultyClient(server());
    const name = newName();
    const redlock = new Redlock([client], ONCE);
    // The script is known there, so that the next answer is about the lock.
    await (await redlock.acquire([newName()], 60_000)).release();
    proxy.hang("replies");
    const answer = redlock.acquire([name], 1000).catch((error: unknown) => error);
    await eventually("it is taken", async () => ((await lab.raw.exists(name)) === 1 ? true : undefined));
    await eventually("it is over", async () => ((await lab.raw.exists(name)) === 0 ? true : undefined));
    await proxy.heal();
    expect(await answer).toBeInstanceOf(ExecutionError);
    expect(await lab.raw.exists(name)).toBe(0);
  });

  test("is not believed by extend() once the lock is over: another may have had it in between", async () => {
    const { proxy, client } = await faultyClient(server());
    const lock = await new Redlock([client], ONCE).acquire([newName()], 600);
    proxy.onReply = () => "hold";
    const answer = lock.extend(60_000).then(
      () => "extended",
      (error: unknown) => error,
    );
    await untilOver(600);
    await proxy.heal();
    expect(await answer).toBeInstanceOf(ExecutionError);
  });
});

describe("what was lost, and retries without end", () => {
  test("extend() and release() end when a majority refuses", async () => {
    const name = newName();
    const redlock = new Redlock([lab.raw], FOREVER);
    const lock = await redlock.acquire([name], 60_000);
    await lab.raw.del(name);
    await expect(lock.extend(60_000)).rejects.toThrow(ExecutionError);
    await expect(lock.extend(60_000)).rejects.toThrow("Cannot extend an already-expired lock.");
    await expect(lock.release()).rejects.toThrow(ExecutionError);
  });

  test("using() tells at once, and ends with its work", async () => {
    const name = newName();
    const redlock = new Redlock([lab.raw], { ...FOREVER, automaticExtensionThreshold: 59_000 });
    const work = new Error("of the work");
    const error: unknown = await redlock
      .using([name], 60_000, async (signal) => {
        await lab.raw.del(name);
        await eventually("the signal aborts", () => (signal.aborted ? true : undefined));
        throw work;
      })
      .catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ExecutionError);
    expect((error as Error).cause).toBe(work);
  });

  test("release() does not wait for a server that does not answer, longer than the lock lasts", async () => {
    const { proxy, client } = await faultyClient(server());
    const lock = await new Redlock([client], FOREVER).acquire([newName()], 400);
    proxy.hang();
    const error: unknown = await lock.release().catch((e: unknown) => e);
    await proxy.heal();
    expect(error).toBeInstanceOf(ExecutionError);
    const stats = await Promise.all((error as InstanceType<typeof ExecutionError>).attempts);
    expect(stats.at(-1)!.votesAgainst.size).toBe(1);
  });
});

describe("a question that is sent again", () => {
  test("finds the lock that it took the first time", async () => {
    const { proxy, client } = await faultyClient(server());
    const name = newName();
    // The script is known there, so that the next answer is about the lock.
    await (await new Redlock([client], ONCE).acquire([newName()], 60_000)).release();
    const lost = loseNextReply(proxy);
    const acquired = new Redlock([client], ONCE).acquire([name, newName()], 60_000);
    await lost;
    const lock = await acquired;
    expect(await lab.raw.get(name)).toBe(lock.value);
    await lock.release();
  });

  test("to take a lost attempt back takes no later one away", async () => {
    const name = newName();
    const late = door();
    let calls = 0;
    // The first question fails on the third server, and what takes it back comes there last of all.
    const third = watchedClient(lab.raws[2]!, ({ args }) => {
      calls++;
      if (calls === 1) throw new Error("Connection is closed.");
      return args.length === 1 && calls === 2 ? late.passed : undefined;
    });
    // All scripts are known there, so that each call is one.
    await (await new Redlock(lab.raws, ONCE).acquire([newName()], 60_000)).release();
    await lab.raws[1]!.set(name, "other");
    const redlock = new Redlock([lab.raws[0]!, lab.raws[1]!, third], { retryCount: 1, retryDelay: 5 });
    const lock = await redlock.acquire([name], 60_000);
    late.open();
    await eventually("it came", () => (third.sent.length >= 3 ? true : undefined));
    await lab.raws[2]!.ping();
    expect(await lab.raws[2]!.get(name)).toBe(lock.value);
    await lock.release();
  });

  test("because its script was unknown is not sent when it is no longer waited for", async () => {
    const name = newName();
    const late = door();
    const client = watchedClient(lab.raw, async ({ args, again }) => {
      if (args.length !== 2 || again) return;
      await late.passed;
      throw new Error("NOSCRIPT No matching script.");
    });
    await expect(new Redlock([client], ONCE).acquire([name], 200)).rejects.toThrow(ExecutionError);
    late.open();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(client.sent.filter(({ again, args }) => again && args.length === 2)).toEqual([]);
    expect(await lab.raw.exists(name)).toBe(0);
  });
});

test("a resource that is named twice is released", async () => {
  const name = newName();
  const lock = await new Redlock([lab.raw], ONCE).acquire([name, name], 60_000);
  await (await lock.extend(60_000)).release();
  expect(await lab.raw.exists(name)).toBe(0);
});

test("resources that are no array are refused, and nothing is taken", async () => {
  const redlock = new Redlock([lab.raw], ONCE);
  for (const wrong of ["z", undefined, null] as unknown as string[][]) {
    await expect(redlock.acquire(wrong, 60_000)).rejects.toMatchObject({ code: "ERR_LOCK_ARGUMENT" });
  }
  expect(await lab.raw.exists("z")).toBe(0);
});
