/** The Postgres grants of SECURITY.md on a real server: they suffice for locks and for a guarded writer, and without them nothing is open. */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrateFences, postgresMarks, withFence } from "../../src/fence/postgres/index.ts";
import { type PostgresServer, startPostgres } from "../../src/lab/servers/postgres.ts";
import { LOCKS_MIGRATION } from "../../src/backends/postgres/index.ts";
import type { Backend } from "../../src/contract/backend.ts";
import { openBackend } from "../../src/index.ts";
import { granted, refused } from "../../src/testing/attempts.ts";
import { newClaim, rivalOf } from "../../src/testing/claim.ts";
import { grants, lockGrants, type Zone, ZONES } from "./recipes.ts";

let server: PostgresServer;
const pools: pg.Pool[] = [];

beforeAll(async () => {
  server = await startPostgres();
  const owner = poolOf();
  await owner.query("create role writer login password 'w'; create role stranger login password 's'");
  await migrateFences(owner);
  await owner.query(grants("writer"));
});

afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await server?.stop();
});

function poolOf(user?: string, password?: string, database?: string): pg.Pool {
  const url = new URL(server.url);
  if (user !== undefined) url.username = user;
  if (password !== undefined) url.password = password;
  if (database !== undefined) url.pathname = `/${database}`;
  const pool = new pg.Pool({ connectionString: url.href, max: 2 });
  pools.push(pool);
  return pool;
}

test("the grants suffice to be guarded (S176)", async () => {
  const writer = poolOf("writer", "w");
  await withFence(writer, { name: "invoice:1", fence: 34n }, (client) => client.query("select 1"));
  expect(await postgresMarks(writer).advance("invoice:1", 33n)).toBe(34n);
});

test("and give no more: marks cannot be deleted, nothing can be made in the schema (S176)", async () => {
  const writer = poolOf("writer", "w");
  for (const deed of [
    "delete from holdfast.fence_mark",
    "truncate holdfast.fence_mark",
    "create table holdfast.mine (n int)",
    "create or replace function holdfast.check_fence(lock text, offered bigint) returns bigint language sql as 'select 1::bigint'",
    "create trigger mine before insert on holdfast.fence_mark for each row execute function holdfast.guard_row()",
    "drop schema holdfast cascade",
  ]) {
    await expect(writer.query(deed), deed).rejects.toMatchObject({ code: "42501" });
  }
});

test("a role without them can neither read nor raise a mark (S176)", async () => {
  const stranger = poolOf("stranger", "s");
  await expect(withFence(stranger, { name: "x", fence: 1n }, async () => {})).rejects.toMatchObject({ code: "42501" });
  await expect(postgresMarks(stranger).advance("x", 1n)).rejects.toMatchObject({ code: "42501" });
  await expect(stranger.query("select * from holdfast.fence_mark")).rejects.toMatchObject({ code: "42501" });
});

/** Each zone has a database of its own, and its role there. */
async function makeZones(): Promise<void> {
  for (const zone of ZONES) {
    await server.sql(`create role ${zone} login password 'pw-${zone}'`);
    await server.sql(`create database ${zone}`);
    const owner = poolOf(undefined, undefined, zone);
    await owner.query(LOCKS_MIGRATION);
    await owner.query(lockGrants(zone));
  }
}

function openAs(user: Zone, zone: Zone): Promise<Backend> {
  return openBackend(`postgres://${user}:pw-${user}@127.0.0.1:${server.port}/${zone}`);
}

test("the zone's own role has all the rights that locks need, and another zone's role can touch nothing (S179)", async () => {
  await makeZones();
  const [a, b] = [await openAs("billing", "billing"), await openAs("billing", "billing")];
  try {
    const claim = newClaim();
    const waiter = rivalOf(claim);
    const { fence } = await granted(a, claim);
    expect((await refused(b, waiter)).heldBy).toMatchObject([{ fence }]);
    expect(await a.renew([claim])).toMatchObject([{ held: true }]);
    const next = rivalOf(claim);
    expect(await a.swap?.(claim, next)).toMatchObject({ granted: false, released: "held" });
    const { fence: second } = await granted(b, waiter);
    expect(await a.forceRelease(claim.name, second, "ops", "stuck")).toBe(true);
    expect(await b.renew([waiter])).toMatchObject([{ held: false, reason: { kind: "forced", by: "ops" } }]);
    expect((await a.query("")).forced).toMatchObject([{ by: "ops", reason: "stuck" }]);
    const { fence: third } = await granted(a, next);
    expect((await b.inspect(claim.name)).held).toMatchObject([{ fence: third }]);
    expect(await a.release(next, { value: "done", keepMs: 60_000, fence: third })).toBe("held");
    expect(await b.attempt(rivalOf(claim, { wantsOutcome: true }))).toMatchObject({ outcome: { value: "done" } });
    expect(await b.forget?.(claim.name, third)).toBe(true);
    expect(await a.steal?.(next, "needed")).toMatchObject({ granted: true });
    const billing = poolOf("billing", "pw-billing", "billing");
    await billing.query(
      "select holdfast.clean('', 100, 1000), holdfast.store_facts(), holdfast.look_wanted('{}', '{}'), holdfast.expect_wanted('{}', '{}', ''), holdfast.release_many('{}', '{}', '{}', 0, false)",
    );
    for (const deed of [
      "select * from holdfast.lease",
      "delete from holdfast.lease",
      "update holdfast.store set floor = 0",
      "select holdfast.end_quarantine()",
      "select holdfast.promote('x', 0, '', 0)",
      "create table holdfast.mine (n int)",
      "drop function holdfast.now_us",
    ]) {
      await expect(billing.query(deed), deed).rejects.toMatchObject({ code: "42501" });
    }
    await expect(openAs("search", "billing")).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("SECURITY.md"),
    });
    const search = poolOf("search", "pw-search", "billing");
    await expect(search.query("select holdfast.store_facts()")).rejects.toMatchObject({ code: "42501" });
    expect(await a.release(next)).toBe("held");
  } finally {
    await a.close();
    await b.close();
  }
});
