/** Small bugs in the scripts and around them that lived: each test here is red with one that `npm run mutate` put in. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Claim } from "../../src/backend.ts";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { namesOf } from "../../src/redis/names.ts";
import { claimOf, Desk, eventually, granted, refused, rivalOf } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const keyOf = ({ name }: Claim): string => namesOf("holdfast", false).lock(name);

describe("who is next", () => {
  test("nobody, until the minHold of the one that was released has passed, though somebody waits", async () => {
    await using desk = new Desk();
    const backend = desk.backend(server.port);
    const holder = claimOf({ minHoldMs: 60_000, holder: "first" });
    const waiter = rivalOf(holder, { minHoldMs: 0, holder: "second" });
    await granted(backend, holder);
    await refused(backend, waiter);
    expect(await backend.release(holder)).toBe("held");
    await refused(backend, waiter);
    expect((await backend.query(holder.name)).held.map(({ holder: who }) => who)).toEqual(["first"]);
  });

  test("not one whose ticket has lapsed, though its process listens", async () => {
    await using desk = new Desk();
    const admin = desk.client(server.port);
    const [near, far] = [desk.backend(server.port), desk.backend(server.port, { ticket: "30m" })];
    const holder = claimOf({ ttlMs: 3_600_000 });
    const [silent, next] = [rivalOf(holder, { holder: "silent" }), rivalOf(holder, { holder: "next" })];
    await granted(near, holder);
    await refused(far, silent);
    await refused(near, next);
    // As if its last sign of life were half an hour old.
    const [key, field] = [keyOf(holder), `w${silent.id}`];
    const [record, [seconds]] = await Promise.all([admin.hget(key, field), admin.time()]);
    await admin.hset(key, field, `${Number(seconds) - 1}000${record!.slice(13)}`);
    expect(await near.release(holder)).toBe("held");
    expect((await near.query(holder.name)).held.map(({ holder: who }) => who)).toEqual(["next"]);
  });

  test("a reader waits behind holders with a limit: their number is none of its business", async () => {
    await using desk = new Desk();
    const backend = desk.backend(server.port);
    const holder = claimOf({ limit: 3 });
    await granted(backend, holder);
    const reader = rivalOf(holder, { mode: "shared", limit: 1 });
    expect((await refused(backend, reader)).position).toBe(1);
  });

  test("each by its place among those who are still there", async () => {
    await using desk = new Desk();
    const backend = desk.backend(server.port);
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
});

describe("the hash of a lock", () => {
  test("stays one field while one claim renews it alone", async () => {
    await using desk = new Desk();
    const admin = desk.client(server.port);
    const backend = desk.backend(server.port);
    const claim = claimOf();
    await granted(backend, claim);
    const before = await admin.hget(keyOf(claim), "s");
    await eventually("its end has moved", async () => {
      expect(await backend.renew([claim])).toMatchObject([{ held: true }]);
      return (await admin.hget(keyOf(claim), "s")) === before ? undefined : true;
    });
    expect(await admin.hkeys(keyOf(claim))).toEqual(["s"]);
  });

  test("does not keep holders whose time is over", async () => {
    await using desk = new Desk();
    const admin = desk.client(server.port);
    const backend = desk.backend(server.port);
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
    ["a fence beyond all fences", "9999999999999999 0000000000000"],
    ["a line longer than any", "0000000000000001 0000000000000 1 x 1 9999999999999 a 1 1 999999999999999"],
    ["more waiters than places", "0000000000000001 0000000000000 1 x 1 9999999999999 a 3 1 2"],
    ["more holders than any", "0000000000000001 0000000000000 9999999999 x 1 9999999999999 a 0 1 0"],
  ])("with %s is none of ours, and stays as it is", async (_, state) => {
    await using desk = new Desk();
    const admin = desk.client(server.port);
    const backend = desk.backend(server.port);
    for (const claim of [claimOf(), claimOf({ mode: "shared" })]) {
      await admin.hset(keyOf(claim), "s", state);
      await expect(backend.attempt(claim)).rejects.toMatchObject({ code: "ERR_LOCK_BACKEND", fatal: true });
      expect(await admin.hgetall(keyOf(claim))).toEqual({ s: state });
    }
  });
});
