/** Outcomes and steal where only real transactions show it: races for one row, how many messages are sent, what stays in the tables. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import type { Claim } from "../../../src/contract/backend.ts";
import {
  claimOf,
  Clients,
  eventually,
  granted,
  refused,
  rivalOf,
  startMigrated,
  tapInbox,
  waitFor,
  whenTold,
} from "./lab.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startMigrated();
});
afterAll(() => server.stop());

const KEEP_MS = 600_000;

function bytes(name: string): string {
  return `\\x${Buffer.from(name).toString("hex")}`;
}

function wanting(like: Claim): Claim {
  return rivalOf(like, { wantsOutcome: true });
}

test.each(["free when it asked", "held when it asked"])(
  "a claim that waits for the row while a release keeps an outcome gets the outcome and not the lock: %s",
  async (kind) => {
    await using clients = new Clients();
    const backend = clients.backend(server.port);
    const holder = claimOf();
    await granted(backend, holder);
    if (kind === "free when it asked") await backend.release(holder);
    const other = await clients.client(server.port);
    const call = async (statement: string, ...values: string[]): Promise<string> => {
      const { rows } = await other.query(`select holdfast.${statement} as answer`, [
        bytes(holder.name),
        holder.id,
        ...values,
      ]);
      return String(rows[0]?.answer);
    };
    await other.query("begin");
    // Where it was free, it is taken in the same transaction: the attempt sees a free lock before it waits, and after.
    const answer = await call("attempt($1::text::bytea, $2, false, 1, 60000, 0, 0, 1, 0, null, '[]', false, 0)");
    const fence = answer.split(" ")[1]!;
    expect(await call("finish($1::text::bytea, $2, 0, 0, $3, 60000, 'done')", fence)).toBe("held");
    const asked = backend.attempt(wanting(holder));
    await eventually("the attempt waits for the row", async () => {
      const activity = "from pg_stat_activity where wait_event_type = 'Lock' and query like '%holdfast.attempt%'";
      return (await server.sql(`select count(*) ${activity}`)) === "1" ? true : undefined;
    });
    await other.query("commit");
    expect(await asked).toMatchObject({ granted: false, outcome: { value: "done", fence: BigInt(fence) } });
  },
);

test("a release with an outcome whose reply is lost is asked for again, and is the same release", async () => {
  await using clients = new Clients();
  await using proxy = await startProxy({ port: server.port });
  const backend = clients.backend(proxy.port, { listen: false });
  const claim = claimOf();
  const { fence } = await granted(backend, claim);
  const outcome = { value: "kept once", keepMs: KEEP_MS, fence };
  proxy.onReply = (chunk) => (chunk.includes("held") ? "reset" : undefined);
  await expect(backend.release(claim, outcome)).rejects.toThrow(/may or may not/u);
  await proxy.heal();
  const successor = rivalOf(claim);
  await granted(backend, successor);
  expect(await backend.release(claim, outcome)).toBe("held");
  expect((await backend.renew([successor]))[0]?.held).toBe(true);
  expect((await backend.inspect(claim.name)).outcome).toMatchObject({ value: "kept once", fence });
});

test("an outcome is one message for each process, however many of its claims wait for it", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const holder = claimOf({ ttlMs: 60_000 });
  const { fence } = await granted(a, holder);
  const waiters = [wanting(holder), wanting(holder), wanting(holder)];
  for (const waiter of waiters) await refused(b, waiter);
  const stays = claimOf();
  await granted(b, stays);
  const heard = await tapInbox(server, clients, waiters[0]!);
  const stop = AbortSignal.timeout(60_000);
  const news = waiters.map((waiter) => b.watch!(waiter, stop));
  expect(await a.release(holder, { value: "all", keepMs: KEEP_MS, fence })).toBe("held");
  expect(await Promise.all(news)).toEqual([undefined, undefined, undefined]);
  expect(stop.aborted).toBe(false);
  await whenTold(server, clients, heard, stays);
  expect(heard).toEqual(["outcome", "last"]);
  for (const waiter of waiters) expect(await b.attempt(waiter)).toMatchObject({ outcome: { value: "all" } });
});

test("an outcome outlives the idle time of its lock, and goes when its own time is over", async () => {
  await using clients = new Clients();
  const pool = clients.pool(server.port);
  const backend = clients.backend(server.port);
  const claim = claimOf();
  const { fence } = await granted(backend, claim);
  await backend.release(claim, { value: "long", keepMs: KEEP_MS, fence });
  const clean = async (): Promise<string> => {
    await pool.query("select holdfast.clean(''::bytea, 100000, 1000)");
    const { rows } = await pool.query(
      "select (select count(*) from holdfast.lease where lock = $1::text::bytea) || ' ' || (select count(*) from holdfast.outcome where lock = $1::text::bytea) as left",
      [bytes(claim.name)],
    );
    return String(rows[0]?.left);
  };
  // As if the lock had not been used for an hour.
  await pool.query("update holdfast.lease set since_us = since_us - 3600000000 where lock = $1::text::bytea", [
    bytes(claim.name),
  ]);
  expect(await clean()).toBe("1 1");
  expect((await backend.inspect(claim.name)).outcome?.value).toBe("long");
  await pool.query("update holdfast.lease set done_us = done_us - 601000000 where lock = $1::text::bytea", [
    bytes(claim.name),
  ]);
  expect(await clean()).toBe("0 0");
});

test("inspect() says how long the quarantine lasts, and changes nothing", async () => {
  await using clients = new Clients();
  const pool = clients.pool(server.port);
  const careful = clients.backend(server.port, { failover: "quarantine", maxTtl: "60s" });
  const { name } = claimOf();
  const before = await server.sql("select s::text from holdfast.store as s");
  expect((await careful.inspect(name)).quarantineMs).toBeUndefined();
  await pool.query("update holdfast.store set timeline = 'FFFFFFFF'");
  try {
    expect((await careful.inspect(name)).quarantineMs).toBe(62_000);
    expect(await server.sql("select timeline || quarantine_ms from holdfast.store")).toBe("FFFFFFFF0");
    const thief = claimOf({ name });
    expect((await careful.steal!(thief, "why")).granted).toBe(false);
    expect((await careful.inspect(name)).quarantineMs).toBeGreaterThan(30_000);
  } finally {
    await pool.query(
      "update holdfast.store set timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8), quarantine_ms = 0, changed_us = 0",
    );
  }
  expect(await server.sql("select s::text from holdfast.store as s")).toBe(before);
});

test("a steal tells every holder, and a claim that waits beside a thief that reads comes in with it", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const doubts: (string | undefined)[] = [];
  const writer = claimOf({ ttlMs: 60_000 });
  await granted(a, writer);
  await refused(b, rivalOf(writer, { mode: "shared", ttlMs: 60_000 }));
  a.listen!({ lost: () => undefined, doubt: (id) => doubts.push(id) });
  const thief = rivalOf(writer, { mode: "shared" });
  expect((await b.steal!(thief, "needed")).granted).toBe(true);
  await eventually("the victim hears of it", () => (doubts.includes(writer.id) ? true : undefined));
  expect((await a.renew([writer]))[0]).toMatchObject({ held: false, reason: { kind: "forced", reason: "needed" } });
  expect((await b.inspect(writer.name)).held).toHaveLength(2);
});

test("a claim that waits is granted once, also when the thief was refused", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const holder = claimOf({ limit: 2, ttlMs: 60_000 });
  for (const claim of [holder, rivalOf(holder)]) await granted(a, claim);
  const waiter = rivalOf(holder);
  await refused(b, waiter);
  await expect(b.steal!(rivalOf(holder, { limit: 3 }), "other limit")).rejects.toThrow(/limit 2/u);
  expect((await b.inspect(holder.name)).held).toHaveLength(2);
  await a.release(holder);
  await waitFor(b, waiter);
});
