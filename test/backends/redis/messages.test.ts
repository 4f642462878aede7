/** Who may publish or listen on our channels, and has none of our keys, must not be able to make, end or move a lease. */
import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { createLocks } from "../../../src/core/locks.ts";
import type { RedisBackend } from "../../../src/backends/redis/index.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { calls, claimOf, Clients, eventually, granted, refused, rivalOf, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);
const FENCE = "1900000000000000";

/** A message's entry as the scripts make it. */
function sealed(id: string, text: string): string {
  const seal = createHash("sha1").update(id + text);
  return `${id.slice(0, 8)}${text}.${seal.digest("hex").slice(0, 20)}`;
}

/** The inbox that a backend has subscribed to by its first attempt. */
async function inboxOf(admin: Redis, backend: RedisBackend, clock?: FakeClock): Promise<string> {
  const channels = async (): Promise<string[]> => (await admin.pubsub("CHANNELS", "holdfast:inbox:*")) as string[];
  const before = new Set(await channels());
  const claim = claimOf();
  await granted(backend, claim);
  await backend.release(claim);
  const inbox = await eventually("it listens", async () => (await channels()).find((channel) => !before.has(channel)));
  // What is answered in the very instant in which it began to listen proves nothing yet.
  await clock?.advance(1);
  return inbox;
}

/** Resolves when the backend has heard all that was published to it so far: messages come in order. */
async function heard(near: RedisBackend, backend: RedisBackend): Promise<void> {
  const claim = claimOf();
  const waiter = rivalOf(claim);
  await granted(near, claim);
  await refused(backend, waiter);
  const watching = backend.watch(waiter, AbortSignal.timeout(20_000));
  await near.release(claim);
  expect(await watching).toMatchObject({ granted: true });
  await backend.release(waiter);
}

/** Everything that is published on our channels. */
async function listenTo(testClients: Clients, port: number): Promise<{ channel: string; text: string }[]> {
  const seen: { channel: string; text: string }[] = [];
  const listener = testClients.client(port);
  await listener.psubscribe("holdfast:*");
  listener.on("pmessage", (_: string, channel: string, text: string) => seen.push({ channel, text }));
  return seen;
}

