/** The only waiter of a lock stands in row 0, beside the holder: every step finds it there, and no claim overtakes it. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { claimOf, Clients, granted, refused, rivalOf, startMigrated, tapInbox, whenTold } from "./lab.ts";

let server: PostgresServer;
let clients: Clients;
let [a, b]: Backend[] = [];
beforeAll(async () => {
  server = await startMigrated();
  clients = new Clients();
  [a, b] = [clients.backend(server.port), clients.backend(server.port)];
});
afterAll(async () => {
  await clients[Symbol.asyncDispose]();
  await server.stop();
});

function bytesOf({ name }: Claim): string {
  return `convert_to('${name}', 'UTF8')`;
}

/** Whether a waiter stands in row 0, how many stand in the queue, and whether row 0 says that there may be further rows. */
function places(claim: Claim): Promise<string> {
  return server.sql(
    `select (waiting).claim is not null, (select count(*) from holdfast.waiter where lock = ${bytesOf(claim)}), crowded
     from holdfast.lease where lock = ${bytesOf(claim)} and place = 0`,
  );
}

const IN_ROW = "t|0|f";
const NONE = "f|0|f";

/** One that holds, and one that waits in row 0. */
async function pair(terms: Partial<Claim> = {}, more: Partial<Claim> = {}): Promise<readonly [Claim, Claim]> {
  const holder = claimOf(terms);
  const waiter = rivalOf(holder, more);
  await granted(a!, holder);
  expect((await refused(b!, waiter)).position).toBe(1);
  expect(await places(holder)).toBe(IN_ROW);
  return [holder, waiter];
}

async function holders({ name }: Claim): Promise<readonly (string | undefined)[]> {
  return (await a!.query(name)).held.map(({ id }) => id);
}

async function waiters({ name }: Claim): Promise<readonly (string | undefined)[]> {
  return (await a!.query(name)).pending.map(({ id }) => id);
}

