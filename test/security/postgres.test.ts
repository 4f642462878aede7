/** The Postgres grants of SECURITY.md on a real server: they suffice for a guarded writer, and without them nothing is open. */
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { migrateFences, postgresMarks, withFence } from "../../src/fence/postgres/index.ts";
import { type PostgresServer, startPostgres } from "../../src/lab/servers/postgres.ts";
import { grants } from "./recipes.ts";

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

function poolOf(user?: string, password?: string): pg.Pool {
  const url = new URL(server.url);
  if (user !== undefined) url.username = user;
  if (password !== undefined) url.password = password;
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
