/** Long queues, lapsed tickets, gaps and garbage: no call keeps the server busy for long, and no waiter is passed over. */
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { calls, claimOf, Clients, eventually, granted, refused, rivalOf, waitFor } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

/** How many commands the server ran inside scripts since the last reset. */
async function workOf(admin: Redis): Promise<number> {
  const { hget = 0, hmget = 0, hset = 0, hdel = 0, hgetall = 0, hkeys = 0 } = await calls(admin);
  return hget + hmget + hset + hdel + hgetall + hkeys;
}

/** The lock's state, cut at its spaces: … holders, mode, limit, first end, latest, queued, head, tail. */
async function stateOf(admin: Redis, { name }: Claim): Promise<string[]> {
  return ((await admin.hget(keyOf(name), "s")) ?? "").split(" ");
}

describe("gaps", () => {
  test("S139: those who gave up in a long queue leave gaps that cost a release nothing, in whatever order they went", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: "60s" })];
    const holder = claimOf();
    const waiters = Array.from({ length: 1500 }, (_, i) => rivalOf(holder, { holder: String(i) }));
    await granted(near, holder);
    await Promise.all(waiters.map((waiter) => refused(far, waiter)));
    const stay = new Set([0, 1, 700, 701, 1499]);
    // A fixed shuffle: 733 and 1500 have no common divisor.
    const order = waiters.map((_, i) => (i * 733) % 1500).filter((i) => !stay.has(i));
    await Promise.all(order.map((i) => far.release(waiters[i]!)));
    // A few fields for each gap, and not one for each place.
    expect(await admin.hlen(keyOf(holder.name))).toBeLessThan(30);
    await admin.config("RESETSTAT");
    const served: string[] = [];
    await near.release(holder);
    for (const i of stay) {
      await waitFor(far, waiters[i]!);
      served.push((await near.query(holder.name)).held[0]!.holder);
      await far.release(waiters[i]!);
    }
    expect(served).toEqual(["0", "1", "700", "701", "1499"]);
    expect(await workOf(admin)).toBeLessThan(300);
    expect(await admin.hkeys(keyOf(holder.name))).toEqual(["s"]);
  });

  test("S139: 200,000 empty places between two waiters are passed in one step", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: "60s" })];
    const holder = claimOf();
    const waiters = [rivalOf(holder), rivalOf(holder)] as const;
    await granted(near, holder);
    for (const waiter of waiters) await refused(far, waiter);
    // As a lock looks whose waiters gave up one after the other before this version.
    const key = keyOf(holder.name);
    const state = await stateOf(admin, holder);
    expect(state.slice(-3)).toEqual(["2", "1", "2"]);
    const record = (await admin.hget(key, `w${waiters[1].id}`)) as string;
    await admin.hdel(key, "q2");
    await admin.hset(key, "q200001", waiters[1].id, "s", [...state.slice(0, -1), "200001"].join(" "));
    await admin.hset(
      key,
      `w${waiters[1].id}`,
      `${record.slice(0, 28)}${"200001".padStart(16, "0")}${record.slice(44)}`,
    );
    await admin.config("RESETSTAT");
    await near.release(holder);
    await waitFor(far, waiters[0]);
    await far.release(waiters[0]);
    expect(await workOf(admin)).toBeLessThan(100);
    await waitFor(far, waiters[1]);
  });
});

describe("lapsed tickets", () => {
  test("S179: thousands of them are passed over in portions, and the living one behind them is served", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: "60s" })];
    const holder = claimOf();
    const [dead, living] = [rivalOf(holder), rivalOf(holder)];
    await granted(near, holder);
    await refused(far, dead);
    const key = keyOf(holder.name);
    const record = (await admin.hget(key, `w${dead.id}`)) as string;
    const lapsed = `0000000000001${record.slice(13)}`;
    const fields: string[] = [`w${dead.id}`, lapsed];
    const COUNT = 20_000;
    for (let place = 2; place <= COUNT; place++) {
      fields.push(
        `w${dead.id}-${place}`,
        `${lapsed.slice(0, 28)}${String(place).padStart(16, "0")}${lapsed.slice(44)}`,
      );
      fields.push(`q${place}`, `${dead.id}-${place}`);
    }
    const state = await stateOf(admin, holder);
    await admin.hset(key, ...fields, "s", [...state.slice(0, -3), String(COUNT), "1", String(COUNT)].join(" "));
    await far.release(dead);
    await refused(far, living);
    await admin.config("RESETSTAT");
    await near.release(holder);
    expect(await far.watch(living, AbortSignal.timeout(20_000))).toMatchObject({ granted: true });
    const { evalsha = 0, eval: evals = 0 } = await calls(admin);
    expect((await workOf(admin)) / (evalsha + evals)).toBeLessThan(3000);
    // A claim that does not queue is not refused a free lock, either.
    await far.release(living);
    await admin.hset(
      key,
      ...fields,
      "s",
      [...state.slice(0, 2), "0 x 0 0 -", String(COUNT), "1", String(COUNT)].join(" "),
    );
    await granted(near, rivalOf(holder, { queues: false }));
  });

  test("S179: a server that is asked for nothing but signs of life passes over them too", async () => {
    await using own = await startRedis();
    await using testClients = new Clients();
    const admin = testClients.client(own.port);
    const [near, far] = [testClients.backend(own.port), testClients.backend(own.port, { ticket: 1500 })];
    const holder = claimOf({ ttlMs: 1500 });
    const living = rivalOf(holder, { ttlMs: 60_000 });
    await granted(near, holder);
    await refused(far, living);
    const key = keyOf(holder.name);
    const record = (await admin.hget(key, `w${living.id}`)) as string;
    const fields: string[] = [];
    for (let place = 1; place <= 2000; place++) {
      fields.push(
        `wdead-${place}`,
        `0000000000001${record.slice(13, 28)}${String(place).padStart(16, "0")}${record.slice(44)}`,
      );
      fields.push(`q${place}`, `dead-${place}`);
    }
    const state = await stateOf(admin, holder);
    fields.push("q2001", living.id, `w${living.id}`, `${record.slice(0, 28)}0000000000002001${record.slice(44)}`);
    await admin.hset(key, ...fields, "s", [...state.slice(0, -3), "2001", "1", "2001"].join(" "));
    // No release comes: the holder's time passes, and the waiter's own questions bring it there.
    expect(await far.watch(living, AbortSignal.timeout(20_000))).toMatchObject({ granted: true });
    expect(await far.release(living)).toBe("held");
    expect(await admin.hkeys(key)).toEqual(["s"]);
  });
});

