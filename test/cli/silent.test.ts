/**
 * A store that falls silent after it was opened: acquire, renew and release end in bounded time, with a code and a message that
 * say what is known. And what a signal finds while the store is being opened.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type Proxy as Road, startProxy } from "../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { memory } from "../../src/backends/memory/index.ts";
import { seekLease } from "../../src/cli/seek-lease.ts";
import { connect, createLocks, type Locks } from "../../src/index.ts";
import { newClaim } from "../../src/testing/claim.ts";
import { Bench, type Result, until } from "./harness.ts";

const bench = new Bench();
let redis: RedisServer;
let locks: Locks;
beforeAll(async () => {
  redis = await startRedis();
  locks = await connect(redis.url);
});
afterAll(async () => {
  await locks.close();
  await redis.stop();
  bench.close();
});

const CLIENTS = ["ioredis", "redis"] as const;
const isScript = (chunk: Buffer): boolean => /evalsha/i.test(chunk.toString("latin1"));

/** A road to the server, and the same URL by it. */
async function onRoad<T>(client: string, work: (proxy: Road, env: { HOLDFAST_URL: string }) => Promise<T>): Promise<T> {
  const proxy = await startProxy({ port: redis.port });
  try {
    const url = redis.url.replace(/:\d+$/, `:${proxy.port}?client=${client}`);
    return await work(proxy, { HOLDFAST_URL: url });
  } finally {
    await proxy.stop();
  }
}

/** From the first question about a lock on, all answers are lost. */
function fallSilent(proxy: Road): void {
  proxy.onRequest = (chunk) => {
    if (isScript(chunk)) proxy.hang("replies");
    return undefined;
  };
}

async function acquired(env: { HOLDFAST_URL: string }, name: string): Promise<string> {
  const { code, stdout, stderr } = await bench.run(["acquire", name], { env });
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return stdout.trim();
}

function plainly({ code, stderr }: Result, said: RegExp): void {
  expect({ code, stderr }).toMatchObject({ code: 69, stderr: expect.stringMatching(said) });
  expect(stderr).not.toMatch(/^ +at /m);
}

describe.concurrent.each(CLIENTS)("%s: a store that does not answer its first question", (client) => {
  test.each([
    ["-n", ["-n"]],
    ["--wait 1s", ["--wait", "1s"]],
    ["for ever", []],
  ])("acquire %s exits with 69, and says what may be left", async (what, more) => {
    await onRoad(client, async (proxy, env) => {
      fallSilent(proxy);
      const done = await bench.run(["acquire", `silent ${client} ${what}`, "--ttl", "20s", ...more], { env });
      plainly(
        done,
        /did not confirm that nothing of this is left: .* until the ttl of 20 s is over[^]*(not answered|no answer)/,
      );
      expect(done.stdout).toBe("");
    });
  });

  test("renew and release exit with 69, and say what is unknown", async () => {
    await onRoad(client, async (proxy, env) => {
      const name = `held ${client}`;
      const fence = await acquired(env, name);
      fallSilent(proxy);
      plainly(await bench.run(["renew", name, "--fence", fence], { env }), /it is unknown whether .* is still held/);
      await proxy.heal();
      fallSilent(proxy);
      plainly(await bench.run(["release", name, "--fence", fence], { env }), /it is unknown whether .* was given back/);
      await proxy.heal();
      fallSilent(proxy);
      const forced = await bench.run(["release", name, "--fence", fence, "--reason", "it hangs"], { env });
      plainly(forced, /it is unknown whether the lease on .* was ended/);
      await proxy.heal();
    });
  });
});

describe.concurrent.each(CLIENTS)("%s: a store that falls silent when acquire is in its queue", (client) => {
  test("a signal ends it", async () => {
    const name = `queue ${client}`;
    const lease = await locks.acquire(name);
    await onRoad(client, async (proxy, env) => {
      const child = bench.start(["acquire", name, "--ttl", "20s"], { env });
      await expect.poll(async () => (await locks.query(name)).pending.length, { timeout: 120_000 }).toBe(1);
      proxy.hang("both");
      child.process.kill("SIGTERM");
      expect(await child.done).toMatchObject({ code: 143, stderr: expect.stringMatching(/did not confirm/) });
    });
    await lease.release();
  });
});

test("a store that falls silent after its refusal: the end of --wait ends it, with the holder of whom it knew", async () => {
  const backend = memory();
  const others = createLocks(backend, { holder: "other" });
  const lease = await others.acquire("x");
  const answers = { release: backend.release.bind(backend), query: backend.query.bind(backend) };
  const hung = Object.assign(backend, { release: () => new Promise(() => {}), query: () => new Promise(() => {}) });
  const store = {
    backend: hung,
    locks: createLocks(hung),
    url: "",
    immediate: false,
    tie: () => {},
    close: async () => {},
  };
  const notes: string[] = [];
  const claim = newClaim({ name: "x", ttlMs: 20_000, holder: "me", resumes: false });
  const { signal } = new AbortController();
  const sought = seekLease({ store, claim, waitMs: 1, stop: signal, note: (line) => void notes.push(line) });
  await expect(sought).rejects.toMatchObject({ name: "LockTimeoutError", heldBy: [{ holder: "other" }] });
  expect(notes).toEqual([expect.stringMatching(/did not confirm .* until the ttl of 20 s is over/)]);
  Object.assign(backend, answers);
  await lease.release();
  await others.close();
});

describe.concurrent.each(CLIENTS)("%s: a signal while the store is being opened", (client) => {
  test.each(["SIGTERM", "SIGINT"] as const)("%s ends acquire, and nothing is queued", async (signal) => {
    const name = `opening ${client} ${signal}`;
    const lease = await locks.acquire(name);
    await onRoad(client, async (proxy, env) => {
      proxy.hang("requests");
      const child = bench.start(["acquire", name], { env });
      await until(() => proxy.connections > 0, "it has connected");
      child.process.kill(signal);
      await proxy.heal();
      expect((await child.done).code).toBe(signal === "SIGTERM" ? 143 : 130);
    });
    expect((await locks.query(name)).pending).toEqual([]);
    await lease.release();
  });
});