describe("who comes next", () => {
  test("a release gives it the lock, with a greater fence and one message, and the next waits in row 0 again", async () => {
    const holder = claimOf();
    const waiter = rivalOf(holder);
    const { fence } = await granted(a!, holder);
    await granted(b!, claimOf());
    await refused(b!, waiter);
    const news = await tapInbox(server, clients, waiter);
    expect(await a!.release(holder)).toBe("held");
    expect(await holders(holder)).toEqual([waiter.id]);
    expect(await places(holder)).toBe(NONE);
    await whenTold(server, clients, news, waiter);
    expect(news.filter((word) => word === "granted")).toHaveLength(1);
    expect((await granted(b!, waiter)).fence).toBeGreaterThan(fence);
    await refused(a!, rivalOf(holder));
    expect(await places(holder)).toBe(IN_ROW);
  });

  test("its message says its lease, and that no other claim waits", async () => {
    await granted(b!, claimOf());
    const [holder, waiter] = await pair();
    const heard = b!.watch!(waiter, new AbortController().signal);
    expect(await a!.release(holder)).toBe("held");
    const [held] = (await a!.query(holder.name)).held;
    expect(await heard).toMatchObject({ granted: true, fence: held!.fence });
    expect((await heard)?.wanted).toBeUndefined();
  });

  test("where none waits, nothing is sent: neither by an attempt, nor by a renewal or a release", async () => {
    const [lasting, claim] = [claimOf(), claimOf()];
    await granted(a!, lasting);
    const news = await tapInbox(server, clients, lasting);
    await granted(a!, claim);
    expect(await a!.renew([claim])).toMatchObject([{ held: true }]);
    expect(await a!.release(claim)).toBe("held");
    await refused(a!, rivalOf(lasting, { queues: false }));
    await whenTold(server, clients, news, lasting);
    expect(news).toEqual(["last"]);
  });

  test("its lease has its own terms, and counts from when it asked", async () => {
    const more = { ttlMs: 60_000, lockDelayMs: 3000, minHoldMs: 50_000, holder: "next", meta: { job: "b" } };
    const [holder, waiter] = await pair({ lockDelayMs: 1000 }, more);
    const asked = await server.sql(
      `select (waiting).asked_us from holdfast.lease where lock = ${bytesOf(holder)} and place = 0`,
    );
    expect(await a!.release(holder)).toBe("held");
    expect((await a!.query(holder.name)).held).toMatchObject([{ id: waiter.id, holder: "next", meta: { job: "b" } }]);
    const terms = await server.sql(
      `select until_us - ${asked}, since_us > ${asked}, since_us = fence, run, keep_ms, delay_ms, min_hold_ms
       from holdfast.lease where lock = ${bytesOf(holder)}`,
    );
    expect(terms).toBe("63000000|t|t|256|63000|3000|50000");
    expect(await b!.release(waiter)).toBe("held");
    expect((await a!.query(holder.name)).held).toMatchObject([{ id: waiter.id, remainder: "minHold" }]);
  });

  test("while the counter is ahead of the clock, it gets the next fence, and no run", async () => {
    const [holder] = await pair();
    const ahead = 2_000_000_000_000_000n;
    await server.sql(`update holdfast.lease set last = ${ahead} where lock = ${bytesOf(holder)}`);
    expect(await a!.release(holder)).toBe("held");
    expect(await server.sql(`select fence, run, last from holdfast.lease where lock = ${bytesOf(holder)}`)).toBe(
      `${ahead + 1n}|1|${ahead + 1n}`,
    );
  });

  test("a lease that is over is released as absent, and it comes next", async () => {
    const [holder, waiter] = await pair();
    await server.sql(`update holdfast.lease set until_us = 1 where lock = ${bytesOf(holder)}`);
    expect(await a!.release(holder)).toBe("absent");
    expect(await holders(holder)).toEqual([waiter.id]);
  });

  test("a lease that was released before its minHold cannot be released again for it", async () => {
    const holder = claimOf({ minHoldMs: 60_000 });
    await granted(a!, holder);
    expect(await a!.release(holder)).toBe("held");
    const waiter = rivalOf(holder);
    await refused(b!, waiter);
    expect(await places(holder)).toBe(IN_ROW);
    expect(await a!.release({ ...holder, minHoldMs: 0 })).toBe("absent");
    expect(await waiters(holder)).toEqual([waiter.id]);
  });

  test("a second one comes behind it, and the third behind that", async () => {
    const [holder, first] = await pair();
    const [second, third] = [rivalOf(holder), rivalOf(holder)];
    expect((await refused(a!, second)).position).toBe(2);
    expect(await places(holder)).toBe("f|2|t");
    expect((await refused(b!, third)).position).toBe(3);
    const order = [holder, first, second, third];
    for (const [at, claim] of order.slice(0, 3).entries()) {
      expect(await b!.release(claim)).toBe("held");
      expect(await holders(holder)).toEqual([order[at + 1]!.id]);
    }
    expect(await places(holder)).toBe(NONE);
  });

  test("one that asks again keeps its place", async () => {
    const [holder, waiter] = await pair();
    expect((await refused(b!, waiter)).position).toBe(1);
    expect(await waiters(holder)).toEqual([waiter.id]);
    await refused(a!, rivalOf(holder));
    expect((await waiters(holder))[0]).toBe(waiter.id);
  });

  test("readers, and those with a limit, are none of it", async () => {
    for (const terms of [{ mode: "shared" }, { limit: 2 }] as const) {
      const holder = claimOf(terms.mode === "shared" ? {} : terms);
      await granted(a!, holder);
      if (terms.mode !== "shared") await granted(a!, rivalOf(holder));
      await refused(b!, rivalOf(holder, terms));
      expect(await places(holder)).toMatch(/^f\|1\|t$/u);
    }
  });

  test("when the holder's time is over, no claim overtakes it", async () => {
    const [holder, waiter] = await pair();
    await server.sql(`update holdfast.lease set until_us = 1 where lock = ${bytesOf(holder)}`);
    await refused(a!, rivalOf(holder));
    expect(await holders(holder)).toEqual([waiter.id]);
  });

  test("its heartbeat lets it in when the holder's time is over, and keeps its place before that", async () => {
    const [holder, waiter] = await pair();
    const beat = (): Promise<string> =>
      server.sql(`select holdfast.beat(array[${bytesOf(holder)}], array['${waiter.id}'], null, 0)::json ->> 0`);
    expect(await beat()).toMatch(/^queued /u);
    expect(await waiters(holder)).toEqual([waiter.id]);
    await server.sql(`update holdfast.lease set until_us = 1 where lock = ${bytesOf(holder)}`);
    expect(await beat()).toMatch(/^granted /u);
  });

  test("one whose ticket is over gets nothing, and is in no claim's way", async () => {
    const [holder] = await pair();
    await server.sql(`update holdfast.lease set waiting.till_us = 1 where lock = ${bytesOf(holder)}`);
    expect(await waiters(holder)).toEqual([]);
    expect(await a!.release(holder)).toBe("held");
    expect(await holders(holder)).toEqual([]);
    await granted(a!, rivalOf(holder, { queues: false }));
    expect(await places(holder)).toBe(NONE);
  });
});