describe("forged messages", () => {
  test("S171: a grant is not believed, whatever its fence, without a proof that the store made it", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const [near, far] = [testClients.backend(server.port), testClients.backend(server.port, { ticket: "60s" })];
    const inbox = await inboxOf(admin, far);
    const holder = claimOf();
    const waiter = rivalOf(holder);
    const { fence } = await granted(near, holder);
    await refused(far, waiter);
    const watching = far.watch(waiter, AbortSignal.timeout(15_000));
    for (const claimed of [`${fence + 1000n}+000000`, `${FENCE}+000000`, "9007199254740993+000000", "0+000000"]) {
      await admin.publish(inbox, `granted ${waiter.id}:${claimed} ${keyOf(holder.name)}`);
      await admin.publish(inbox, `granted ${waiter.id.slice(0, 8)}:${claimed}.${"0".repeat(20)}`);
      await admin.publish(inbox, `granted ${sealed(waiter.id.slice(0, 8), `:${claimed}`)}`);
    }
    await heard(near, far);
    const news = await Promise.race([watching, new Promise((resolve) => setImmediate(() => resolve("nothing")))]);
    expect(news).toBe("nothing");
  });

  test("S171: a grant that the store made but that does not fit its last answer is asked about, not believed", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: "60s" })];
    const inbox = await inboxOf(admin, far);
    const holder = claimOf();
    const waiter = rivalOf(holder);
    const { fence } = await granted(near, holder);
    await refused(far, waiter);
    const watching = far.watch(waiter, AbortSignal.timeout(15_000));
    const aboveClock = BigInt(Date.now() + 3 * 3_600_000) * 1000n;
    const odd = [`:${fence}+000000`, `:${aboveClock}+000000`, `:${fence + 999n}+000000@0123456789ab`];
    for (const text of odd) {
      await admin.config("RESETSTAT");
      // At once: of those that come while a question is under way none is asked for, however long that takes.
      const message = `granted ${sealed(waiter.id, text)}`;
      await Promise.all(Array.from({ length: 200 }, () => admin.publish(inbox, message)));
      await heard(near, far);
      const news = await Promise.race([watching, new Promise((resolve) => setImmediate(() => resolve("nothing")))]);
      expect(news).toBe("nothing");
      await eventually("it asks", async () => ((await calls(admin))["evalsha"] ?? 0) > 4 || undefined);
      // Four belong to heard(); two hundred messages make a few questions.
      expect((await calls(admin))["evalsha"]).toBeLessThan(4 + 50);
    }
    await near.release(holder);
    expect(await watching).toMatchObject({ granted: true });
  });

  test("S171: a grant seen on a hand-over and sent to another process does not make that one release it", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const clock = new FakeClock();
    const [near, far, bystander] = [
      testClients.backend(own.port),
      testClients.backend(own.port, { ticket: "60s" }),
      testClients.backend(own.port, { clock }),
    ];
    const inbox = await inboxOf(admin, bystander, clock);
    const seen = await listenTo(testClients, own.port);
    const holder = claimOf();
    const waiter = rivalOf(holder, { holder: "rightful" });
    await granted(near, holder);
    await refused(far, waiter);
    const watching = far.watch(waiter, AbortSignal.timeout(15_000));
    await near.release(holder);
    expect(await watching).toMatchObject({ granted: true });
    const { text } = await eventually("the hand-over is seen", () =>
      seen.find((each) => each.text.startsWith("granted")),
    );
    await admin.publish(inbox, text);
    await heard(near, bystander);
    await clock.advance(60_000);
    // On the same connection, so that whatever the clock made it send has been answered.
    expect((await bystander.query(holder.name)).held.map((one) => one.holder)).toEqual(["rightful"]);
  });

  test("S171: “forced” ends no lease: without a proof it is nothing, with one it is a reason to renew that lease", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port)];
    const inbox = await inboxOf(admin, far);
    const lost: string[] = [];
    const doubted: (string | undefined)[] = [];
    far.listen({ lost: (id) => lost.push(id), doubt: (id) => doubted.push(id) });
    const claim = claimOf();
    const { fence } = await granted(far, claim);
    await admin.publish(inbox, `forced ${claim.id} {"by":"mallory","reason":"mine now"}`);
    await admin.publish(inbox, `forced ${claim.id.slice(0, 8)}!.${"0".repeat(20)}`);
    await heard(near, far);
    expect({ lost, doubted }).toEqual({ lost: [], doubted: [] });
    expect((await far.renew([claim]))[0]?.held).toBe(true);
    await near.forceRelease(claim.name, fence, "ops", "stuck");
    await eventually("it is reported", () => (doubted.length > 0 ? true : undefined));
    expect({ lost, doubted }).toEqual({ lost: [], doubted: [claim.id] });
    expect((await far.renew([claim]))[0]).toMatchObject({
      held: false,
      reason: { kind: "forced", by: "ops", reason: "stuck" },
    });
  });

  test("S171: a true “forced” that is repeated makes the holder renew only now and then, and never too seldom", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port)];
    const inbox = await inboxOf(admin, far);
    const doubted: (string | undefined)[] = [];
    far.listen({ lost: () => {}, doubt: (id) => doubted.push(id) });
    const spy = testClients.client(own.port);
    const seen: string[] = [];
    await spy.subscribe(inbox);
    spy.on("message", (_, text: string) => seen.push(text));
    const [claim, other] = [claimOf(), claimOf()];
    const { fence } = await granted(far, claim);
    const { fence: otherFence } = await granted(far, other);
    await near.forceRelease(claim.name, fence, "ops", "stuck");
    const text = await eventually("it is reported", () => seen.find((each) => each.startsWith("forced")));
    await Promise.all(Array.from({ length: 1000 }, () => admin.publish(inbox, text)));
    // Behind all of them, and about another claim: that one does not wait.
    await near.forceRelease(other.name, otherFence, "ops", "stuck");
    await eventually("the other is reported", () => (doubted.includes(other.id) ? true : undefined));
    const count = doubted.filter((id) => id === claim.id).length;
    expect(count).toBeGreaterThan(0);
    expect(count).toBeLessThan(50);
    await admin.publish(inbox, text);
    await eventually("it is reported again", () =>
      doubted.filter((id) => id === claim.id).length > count ? true : undefined,
    );
  });

  test("S171: a lease is lost at once when it was really broken, and says by whom and why", async () => {
    await using testClients = new Clients();
    const [a, b] = [testClients.backend(server.port), testClients.backend(server.port)].map((backend) =>
      createLocks(backend),
    );
    for (const each of [a!, b!]) testClients.later(() => each.close());
    const { name } = claimOf();
    // A ttl so long that its renewal would come after ten minutes.
    const lease = await a!.acquire(name, { ttl: "30m" });
    expect(await b!.forceRelease(name, { fence: lease.fence, reason: "stuck" })).toBe(true);
    await eventually("its signal aborts", () => (lease.signal.aborted ? true : undefined));
    expect(String(lease.signal.reason)).toMatch(/ended by force by \S+: stuck/u);
    await lease.release().catch(() => {});
  });
});

