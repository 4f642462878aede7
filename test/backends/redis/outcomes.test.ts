/** Outcomes in Redis: kept by the server's clock with the lock's last fence, reported to all who wait, and none but the holder's own. */
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim, Granted, KeptOutcome } from "../../../src/contract/backend.ts";
import { OUTCOME_BYTES_MAX } from "../../../src/contract/claim.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { makeWallClock } from "../../../src/lab/servers/wall-clock.ts";
import { type RedisBackend, redis } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { libraries } from "./clients.ts";
import { calls, claimOf, Clients, eventually, granted, immortalKeys, refused, rivalOf, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);
const wanting = (change: Partial<Claim> = {}): Claim => claimOf({ wantsOutcome: true, ...change });

async function done(backend: RedisBackend, claim: Claim): Promise<KeptOutcome> {
  const { outcome } = await refused(backend, claim);
  return outcome ?? expect.fail("refused without an outcome");
}

/** Work that was done, and its fences. */
async function finished(backend: RedisBackend, claim: Claim, value: string, keepMs = DAY_MS): Promise<Granted> {
  const lease = await granted(backend, claim);
  expect(await backend.release(claim, { value, keepMs, fence: lease.fence })).toBe("held");
  return lease;
}

/** Everything that is published, from now on. */
async function heard(testClients: Clients, port: number): Promise<string[]> {
  const listener = testClients.client(port);
  const texts: string[] = [];
  listener.on("pmessage", (_: string, __: string, text: string) => texts.push(text));
  await listener.psubscribe("*");
  return texts;
}

describe("how long", () => {
  test("an outcome ends when the server's clock says so, and the lock's last fence lives longer, although no claim uses it", async () => {
    const wallClock = await makeWallClock();
    await using own = await startRedis({ env: wallClock.env });
    await using testClients = new Clients();
    testClients.later(() => wallClock.stop());
    const admin = testClients.client(own.port);
    const backend = testClients.backend(own.port, { idle: "1m" });
    const claim = wanting();
    const { fence, run } = await finished(backend, claim, "done");
    expect(await immortalKeys(admin)).toEqual([]);
    wallClock.jump(DAY_MS - 60_000);
    const kept = await done(backend, rivalOf(claim));
    expect(kept.ageMs).toBeGreaterThanOrEqual(DAY_MS - 60_000);
    expect(kept.remainingMs).toBeLessThanOrEqual(60_000);
    wallClock.jump(60_000);
    // Over, and the record of the fence is still there: whatever the clock says from now on, fences go on from it.
    expect((await backend.inspect(claim.name)).outcome).toBeUndefined();
    expect(await admin.hget(keyOf(claim.name), "s")).toMatch(new RegExp(`^${fence + BigInt(run) - 1n} `, "u"));
    wallClock.jump(-2 * DAY_MS);
    expect((await granted(backend, rivalOf(claim, { wantsOutcome: false }))).fence).toBeGreaterThanOrEqual(
      fence + BigInt(run),
    );
    wallClock.jump(2 * DAY_MS);
  });

  test("an outcome that is over costs nothing any more once a claim that wanted one came", async () => {
    const wallClock = await makeWallClock();
    await using own = await startRedis({ env: wallClock.env });
    await using testClients = new Clients();
    testClients.later(() => wallClock.stop());
    const admin = testClients.client(own.port);
    const backend = testClients.backend(own.port, { idle: "120h" });
    const claim = wanting();
    await finished(backend, claim, "x".repeat(OUTCOME_BYTES_MAX));
    wallClock.jump(DAY_MS + 1000);
    const next = rivalOf(claim);
    await granted(backend, next);
    expect(await admin.hget(keyOf(claim.name), "r")).toBeNull();
    expect(await backend.release(next)).toBe("held");
  });

  test("a flush loses an outcome with its lock: the work may be done again, and its fence is greater", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const backend = testClients.backend(own.port);
    const claim = wanting();
    const { fence, run } = await finished(backend, claim, "done");
    await own.cli("FLUSHALL");
    expect((await backend.inspect(claim.name)).outcome).toBeUndefined();
    const again = rivalOf(claim);
    const { fence: later } = await granted(backend, again);
    expect(later).toBeGreaterThanOrEqual(fence + BigInt(run));
    // The reply to the first release may be what was lost: it is not "held", because it is not kept.
    expect(await backend.release(claim, { value: "done", keepMs: DAY_MS, fence })).toBe("absent");
    expect(await backend.release(again, { value: "again", keepMs: DAY_MS, fence: later })).toBe("held");
  });

  test("a full server keeps the outcome of work that was done", async () => {
    await using own = await startRedis({ args: ["--maxmemory-policy", "noeviction"] });
    await using testClients = new Clients();
    const backend = testClients.backend(own.port);
    const [claim, reader] = [wanting(), claimOf({ mode: "shared" })];
    const { fence } = await granted(backend, claim);
    const { fence: read } = await granted(backend, reader);
    await own.cli("CONFIG", "SET", "maxmemory", "1");
    await expect(backend.attempt(claimOf())).rejects.toThrow(/full/u);
    expect(await backend.release(claim, { value: "done", keepMs: DAY_MS, fence })).toBe("held");
    expect(await backend.release(reader, { value: "read", keepMs: DAY_MS, fence: read })).toBe("held");
    expect((await done(backend, rivalOf(claim))).value).toBe("done");
    expect((await backend.inspect(reader.name)).outcome?.value).toBe("read");
  });
});