describe("what else is done on the lock", () => {
  test("it can leave, and another takes its place", async () => {
    const [holder, waiter] = await pair();
    expect(await b!.release(waiter)).toBe("queued");
    expect(await places(holder)).toBe(NONE);
    expect((await refused(b!, rivalOf(holder))).position).toBe(1);
    expect(await b!.release(waiter)).toBe("absent");
  });

  test("a renewal of the holder says that the lock is wanted, and all see who waits", async () => {
    const [holder, waiter] = await pair();
    expect(await a!.renew([holder])).toMatchObject([{ held: true, wanted: true }]);
    expect(await places(holder)).toBe(IN_ROW);
    expect(await waiters(holder)).toEqual([waiter.id]);
    expect((await a!.inspect(holder.name)).pending.map(({ id, position }) => [id, position])).toEqual([[waiter.id, 1]]);
    const look = (step: string): Promise<string> =>
      server.sql(
        `select holdfast.${step}(array[${bytesOf(holder)}], array['${holder.id}']${step === "look_wanted" ? "" : ", 'x'"})`,
      );
    expect(await look("look_wanted")).toBe("w");
    expect(await look("expect_wanted")).toBe("w");
  });

  test("a forced end gives it the lock", async () => {
    const [holder, waiter] = await pair();
    const [held] = (await a!.query(holder.name)).held;
    expect(await a!.forceRelease!(holder.name, held!.fence, "test", "test")).toBe(true);
    expect(await holders(holder)).toEqual([waiter.id]);
  });

  test("a holder that swaps comes behind it", async () => {
    const [holder, waiter] = await pair();
    const next = rivalOf(holder);
    expect(await a!.swap!(holder, next)).toMatchObject({ granted: false, released: "held" });
    expect(await holders(holder)).toEqual([waiter.id]);
    expect(await waiters(holder)).toEqual([next.id]);
  });

  test("a thief leaves it its place", async () => {
    const [holder, waiter] = await pair();
    const thief = rivalOf(holder);
    expect((await a!.steal!(thief, "test")).granted).toBe(true);
    expect(await holders(holder)).toEqual([thief.id]);
    expect(await a!.release(thief)).toBe("held");
    expect(await holders(holder)).toEqual([waiter.id]);
  });

  test("an outcome is for it, if it wants that; otherwise it has the lock", async () => {
    for (const wantsOutcome of [true, false]) {
      const [holder, waiter] = await pair({}, { wantsOutcome });
      const [held] = (await a!.query(holder.name)).held;
      expect(await a!.release(holder, { fence: held!.fence, keepMs: 60_000, value: "1" })).toBe("held");
      expect(await holders(holder)).toEqual(wantsOutcome ? [] : [waiter.id]);
      expect(await waiters(holder)).toEqual([]);
    }
  });

  test("a minHold keeps it waiting, and it comes next", async () => {
    const [holder, waiter] = await pair({ minHoldMs: 60_000 });
    expect(await a!.release(holder)).toBe("held");
    expect(await waiters(holder)).toEqual([waiter.id]);
    await server.sql(`update holdfast.lease set until_us = 1 where lock = ${bytesOf(holder)}`);
    await refused(a!, rivalOf(holder));
    expect(await holders(holder)).toEqual([waiter.id]);
  });

  test("the clean-up leaves its row while it lives", async () => {
    const [holder] = await pair();
    await server.sql(`update holdfast.lease set until_us = 1, since_us = 1 where lock = ${bytesOf(holder)}`);
    const clean = (): Promise<string> => server.sql(`select holdfast.clean(${bytesOf(holder)}, 1, 600000)`);
    await clean();
    expect(await places(holder)).toBe(IN_ROW);
    await server.sql(`update holdfast.lease set waiting.till_us = 1 where lock = ${bytesOf(holder)}`);
    await clean();
    expect(await places(holder)).toBe("");
  });
});

test("once a quarantine was asked for, a waiter that would hold for longer than that is not let in, and another is", async () => {
  await using own = await startMigrated();
  await using others = new Clients();
  const backend = others.backend(own.port);
  for (const [ttlMs, comes] of [
    [600_000, 0],
    [10_000, 1],
  ] as const) {
    const holder = claimOf({ ttlMs });
    await granted(backend, holder);
    await refused(backend, rivalOf(holder));
    await own.sql("update holdfast.store set quarantine_ms = 32000");
    expect(await backend.release(holder)).toBe("held");
    expect((await backend.query(holder.name)).held).toHaveLength(comes);
    const late = rivalOf(holder);
    if (comes === 0) await expect(backend.attempt(late)).rejects.toMatchObject({ fatal: true });
    const next = claimOf({ ttlMs: 10_000 });
    await granted(backend, next);
    if (comes === 0) await expect(backend.attempt(rivalOf(next, { ttlMs }))).rejects.toMatchObject({ fatal: true });
    await own.sql("update holdfast.store set quarantine_ms = 0");
  }
});