describe("what a message costs and shows", () => {
  test("S171: no claim's id travels in a message, neither of a hand-over nor of a forced end nor of a queue that begins", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port)];
    const seen = await listenTo(testClients, own.port);
    const ids: string[] = [];
    for (const change of [{}, { mode: "shared" as const }, { limit: 2 }]) {
      const holders = [claimOf({ limit: change.limit ?? 1 })];
      if (change.limit === 2) holders.push(rivalOf(holders[0]!));
      const waiter = rivalOf(holders[0]!, change);
      ids.push(waiter.id, ...holders.map(({ id }) => id));
      for (const holder of holders) await granted(near, holder);
      await refused(far, waiter);
      await near.release(holders[0]!);
      const { fence } = await waitFor(far, waiter);
      expect(await near.forceRelease(waiter.name, fence, "ops", "test")).toBe(true);
    }
    await eventually("all is seen", () => (seen.length >= 9 ? true : undefined));
    expect(seen.map(({ text }) => text.split(" ")[0])).toEqual(
      Array.from({ length: 3 }, () => ["wanted", "granted", "forced"]).flat(),
    );
    for (const { text } of seen) for (const id of ids) expect(text).not.toContain(id.slice(0, 12));
  });

  test("S171: a message of 2.6 MB with 60,000 grants causes no command at all", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const clock = new FakeClock();
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { clock })];
    const inbox = await inboxOf(admin, far, clock);
    const entries = Array.from({ length: 60_000 }, (_, i) => `forged-${String(i).padStart(16, "0")}:${FENCE}+000000`);
    await admin.publish(inbox, `granted ${entries.join(",")} ${keyOf("any")}`);
    await heard(near, far);
    await admin.config("RESETSTAT");
    await clock.advance(60_000);
    await far.query("none");
    expect((await calls(admin))["evalsha"] ?? 0).toBe(0);
  });

  test("S171: a thousand readers that are let in at once are notified in several messages, and all of them learn of it", async () => {
    await using testClients = new Clients();
    const [near, far] = [testClients.backend(server.port), testClients.backend(server.port, { ticket: "60s" })];
    const seen = await listenTo(testClients, server.port);
    const writer = claimOf();
    const readers = Array.from({ length: 1000 }, () => rivalOf(writer, { mode: "shared" }));
    await granted(near, writer);
    await Promise.all(readers.map((reader) => refused(far, reader)));
    const watching = readers.map((reader) => far.watch(reader, AbortSignal.timeout(15_000)));
    await near.release(writer);
    expect((await Promise.all(watching)).filter((news) => news?.granted === true)).toHaveLength(1000);
    const longest = Math.max(...seen.map(({ text }) => text.length));
    expect(longest).toBeLessThan(6400);
    await Promise.all(readers.map((reader) => far.release(reader)));
  });

  test("S171: a storm of “freed” wakes a quorum's waiter at a steady pace, and the last one is never lost", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const clock = new FakeClock();
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { clock })];
    await inboxOf(admin, far, clock);
    let wakes = 0;
    const { name } = claimOf();
    testClients.later(far.freed(name, () => wakes++));
    await eventually("it listens", () => (wakes > 0 ? true : undefined));
    const before = wakes;
    for (let i = 0; i < 3000; i++) void admin.publish(keyOf(name), "freed");
    await heard(near, far);
    // No time has passed for it: what one burst allows, and no more.
    expect(wakes - before).toBeLessThanOrEqual(50);
    const stormed = wakes;
    await clock.advance(100);
    expect(wakes).toBe(stormed + 1);
  });
});