describe("those who wait", () => {
  test("500 waiters of 3 processes learn of it by one message each, and in one call; the next gets the lock", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const near = testClients.backend(own.port);
    const far = Array.from({ length: 3 }, () => testClients.backend(own.port, { ticket: "60s" }));
    const worker = claimOf();
    const { fence } = await granted(near, worker);
    const waiters = Array.from({ length: 499 }, () => rivalOf(worker, { wantsOutcome: true }));
    const plain = rivalOf(worker);
    const backendOf = (at: number): RedisBackend => far[at % 3] as RedisBackend;
    // The server knows the script from now on.
    await finished(near, claimOf(), "other");
    await Promise.all(waiters.slice(0, 250).map((claim, at) => refused(backendOf(at), claim)));
    await refused(near, plain);
    await Promise.all(waiters.slice(250).map((claim, at) => refused(backendOf(at + 250), claim)));
    const stop = new AbortController();
    const news = waiters.map((claim, at) => backendOf(at).watch(claim, stop.signal));
    const texts = await heard(testClients, own.port);
    await admin.config("RESETSTAT");
    expect(await near.release(worker, { value: "done", keepMs: DAY_MS, fence })).toBe("held");
    expect(new Set(await Promise.all(news))).toEqual(new Set([undefined]));
    const { evalsha = 0, eval: evals = 0, publish } = await calls(admin);
    expect([evalsha + evals, publish]).toEqual([1, 4]);
    await eventually("all is heard", () => (texts.length >= 4 ? true : undefined));
    const [messages, grants] = [
      texts.filter((text) => text.startsWith("done ")),
      texts.filter((text) => text.startsWith("granted ")),
    ];
    expect([messages.length, grants.length]).toEqual([3, 1]);
    expect(messages.map((text) => text.split(",").length).reduce((a, b) => a + b)).toBe(499);
    await waitFor(near, plain);
    expect((await near.inspect(worker.name)).pending).toEqual([]);
    expect((await done(backendOf(0), waiters[0] as Claim)).value).toBe("done");
    expect(await near.release(plain)).toBe("held");
    expect(Object.keys(await admin.hgetall(keyOf(worker.name))).toSorted()).toEqual(["r", "s"]);
  });

  test("who waits for it leaves the queue in the step that keeps it, and no other does", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const holder = wanting();
    const plain = { wantsOutcome: false };
    const waiters = [rivalOf(holder), rivalOf(holder, plain), rivalOf(holder, plain), rivalOf(holder)];
    const { fence } = await granted(backend, holder);
    for (const waiter of waiters) await refused(backend, waiter);
    expect(await backend.release(holder, { value: "done", keepMs: DAY_MS, fence })).toBe("held");
    const fields = await admin.hkeys(keyOf(holder.name));
    // Also from behind one that waits on.
    expect(fields.filter((field) => field.startsWith("w"))).toEqual([`w${waiters[2]!.id}`]);
    // Those that want no outcome get the lock, one after the other.
    expect(await backend.release(waiters[1]!)).toBe("held");
    expect(await backend.release(waiters[2]!)).toBe("held");
  });

  test("one that asks again before its portion of the queue has learned of it gets it, and leaves the queue", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const holder = wanting();
    const [first, second] = [rivalOf(holder), rivalOf(holder)];
    await granted(backend, holder);
    await refused(backend, first);
    await refused(backend, second);
    // As it stands between the end of the work and the portion in which these two are.
    const other = wanting();
    await finished(backend, other, "done");
    await admin.hset(keyOf(holder.name), "r", (await admin.hget(keyOf(other.name), "r"))!);
    for (const waiter of [second, first]) {
      expect((await done(backend, waiter)).value).toBe("done");
      expect(await admin.hexists(keyOf(holder.name), `w${waiter.id}`)).toBe(0);
    }
    expect((await backend.query(holder.name)).pending).toEqual([]);
  });

  test("a queue of thousands learns of it in portions: no call looks at more than 500, and the work is not done again", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: "60s" })];
    const worker = claimOf();
    const { fence } = await granted(near, worker);
    const waiters = Array.from({ length: 1300 }, () => rivalOf(worker, { wantsOutcome: true }));
    await Promise.all(waiters.map((claim) => refused(far, claim)));
    const stop = new AbortController();
    const news = waiters.map((claim) => far.watch(claim, stop.signal));
    const texts = await heard(testClients, own.port);
    await admin.config("RESETSTAT");
    expect(await near.release(worker, { value: "done", keepMs: DAY_MS, fence })).toBe("held");
    expect(new Set(await Promise.all(news))).toEqual(new Set([undefined]));
    // A call looks at 500 places, and passes at most as many at the head that it has not looked at.
    const { evalsha = 0, hget = 0, hmget = 0, hset = 0, hdel = 0 } = await calls(admin);
    expect(evalsha).toBeGreaterThanOrEqual(2);
    expect((hget + hmget + hset + hdel) / evalsha).toBeLessThan(5000);
    expect((await near.inspect(worker.name)).pending).toEqual([]);
    await eventually("all is heard", () => (texts.join(",").split(",").length >= 1300 ? true : undefined));
    expect(texts.filter((text) => !text.startsWith("done "))).toEqual([]);
    for (const text of texts) expect(text.length).toBeLessThanOrEqual(6400);
  });

  test("whose process is gone, or whose message is lost, learns it by its next sign of life", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const [near, far] = [testClients.backend(server.port), testClients.backend(server.port, { ticket: 300 })];
    const worker = claimOf();
    const waiter = rivalOf(worker, { wantsOutcome: true });
    const { fence } = await granted(near, worker);
    await refused(far, waiter);
    // As a release looks of which no more than the outcome itself arrived: without a message, and without an end of the queue.
    const nowMs = Number((await admin.time())[0]) * 1000;
    const outcome = `${nowMs + DAY_MS} ${nowMs} ${fence} ${worker.id} "host" done`;
    await admin.hset(keyOf(worker.name), "r", outcome);
    expect(await far.watch(waiter, AbortSignal.timeout(60_000))).toBeUndefined();
    expect((await done(far, waiter)).value).toBe("done");
    expect((await near.inspect(worker.name)).pending).toEqual([]);
    // Nor is it handed the lock, if the release comes before its sign of life.
    const late = testClients.backend(server.port);
    await admin.hdel(keyOf(worker.name), "r");
    const last = rivalOf(worker, { wantsOutcome: true });
    await refused(late, last);
    await admin.hset(keyOf(worker.name), "r", outcome);
    expect(await near.release(worker)).toBe("held");
    expect((await near.inspect(worker.name)).held).toEqual([]);
    expect((await done(late, last)).value).toBe("done");
  });

  test("a claim that only asks for an outcome that is kept changes nothing in the store", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const [near, far] = [testClients.backend(server.port), testClients.backend(server.port)];
    const worker = wanting();
    await finished(near, worker, "done");
    const holder = rivalOf(worker, { wantsOutcome: false });
    await granted(near, holder);
    const before = await admin.hgetall(keyOf(worker.name));
    expect((await done(far, rivalOf(worker))).value).toBe("done");
    expect(await admin.hgetall(keyOf(worker.name))).toEqual(before);
    expect(await near.release(holder)).toBe("held");
  });
});