describe.concurrent("garbage", () => {
  const harms: readonly (readonly [string, (id: string) => readonly string[]])[] = [
    ["a waiter's record", (id) => [`w${id}`, "garbage"]],
    ["an empty record", (id) => [`w${id}`, ""]],
    [
      "a record with terms that are none",
      (id) => [`w${id}`, `${Date.now() + 60_000} ${Date.now()} 0000000000000001 .x 1 2`],
    ],
    [
      "a record with endless numbers",
      (id) => [
        `w${id}`,
        `${"9".repeat(13)} ${"9".repeat(13)} 0000000000000001 .x ${"9".repeat(300)} 1 1 1 1 1 1 1 i []`,
      ],
    ],
    ["an id in the line that no claim has", () => ["q1", "unknown"]],
    ["a gap that leads nowhere", () => ["q1", " 999999"]],
    ["a gap that leads back", () => ["q1", " 0"]],
  ];
  for (const [what, harm] of harms) {
    test(`S179: ${what} does not stop the waiters behind it, and its claim still gets the lock`, async () => {
      await using testClients = new Clients();
      const client = testClients.client(server.port);
      const [near, far] = [testClients.backend(server.port), testClients.backend(server.port, { ticket: 1500 })];
      const holder = claimOf();
      const [harmed, behind] = [rivalOf(holder), rivalOf(holder)];
      await granted(near, holder);
      await refused(far, harmed);
      await refused(far, behind);
      await client.hset(keyOf(holder.name), ...harm(harmed.id));
      await near.release(holder);
      const order: string[] = [];
      const serve = async (claim: Claim, who: string): Promise<void> => {
        await waitFor(far, claim);
        order.push(who);
        await far.release(claim);
      };
      await Promise.all([serve(harmed, "harmed"), serve(behind, "behind")]);
      expect(order.toSorted()).toEqual(["behind", "harmed"]);
      expect(await client.hkeys(keyOf(holder.name))).toEqual(["s"]);
    });
  }

  test("S179: a holder's record that is invalid makes the lock foreign, because it is unknown how long it is held", async () => {
    await using testClients = new Clients();
    const client = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    const holder = claimOf({ limit: 2, ttlMs: 200 });
    await granted(backend, holder);
    await client.hset(keyOf(holder.name), `h${holder.id}`, "garbage");
    const fatal = { name: "LockBackendError", fatal: true };
    await eventually("its time is over by the state", async () => {
      const answer = await backend
        .attempt(rivalOf(holder, { limit: 2, queues: false }))
        .catch((error: unknown) => error);
      return answer instanceof Error ? (expect(answer).toMatchObject(fatal) ?? true) : undefined;
    });
    expect((await backend.renew([holder]))[0]?.held).toBe(false);
  });

  test("S175, S179: a last fence that scripts cannot count on from is refused, and never given twice", async () => {
    await using testClients = new Clients();
    const client = testClients.client(server.port);
    const backend = testClients.backend(server.port);
    for (const change of [{}, { mode: "shared" as const }, { limit: 2 }]) {
      const claim = claimOf(change);
      await client.hset(keyOf(claim.name), "s", `9007199254740993 ${Date.now() + 60_000}`);
      await expect(backend.attempt(claim)).rejects.toMatchObject({ fatal: true });
      await expect(backend.swap(claim, rivalOf(claim))).rejects.toMatchObject({ fatal: true });
    }
  });
});
