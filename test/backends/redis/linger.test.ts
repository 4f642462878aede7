/** `linger` over a real server: what it costs, what a process leaves behind, and the script that tells a holder for a quorum. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { DIST } from "../../dist.ts";
import { calls, claimOf, Clients, eventually, granted, refused, rivalOf } from "./lab.ts";

const exec = promisify(execFile);
/** Longer than any test takes, so that only what is tested ends it. */
const LINGER = { ttl: "20m", linger: "2m" } as const;

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

function listen(backend: Backend): string[] {
  const wanted: string[] = [];
  backend.listen?.({ lost: () => undefined, doubt: () => undefined, wanted: (id) => wanted.push(id) });
  return wanted;
}

test("one command serves as many cycles as a grant reserves fences", async () => {
  await using own = await startRedis();
  await using clients = new Clients();
  const admin = clients.client(own.port);
  const locks = clients.own(createLocks(clients.backend(own.port, { run: 64 }), LINGER));
  // It listens, all scripts are loaded, and a new run begins.
  for (let cycle = 0; cycle < 65; cycle++) await (await locks.acquire("lock")).release();
  await admin.config("RESETSTAT");
  for (let cycle = 0; cycle < 640; cycle++) await (await locks.acquire("lock")).release();
  const { evalsha = 0, eval: evals = 0, publish = 0 } = await calls(admin);
  expect(evalsha + evals).toBe(10);
  expect(publish).toBe(0);
});

test("the record says how long it may linger, until another holds, and a claim without linger looks as it did before", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const lingers = claimOf({ lingerMs: 40 });
  await granted(a, lingers);
  const other = rivalOf(lingers, { lingerMs: undefined });
  expect(await refused(b, other)).toMatchObject({ heldBy: [{ lingerMs: 40 }] });
  // As it is after a renewal, too.
  await a.renew([{ ...lingers, changed: true }]);
  expect((await b.inspect(lingers.name)).held).toMatchObject([{ lingerMs: 40 }]);
  await a.release(lingers);
  await granted(b, other);
  expect((await a.inspect(lingers.name)).held).toEqual([expect.not.objectContaining({ lingerMs: 40 })]);
});

describe("a process that ends without close() while its hold lingers", () => {
  async function endsWhile(how: string, ttl: string, linger: string, name: string): Promise<void> {
    const body = `
      const { createLocks } = await import("${DIST}/index.js");
      const { redis } = await import("${DIST}/backends/redis/index.js");
      const { Redis } = await import("ioredis");
      const client = new Redis(${server.port}, "127.0.0.1", { password: process.env.HOLDFAST_LAB_PASSWORD });
      const locks = createLocks(redis(client), { ttl: "${ttl}", linger: "${linger}" });
      await (await locks.acquire("${name}")).release();
      ${how}`;
    const done = exec(process.execPath, ["--input-type=module", "-e", body], { cwd: import.meta.dirname });
    await done.catch((error: { signal?: string; stderr?: string }) => {
      if (error.signal !== "SIGKILL") throw error;
    });
  }

  test.for([`process.kill(process.pid, "SIGKILL"); await new Promise(() => {});`, "process.exit();"])(
    "leaves an unused lock for one ttl, and no longer: %s",
    async (how) => {
      await using clients = new Clients();
      const locks = clients.own(createLocks(clients.backend(server.port)));
      await endsWhile(how, "20m", "2m", "left");
      const left = await locks.inspect("left");
      expect(left.held).toMatchObject([{ lingerMs: 120_000 }]);
      await locks.forceRelease("left", { fence: left.held[0]!.fence, reason: "test" });
      await endsWhile(how, "2s", "200ms", "soon free");
      const lease = await locks.acquire("soon free", { wait: "2m" });
      expect(await lease.release()).toBe("released");
    },
  );

  test("gives the lock back first, where it only has nothing else to do", async () => {
    await using clients = new Clients();
    const locks = clients.own(createLocks(clients.backend(server.port)));
    // The client would keep it alive; what is asked of it still goes out.
    await endsWhile("client.stream.unref();", "20m", "200ms", "returned");
    expect((await locks.inspect("returned")).held).toEqual([]);
  });
});

describe("want(), by which a quorum's waiter tells a holder", () => {
  const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

  test("reaches one who holds alone, and where others queue; nothing is written", async () => {
    await using clients = new Clients();
    const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
    const wanted = listen(a);
    const holder = claimOf();
    await granted(a, holder);
    a.expectWanted(holder);
    const before = await server.cli("DUMP", keyOf(holder.name));
    await b.want(holder.name);
    await eventually("it hears of it", () => (wanted.length === 1 ? true : undefined));
    expect(await server.cli("DUMP", keyOf(holder.name))).toBe(before);
    await refused(b, rivalOf(holder));
    // Two that come together are heard once.
    await eventually("it hears of the queue", () => (wanted.length === 2 ? true : undefined));
    await b.want(holder.name);
    await eventually("again, though another queues", () => (wanted.length === 3 ? true : undefined));
    expect(new Set(wanted)).toEqual(new Set([holder.id]));
  });

  test("reaches all who share it", async () => {
    await using clients = new Clients();
    const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
    const wanted = listen(a);
    const reader = claimOf({ mode: "shared" });
    const readers: Claim[] = [reader, rivalOf(reader)];
    for (const claim of readers) await granted(a, claim);
    await b.want(reader.name);
    await eventually("both hear of it", () => (new Set(wanted).size === 2 ? true : undefined));
    expect(wanted.toSorted()).toEqual(readers.map(({ id }) => id).toSorted());
  });

  test("of a lock that is free, and of one whose lease ended, sends nothing and leaves nothing", async () => {
    await using clients = new Clients();
    const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
    const wanted = listen(a);
    const claim = claimOf();
    await b.want(claim.name);
    expect(await server.cli("EXISTS", keyOf(claim.name))).toBe("0");
    await granted(a, claim);
    await a.release(claim);
    await b.want(claim.name);
    // Messages of one server keep their order: this one comes last.
    const last = claimOf();
    await granted(a, last);
    await b.want(last.name);
    await eventually("the last is heard", () => (wanted.includes(last.id) ? true : undefined));
    expect(wanted).toEqual([last.id]);
  });

  test("of a key that is not ours is refused", async () => {
    await using clients = new Clients();
    const b = clients.backend(server.port);
    const { name } = claimOf();
    await server.cli("HSET", keyOf(name), "s", "nonsense", "x", "y");
    await expect(b.want(name)).rejects.toThrow();
    await server.cli("DEL", keyOf(name));
    await server.cli("SET", keyOf(name), "text");
    await expect(b.want(name)).rejects.toThrow();
  });
});