describe("whose outcome it is", () => {
  test("of two releases that race with one claim both are held, and the first one's outcome is kept", async () => {
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)];
    for (let i = 0; i < 20; i++) {
      const claim = wanting();
      const { fence } = await granted(a, claim);
      const was = await Promise.all([
        a.release(claim, { value: "one", keepMs: DAY_MS, fence }),
        b.release(claim, { value: "other", keepMs: DAY_MS, fence }),
      ]);
      expect(was).toEqual(["held", "held"]);
      const { value } = await done(a, rivalOf(claim));
      // Asked again, it is what was kept, and not what came with the question.
      expect(await b.release(claim, { value: "late", keepMs: DAY_MS, fence })).toBe("held");
      expect((await done(b, rivalOf(claim))).value).toBe(value);
    }
  });

  test("the outcome of a lease that is over is not kept, and a successor is not hurt", async () => {
    const wallClock = await makeWallClock();
    await using own = await startRedis({ env: wallClock.env });
    await using testClients = new Clients();
    testClients.later(() => wallClock.stop());
    const [a, b] = [testClients.backend(own.port), testClients.backend(own.port)];
    const [late, successor] = [claimOf(), claimOf()];
    const next = { ...successor, name: late.name };
    const { fence } = await granted(a, late);
    wallClock.jump(2 * 60_000);
    await granted(b, next);
    expect(await a.release(late, { value: "too late", keepMs: DAY_MS, fence })).toBe("absent");
    expect((await a.inspect(late.name)).outcome).toBeUndefined();
    expect((await b.renew([next]))[0]?.held).toBe(true);
  });

  for (const library of Object.values(libraries)) {
    test(`${library.name}: a release whose reply was lost, and which the library may have sent again, is held`, async () => {
      await using testClients = new Clients();
      const proxy = await startProxy({ port: server.port });
      testClients.later(() => proxy.stop());
      const opened = await library.standalone(proxy.port);
      testClients.later(() => opened.close());
      const [far, near] = [testClients.own(redis(opened.client)), testClients.backend(server.port)];
      const claim = wanting();
      const { fence } = await granted(far, claim);
      // Loaded, so that the release is one request.
      await finished(far, wanting(), "other");
      let lost = false;
      proxy.onReply = () => {
        if (lost) return "pass";
        lost = true;
        return "reset";
      };
      const value = "done";
      const was = await far.release(claim, { value, keepMs: DAY_MS, fence }).catch(() =>
        // As the core does it.
        eventually("it answers again", () =>
          far.release(claim, { value, keepMs: DAY_MS, fence }).catch(() => undefined),
        ),
      );
      expect(lost).toBe(true);
      expect(was).toBe("held");
      expect(await done(near, rivalOf(claim))).toMatchObject({ value, fence });
    });
  }
});

