/** Small bugs in the scripts and around them that lived: each test here is red with one that `npm run mutate` put in. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { cannotQuarantine, whyNoMember } from "../../../src/backends/redis/server-checks.ts";
import type { Identity } from "../../../src/backends/redis/query.ts";
import type { Connection } from "../../../src/backends/redis/connection.ts";
import { toBackendError } from "../../../src/backends/redis/errors.ts";
import { beat } from "../../../src/backends/redis/generated/scripts.ts";
import { Inbox, type Recipients } from "../../../src/backends/redis/inbox.ts";
import type { RedisBackend } from "../../../src/backends/redis/index.ts";
import { toSettings } from "../../../src/backends/redis/options.ts";
import { Renewals } from "../../../src/backends/redis/renewals.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { parseUrl } from "../../../src/backends/redis/url.ts";
import { isFence, LIMIT } from "../../../src/backends/redis/wire.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const keyOf = ({ name }: Claim): string => namesOf("holdfast", false).lock(name);

describe("who is next", () => {
  test("no claim, until the minHold of the one that was released has passed, though another one waits", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port);
    const holder = claimOf({ minHoldMs: 60_000, holder: "first" });
    const waiter = rivalOf(holder, { minHoldMs: 0, holder: "second" });
    await granted(backend, holder);
    await refused(backend, waiter);
    expect(await backend.release(holder)).toBe("held");
    await refused(backend, waiter);
    expect((await backend.query(holder.name)).held.map(({ holder: who }) => who)).toEqual(["first"]);
  });

  test("not one whose ticket has lapsed, though its process listens", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const [near, far] = [testClients.backend(server.port), testClients.backend(server.port, { ticket: "30m" })];
    const holder = claimOf({ ttlMs: 3_600_000 });
    const [silent, next] = [rivalOf(holder, { holder: "silent" }), rivalOf(holder, { holder: "next" })];
    await granted(near, holder);
    await refused(far, silent);
    await refused(near, next);
    const last = rivalOf(holder);
    await refused(near, last);
    // As if its last sign of life were half an hour old.
    const [key, field] = [keyOf(holder), `w${silent.id}`];
    const [record, [seconds]] = await Promise.all([admin.hget(key, field), admin.time()]);
    await admin.hset(key, field, `${Number(seconds) - 1}000${record!.slice(13)}`);
    expect(await near.release(holder)).toBe("held");
    expect((await near.query(holder.name)).held.map(({ holder: who }) => who)).toEqual(["next"]);
    expect((await refused(near, last)).position).toBe(1);
  });

  test("a reader waits behind holders with a limit: their number is none of its business", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port);
    const holder = claimOf({ limit: 3 });
    await granted(backend, holder);
    const reader = rivalOf(holder, { mode: "shared", limit: 1 });
    expect((await refused(backend, reader)).position).toBe(1);
  });

  test("each by its place among those who are still there", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port);
    const holder = claimOf();
    const waiters = Array.from({ length: 5 }, () => rivalOf(holder));
    await granted(backend, holder);
    for (const [i, waiter] of waiters.entries()) expect((await refused(backend, waiter)).position).toBe(i + 1);
    for (const [i, waiter] of waiters.entries()) expect((await refused(backend, waiter)).position).toBe(i + 1);
    await backend.release(waiters[1]!);
    const places = [];
    for (const i of [0, 2, 3, 4]) places.push((await refused(backend, waiters[i]!)).position);
    expect(places).toEqual([1, 2, 3, 4]);
  });

  test("each has the place behind the one before it, so that nothing has to be looked for", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    for (const mode of ["exclusive", "shared"] as const) {
      const holder = claimOf();
      await granted(backend, holder);
      for (let i = 0; i < 3; i++) await refused(backend, rivalOf(holder, { mode }));
      const places = (await admin.hkeys(keyOf(holder))).filter((field) => field.startsWith("q"));
      expect(places.toSorted()).toEqual(["q1", "q2", "q3"]);
    }
  });
});

test("minHold counts from when the lease began, not from when it was released", async () => {
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  const backend = testClients.backend(server.port);
  const claim = claimOf({ minHoldMs: 50_000 });
  await granted(backend, claim);
  const began = (await admin.hget(keyOf(claim), "s"))!.split(" ")[4];
  await eventually("the server's clock has moved", async () => {
    const [seconds, micros] = await admin.time();
    return Number(seconds) * 1000 + Number(micros) / 1000 > Number(began) + 2 ? true : undefined;
  });
  await backend.release(claim);
  const [end, since] = (await admin.hget(keyOf(claim), `h~${claim.id}`))!.split(" ");
  expect([since, Number(end) - Number(since)]).toEqual([began, 50_000]);
});

test("a release that comes after the end says that nothing was held", async () => {
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  const backend = testClients.backend(server.port);
  const claim = claimOf({ ttlMs: 100 });
  await granted(backend, claim);
  await eventually("it has ended", async () => {
    const [state, [seconds, micros]] = await Promise.all([admin.hget(keyOf(claim), "s"), admin.time()]);
    return Number(seconds) * 1000 + Number(micros) / 1000 > Number(state!.split(" ")[3]) + 1 ? true : undefined;
  });
  expect(await backend.release(claim)).toBe("absent");
});

test("while the counter is ahead of the clock, a lease that began in this very millisecond hands on one fence and no run", async () => {
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  const backend = testClients.backend(server.port, { run: 64 });
  for (const [since, run] of [
    ["9999999999999", 1],
    ["0000000000001", 64],
  ] as const) {
    const holder = claimOf();
    const next = rivalOf(holder);
    const ahead = BigInt(Date.now() + 3_600_000) * 1000n;
    await admin.hset(keyOf(holder), "s", `${ahead} ${Date.now() + 60_000}`);
    await granted(backend, holder);
    await refused(backend, next);
    const record = await admin.hget(keyOf(holder), `h${holder.id}`);
    await admin.hset(keyOf(holder), `h${holder.id}`, record!.slice(0, 14) + since + record!.slice(27));
    expect(await backend.release(holder)).toBe("held");
    expect(await granted(backend, next)).toMatchObject({ fence: ahead + 2n, run });
  }
});

test("a lease that another program overwrote is lost, with the reason", async () => {
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  const backend = testClients.backend(server.port);
  const claim = claimOf();
  await granted(backend, claim);
  await admin.hset(keyOf(claim), "s", "garbage");
  expect(await backend.renew([claim])).toEqual([{ held: false, reason: { kind: "overwritten" } }]);
});

test("a lease in doubt is renewed by its fence, alone and among others", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const claims = [claimOf(), claimOf(), claimOf({ limit: 2 })];
  const fences: bigint[] = [];
  for (const claim of claims) fences.push((await granted(backend, claim)).fence);
  const held = (renewals: readonly { readonly held: unknown }[]): unknown[] => renewals.map((renewal) => renewal.held);
  expect(held(await backend.renew(claims, fences))).toEqual([true, true, true]);
  expect(held(await backend.renew(claims.slice(0, 1), fences.slice(0, 1)))).toEqual([true]);
  const others = [fences[0]!, fences[1]! - 1n, fences[2]! + 1n];
  expect(held(await backend.renew(claims, others))).toEqual([true, false, false]);
});

test("a durable server votes at once, and knows no quarantine", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port, { prefix: "durable" });
  await backend.join({ quarantineMs: 0, allowEviction: false });
  expect(await backend.vote(claimOf(), 7n)).toMatchObject({ vote: "granted" });
});

test("a server that cannot be a quorum's member is reported with the reason", () => {
  const fit = { role: "master", cluster: false, policy: "noeviction" } as Identity;
  expect(whyNoMember(fit, false)).toBeUndefined();
  expect(whyNoMember({ ...fit, role: "sentinel" }, true)).toContain("it is a sentinel");
  expect(whyNoMember({ ...fit, role: "slave" }, true)).toContain("it is a replica");
  expect(whyNoMember({ ...fit, cluster: true }, true)).toContain("it is a node of a Redis Cluster");
  expect(whyNoMember({ ...fit, policy: "allkeys-lru" }, false)).toContain("its maxmemory-policy is allkeys-lru");
  expect(whyNoMember({ ...fit, policy: "allkeys-lru" }, true)).toBeUndefined();
});

test("checkReplicas in a URL is off only where it says false", () => {
  const checks = (text: string): unknown => parseUrl(`redis://host${text}`).options.checkReplicas;
  expect([checks(""), checks("?checkReplicas=false"), checks("?checkReplicas=true")]).toEqual([undefined, false, true]);
});

test("a limit that others do not share is reported with both numbers", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const holder = claimOf({ limit: 37 });
  await granted(backend, holder);
  await expect(backend.attempt(rivalOf(holder, { limit: 41 }))).rejects.toThrow(/37.*41|41.*37/u);
});

test("a steal ends by force what is held, and not what had ended before", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const forced = async (ttlMs: number): Promise<number> => {
    const holder = claimOf({ ttlMs });
    await granted(backend, holder);
    if (ttlMs < 1000)
      await eventually("it has ended", async () =>
        (await backend.inspect(holder.name)).held.length === 0 ? true : undefined,
      );
    expect((await backend.steal(rivalOf(holder), "test")).granted).toBe(true);
    return (await backend.inspect(holder.name)).forced.length;
  };
  expect([await forced(60_000), await forced(20)]).toEqual([1, 0]);
});

describe("a hash of other people's making", () => {
  const calls: Record<string, (backend: RedisBackend, claim: Claim) => Promise<unknown>> = {
    "an attempt": (backend, claim) => backend.attempt({ ...claim, queues: false }),
    "an attempt that queues": (backend, claim) => backend.attempt(claim),
    "an attempt by a reader": (backend, claim) => backend.attempt({ ...claim, mode: "shared" }),
    "a swap": (backend, claim) => backend.swap!(rivalOf(claim), claim),
    "a steal": (backend, claim) => backend.steal(claim, "test"),
    "a vote": (backend, claim) => backend.vote(claim, 7n),
    "a forced release": (backend, claim) => backend.forceRelease(claim.name, 7n, "ops", "stuck"),
  };
  test.each(Object.keys(calls))("is an error for %s, and stays as it is", async (call) => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const claim = claimOf();
    const theirs = { color: "green", size: "7" };
    await admin.hset(keyOf(claim), theirs);
    await expect(calls[call]!(backend, claim)).rejects.toThrow(/holds something else/u);
    expect(await admin.hgetall(keyOf(claim))).toEqual(theirs);
    expect(await admin.pttl(keyOf(claim))).toBe(-1);
  });
});

describe("the hash of a lock", () => {
  test("stays one field while one claim renews it alone", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const claim = claimOf();
    await granted(backend, claim);
    const before = await admin.hget(keyOf(claim), "s");
    await eventually("its end has moved", async () => {
      expect(await backend.renew([claim])).toMatchObject([{ held: true }]);
      return (await admin.hget(keyOf(claim), "s")) === before ? undefined : true;
    });
    expect(await admin.hkeys(keyOf(claim))).toEqual(["s"]);
  });

  test("keeps nothing of a holder that left, or of a place in the line that belongs to no claim", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const limited = claimOf({ limit: 2 });
    await granted(backend, limited);
    expect(await backend.release(limited)).toBe("held");
    expect(await admin.hkeys(keyOf(limited))).toEqual(["s"]);
    const holder = claimOf();
    const waiter = rivalOf(holder);
    await granted(backend, holder);
    await refused(backend, waiter);
    await admin.hset(keyOf(holder), "q1", "unknown");
    await admin.hdel(keyOf(holder), `w${waiter.id}`);
    expect(await backend.release(holder)).toBe("held");
    expect(await admin.hkeys(keyOf(holder))).toEqual(["s"]);
  });

  test.each([
    ["end", 0, 13],
    ["beginning", 14, 27],
    ["fence", 28, 44],
  ])("with a holder's %s that has a digit too few is none of ours", async (_, from, to) => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const claim = claimOf({ limit: 2 });
    await granted(backend, claim);
    const field = `h${claim.id}`;
    const record = (await admin.hget(keyOf(claim), field))!;
    await admin.hset(keyOf(claim), field, record.slice(0, from) + record.slice(from + 1, to) + record.slice(to));
    await expect(backend.attempt(claim)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
  });

  test("does not keep holders whose time is over", async () => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const short = claimOf({ limit: 3, ttlMs: 100 });
    const long = rivalOf(short, { ttlMs: 60_000 });
    await granted(backend, short);
    await granted(backend, long);
    await eventually(
      "the first has ended",
      async () => {
        await granted(backend, long);
        return (await admin.hexists(keyOf(short), `h${short.id}`)) === 0 ? true : undefined;
      },
      { patienceMs: 5000 },
    );
    expect((await admin.hkeys(keyOf(short))).toSorted()).toEqual([`h${long.id}`, "s"].toSorted());
  });

  test.each([
    ["no text at all", ""],
    ["a fence that is too short", "000000000000001 0000000000000"],
    ["a fence that is too long", "00000000000000001 0000000000000"],
    ["an end that is too short", "0000000000000001 000000000000"],
    ["an end that is too long", "0000000000000001 00000000000000"],
    ["a short fence, and all else in its place", "000000000000001 0000000000000  0 x 0 0 - 0 1 0"],
    ["a short end, and all else in its place", "0000000000000001 000000000000  0 x 0 0 - 0 1 0"],
    ["a fence beyond all fences", "9999999999999999 0000000000000"],
    ["a line longer than any", "0000000000000001 0000000000000 1 x 1 9999999999999 a 1 1 999999999999999"],
    ["more waiters than places", "0000000000000001 0000000000000 1 x 1 9999999999999 a 3 1 2"],
    ["more holders than any", "0000000000000001 0000000000000 9999999999 x 1 9999999999999 a 0 1 0"],
  ])("with %s is none of ours, and stays as it is", async (_, state) => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    for (const claim of [claimOf(), claimOf({ mode: "shared" })]) {
      await admin.hset(keyOf(claim), "s", state);
      await expect(backend.attempt(claim)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
      expect(await admin.hgetall(keyOf(claim))).toEqual({ s: state });
    }
  });

  test.each([
    ["an end", 0, 13],
    ["a beginning", 1, 13],
    ["a fence", 2, 16],
  ] as const)("with a holder whose record has %s of another width is none of ours", async (_, column, width) => {
    await using testClients = new Clients();
    const admin = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const rest = '.x 000000060000 000063 000003600000 1 60000 0 10000 0 inbox ["me",{}]';
    for (const digits of [width - 1, width, width + 1]) {
      const claim = claimOf({ queues: false });
      const columns = ["9".repeat(13), "1".repeat(13), "1".repeat(16)];
      columns[column] = (columns[column] as string).charAt(0).repeat(digits);
      const record = [...columns, rest].join(" ");
      await admin.hset(keyOf(claim), "s", `${"1".repeat(16)} ${"9".repeat(13)} 1 x 1 0 id 0 1 0`, "hid", record);
      if (digits === width) await refused(backend, claim);
      else await expect(backend.attempt(claim)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
      expect(await admin.hget(keyOf(claim), "hid")).toBe(record);
    }
  });
});

test("a voted lease has one fence: a forced end of the next one is of another lease", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const backend = testClients.backend(own.port);
  const claim = claimOf();
  await backend.join({ quarantineMs: 0, allowEviction: false });
  expect(await backend.vote(claim, 100n)).toMatchObject({ vote: "granted" });
  expect(await backend.forceRelease(claim.name, 101n, "ops", "another")).toBe(false);
  expect((await backend.query(claim.name)).held.map(({ fence }) => fence)).toEqual([100n]);
  expect(await backend.forceRelease(claim.name, 100n, "ops", "this one")).toBe(true);
});

test("under a quarantine a claim that would outlast it is refused, and nothing is queued for it", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const options = { failover: "quarantine", maxTtl: 1000, maxLag: 3000, checkReplicas: false } as const;
  const backend = testClients.backend(own.port, options);
  const claim = claimOf({ ttlMs: 5000 });
  await expect(backend.attempt(claim)).rejects.toMatchObject({
    code: "ERR_LOCK_BACKEND",
    message: expect.stringContaining("`maxTtl`") as string,
  });
  expect((await backend.query(claim.name)).pending).toEqual([]);
});

describe("a forced end", () => {
  test("lets the only one who waits in at once, without a question of its own", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port, { ticket: "30m" });
    const holder = claimOf({ holder: "first" });
    const waiter = rivalOf(holder, { holder: "second" });
    const { fence } = await granted(backend, holder);
    await refused(backend, waiter);
    expect(await backend.forceRelease(holder.name, fence, "ops", "stuck")).toBe(true);
    const { held, pending } = await backend.query(holder.name);
    expect({ held: held.map(({ holder: who }) => who), pending }).toEqual({ held: ["second"], pending: [] });
  });

  test("leaves the records of earlier ones that are not old", async () => {
    await using testClients = new Clients();
    const backend = testClients.backend(server.port);
    const one = claimOf({ limit: 2 });
    const fences: bigint[] = [];
    for (const claim of [one, rivalOf(one)]) fences.push((await granted(backend, claim)).fence);
    for (const fence of fences) expect(await backend.forceRelease(one.name, fence, "ops", "stuck")).toBe(true);
    const { forced } = await backend.query(one.name);
    expect(forced.map(({ fence }) => fence).toSorted()).toEqual(fences.toSorted());
  });
});

test("when the time of one reader is over, the others still keep a writer out", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const short = claimOf({ mode: "shared", ttlMs: 50 });
  const readers = [1, 2].map(() => rivalOf(short, { ttlMs: 3_600_000 }));
  for (const claim of [short, ...readers]) await granted(backend, claim);
  await eventually("the first has ended", async () =>
    (await backend.query(short.name)).held.length === 2 ? true : undefined,
  );
  const writer = rivalOf(short, { mode: "exclusive", ttlMs: 60_000, queues: false });
  await refused(backend, writer);
  expect(await backend.release(readers[0]!)).toBe("held");
  await refused(backend, writer);
  expect(await backend.release(readers[1]!)).toBe("held");
  await granted(backend, writer);
});

test("a holder that votes with a higher ballot has that fence from then on", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const backend = testClients.backend(own.port);
  const claim = claimOf();
  await backend.join({ quarantineMs: 0, allowEviction: false });
  expect(await backend.vote(claim, 100n)).toMatchObject({ vote: "granted" });
  expect(await backend.vote(claim, 200n)).toMatchObject({ vote: "granted" });
  expect((await backend.query(claim.name)).held.map(({ fence }) => fence)).toEqual([200n]);
  expect(await backend.vote(rivalOf(claim), 300n)).toMatchObject({ vote: "held" });
});

test("a sign of life of one who was let in without hearing of it extends the lease, which it trusts from then on", async () => {
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  const backend = testClients.backend(server.port, { ticket: "30m" });
  const holder = claimOf({ ttlMs: 7_200_000 });
  const waiter = rivalOf(holder);
  const { fence } = await granted(backend, holder);
  await refused(backend, waiter);
  expect(await backend.release(holder)).toBe("held");
  // As if it had been let in an hour ago, and the message were lost.
  const [key, field] = [keyOf(holder), `h${waiter.id}`];
  const record = (await admin.hget(key, field))!;
  const soon = Number((await admin.time())[0]) + 3600;
  await admin.hset(key, field, `${soon}000${record.slice(13)}`);
  const [run] = (await admin.eval(beat.source, 1, key, "1", "0", waiter.id)) as string[];
  expect(BigInt(run!.split("+")[0]!)).toBeGreaterThan(fence);
  expect(Number((await admin.hget(key, field))!.slice(0, 13))).toBeGreaterThanOrEqual((soon + 3599) * 1000);
});

test("a vote that is withdrawn takes its ballot along, and that of no other", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const backend = testClients.backend(own.port);
  const lease = claimOf();
  await backend.join({ quarantineMs: 0, allowEviction: false });
  expect(await backend.vote(lease, 100n)).toMatchObject({ vote: "granted" });
  expect(await backend.release(lease)).toBe("held");
  const failed = rivalOf(lease);
  expect(await backend.vote(failed, 200n)).toMatchObject({ vote: "granted" });
  expect(await backend.withdraw(failed)).toBe("held");
  expect(await backend.vote(rivalOf(lease), 100n)).toMatchObject({ vote: "low" });
  expect(await backend.vote(rivalOf(lease), 150n)).toMatchObject({ vote: "granted" });
});

test("a voted lease is found by the beginning of its id, alone and with others beside it", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const backend = testClients.backend(own.port);
  const lease = claimOf();
  await backend.join({ quarantineMs: 0, allowEviction: false });
  expect(await backend.vote(lease, 100n)).toMatchObject({ vote: "granted" });
  const found = { id: lease.id, ballot: 100n };
  expect(await backend.recall(lease.name, lease.id.slice(0, 8))).toEqual(found);
  // One who waits here, beside the votes, changes how the lock is written down.
  await refused(backend, rivalOf(lease));
  expect(await backend.recall(lease.name, lease.id.slice(0, 8))).toEqual(found);
  expect(await backend.recall(lease.name, "another")).toBeUndefined();
});

test("0 is no fence, neither as a ballot nor in a holder's record", async () => {
  const fences = [-1, 0, 1, LIMIT.fence, LIMIT.fence + 1, NaN];
  expect(fences.map(isFence)).toEqual([false, false, true, true, false, false]);
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  await expect(backend.vote(claimOf(), 0n)).rejects.toThrow(`from 1 to ${LIMIT.fence}, got 0`);
});

test("a voted lease that ends wakes those who listen for it, also where another claim waits beside the votes", async () => {
  await using own = await startRedis();
  await using testClients = new Clients();
  const [a, b] = [testClients.backend(own.port), testClients.backend(own.port)];
  for (const member of [a, b]) await member.join({ quarantineMs: 0, allowEviction: false });
  const lease = claimOf();
  expect(await a.vote(lease, 5n)).toMatchObject({ vote: "granted" });
  await refused(a, rivalOf(lease));
  let woken = 0;
  testClients.later(b.freed(lease.name, () => void woken++));
  // One hint comes when the subscription stands, because the lock may have been freed until then.
  await eventually("it listens", () => (woken === 1 ? true : undefined));
  expect(await a.release(lease)).toBe("held");
  await eventually("a hint", () => (woken === 2 ? true : undefined));
});

describe("without a server:", () => {
  const settings = toSettings({});

  test("a process that asks for no quarantine renews by the silence that the server's marker allows, not by its own", async () => {
    const asked: (readonly string[])[] = [];
    const keysAsked: (readonly string[])[] = [];
    const connection = {
      topology: "standalone",
      keyPrefix: "app:",
      evalsha: async (_: string, keys: readonly string[], args: readonly string[]) => {
        keysAsked.push(keys);
        asked.push(args);
        return "1";
      },
    } as unknown as Connection;
    const names = namesOf("holdfast", false);
    await new Renewals(connection, names, settings, undefined).renew([claimOf()]);
    expect(asked[0]![3]).toBe("app:holdfast:{marker}");
    const careful = toSettings({ failover: "quarantine", maxTtl: "1m", maxLag: "3s" });
    await new Renewals(connection, names, careful, undefined).renew([claimOf()]);
    expect(asked[1]![3]).toBe(String(careful.silenceS));
    // A member of a quorum names its server's marker, behind the locks.
    const member = new Renewals(connection, names, settings, undefined);
    member.asksWho = true;
    const claim = claimOf();
    await member.renew([claim]);
    expect(keysAsked[2]).toEqual([keyOf(claim), "holdfast:{marker}"]);
  });

  test("a renewal that is one request has all the time that its caller gives it; only several do not wait for each other", async () => {
    const clock = new FakeClock();
    const slow = {
      topology: "standalone",
      keyPrefix: "",
      evalsha: () => new Promise((resolve) => void clock.setTimer(() => resolve("1"), 5000)),
    } as unknown as Connection;
    const renewals = new Renewals(slow, namesOf("holdfast", false), { ...settings, clock }, undefined);
    const one = renewals.renew([claimOf({ ttlMs: 6000 })]);
    // Different ttls are different requests.
    const two = renewals.renew([claimOf({ ttlMs: 6000 }), claimOf({ ttlMs: 60_000 })]);
    await clock.advance(5000);
    expect((await one).map(({ held }) => held)).toEqual([true]);
    expect((await two).map(({ held }) => held)).toEqual(["unknown", true]);
  });

  test("the first claim waits for its messages no longer than it may, and the next not at all", async () => {
    const clock = new FakeClock();
    const silent = { openOwn: () => new Promise(() => {}), onReconnect: () => () => {} } as unknown as Connection;
    const inbox = new Inbox(silent, "channel", clock, {} as Recipients);
    let waited = false;
    const waiting = inbox.openWithin(1000).then(() => (waited = true));
    await clock.advance(999);
    expect(waited).toBe(false);
    await clock.advance(1);
    expect(waited).toBe(true);
    await waiting;
    await inbox.openWithin(1000);
    inbox.close();
  });

  test("an error keeps its code, where that is a word, and nothing else that could hold a secret", () => {
    const cause = Object.assign(new Error("cut off"), { code: "ECONNRESET", command: { args: ["secret"] } });
    expect(toBackendError(cause, "a").cause).toMatchObject({ code: "ECONNRESET", message: "cut off" });
    expect(toBackendError(cause, "a").cause).not.toHaveProperty("command");
    const other = Object.assign(new Error("cut off"), { code: { secret: 1 } });
    expect(toBackendError(other, "a").cause).not.toHaveProperty("code");
    for (const odd of ["redis://:secret@h", { command: "secret" }])
      expect(toBackendError(odd, "a").cause).toBe(undefined);
  });

  test("a quarantine is refused where the primary would go on without replicas, and where that is unknown", () => {
    const identity = { version: "7.0.15", minReplicas: 1, minReplicasMaxLagMs: 1000, guardsWrites: true } as Identity;
    const why = (change: Partial<Identity>): string | undefined =>
      cannotQuarantine({ ...identity, ...change }, { maxLagMs: 10_000, checkReplicas: true });
    expect(why({})).toBeUndefined();
    expect(why({ minReplicas: 0 })).toContain("`min-replicas-to-write` is 0");
    expect(why({ minReplicasMaxLagMs: 0 })).toContain("`min-replicas-max-lag` is 0");
    expect(why({ minReplicasMaxLagMs: 10_000 })).toContain("Lower the one or raise the other");
    expect(why({ guardsWrites: false })).toContain("neither by CONFIG nor in INFO");
    expect(why({ version: "6.0.1" })).toContain("Redis 6.0.1 lets scripts write");
  });
});

test("of two who listen for one lock, the one goes on when the other stops", async () => {
  await using testClients = new Clients();
  const admin = testClients.client(server.port);
  const backend = testClients.backend(server.port);
  const claim = claimOf();
  const woken = [0, 0];
  const stops = [0, 1].map((at) => backend.freed(claim.name, () => void (woken[at]! += 1)));
  await eventually("both listen", () => (woken.every((times) => times > 0) ? true : undefined));
  stops[0]!();
  const [first, second] = woken;
  await admin.publish(keyOf(claim), "freed");
  await eventually("the other is woken", () => (woken[1]! > second! ? true : undefined));
  expect(woken[0]).toBe(first);
  stops[1]!();
});