describe("what others wrote there", () => {
  const odd: Readonly<Record<string, (nowMs: number, fence: bigint) => string>> = {
    "no record": () => "done",
    "an end that is no number": (nowMs, fence) => `99999999999xx ${nowMs} ${fence} id "host" done`,
    "an end before its beginning": (nowMs, fence) => `${nowMs + 1000} ${nowMs + 9000} ${fence} id "host" done`,
    "longer than a year": (nowMs, fence) => `${nowMs + 400 * DAY_MS} ${nowMs} ${fence} id "host" done`,
    "no fence": (nowMs) => `${nowMs + DAY_MS} ${nowMs} 00000000000000xx id "host" done`,
    "more than an outcome may have": (nowMs, fence) =>
      `${nowMs + DAY_MS} ${nowMs} ${fence} id "host" ${"x".repeat(OUTCOME_BYTES_MAX + 1)}`,
  };
  async function put(admin: Redis, name: string, make: (nowMs: number, fence: bigint) => string): Promise<void> {
    const nowMs = Number((await admin.time())[0]) * 1000;
    await admin.hset(keyOf(name), "r", make(nowMs, BigInt(nowMs) * 1000n));
  }
  for (const [what, make] of Object.entries(odd)) {
    test(`S179: ${what} is no outcome: not shown, not answered, and the lock works as before`, async () => {
      await using testClients = new Clients();
      const admin = testClients.client(server.port);
      const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)];
      const claim = wanting();
      const { fence } = await finished(a, claim, "done");
      await put(admin, claim.name, make);
      expect((await a.inspect(claim.name)).outcome).toBeUndefined();
      expect(await a.forget(claim.name, fence)).toBe(false);
      expect(await a.release(claim, { value: "done", keepMs: DAY_MS, fence })).toBe("absent");
      const [next, waiter] = [rivalOf(claim), rivalOf(claim)];
      const { fence: later } = await granted(b, next);
      expect(later).toBeGreaterThan(fence);
      expect((await refused(a, waiter)).position).toBe(1);
      expect(await b.release(next, { value: "again", keepMs: DAY_MS, fence: later })).toBe("held");
      expect((await done(a, waiter)).value).toBe("again");
    });
  }

  test("S179: a holder that is no text is unknown", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const claim = wanting();
    await finished(backend, claim, "done");
    await put(admin, claim.name, (nowMs, fence) => `${nowMs + DAY_MS} ${nowMs} ${fence} id [1] done`);
    expect(await done(backend, rivalOf(claim))).toMatchObject({ value: "done", holder: "unknown" });
  });
});
