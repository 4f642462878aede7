/** The lock of a transaction: held exactly as long as that, by numbers that DistributedLock makes too. */
import postgresJs from "postgres";
import { afterAll, beforeAll, expect, test } from "vitest";
import { advisoryKey } from "../../../src/backends/postgres/advisory-key.ts";
import { withTransactionLock } from "../../../src/backends/postgres/index.ts";
import { LockTimeoutError } from "../../../src/contract/errors.ts";
import { startPgBouncer } from "../../../src/lab/servers/pgbouncer.ts";
import { type PostgresServer, startPostgres } from "../../../src/lab/servers/postgres.ts";
import { claimOf, Clients, eventually, urlOf } from "./lab.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

test("it is held until the transaction ends, by commit, by rollback, and by the end of its connection (S81)", async () => {
  await using clients = new Clients();
  const { name } = claimOf();
  const [a, b] = [await clients.client(server.port), await clients.client(server.port)];
  const pids = await a.query("select pg_backend_pid() as pid");
  const ends = [
    () => a.query("commit"),
    () => a.query("rollback"),
    () => server.sql(`select pg_terminate_backend(${Number(pids.rows[0]?.pid)})`),
  ];
  for (const end of ends) {
    await a.query("begin");
    await withTransactionLock(a, name);
    await b.query("begin");
    await expect(withTransactionLock(b, name, { wait: 0 })).rejects.toBeInstanceOf(LockTimeoutError);
    // The transaction goes on, and what it waits for comes.
    const waiting = withTransactionLock(b, name, { wait: Infinity });
    await end();
    await waiting;
    await b.query("commit");
  }
});

test("a wait that ends leaves the transaction as it was, its own lock_timeout too, and no hidden lock (S78)", async () => {
  await using clients = new Clients();
  const { name } = claimOf();
  const [a, b] = [await clients.client(server.port), await clients.client(server.port)];
  const hidden =
    "select count(*)::int as n from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted";
  for (const wait of [1, 2, 3, 5, 8]) {
    await a.query("begin");
    await withTransactionLock(a, name);
    await b.query("begin");
    await b.query("set local lock_timeout = '77s'");
    const waiting = withTransactionLock(b, name, { wait }).then(
      () => "taken",
      (error: unknown) => (error as Error).name,
    );
    await a.query("select pg_sleep($1)", [wait / 1000]);
    await a.query("commit");
    const result = await waiting;
    const { rows } = await b.query(hidden);
    expect([result, rows[0]?.n]).toEqual(result === "taken" ? ["taken", 1] : ["LockTimeoutError", 0]);
    expect((await b.query("show lock_timeout")).rows).toEqual([{ lock_timeout: "77s" }]);
    await b.query("commit");
  }
});

test("several at once in one transaction take turns: none is undone by another's end (pg and postgres.js)", async () => {
  await using clients = new Clients();
  const [busy, free] = [claimOf().name, claimOf().name];
  const [a, b] = [await clients.client(server.port), await clients.client(server.port)];
  const sql = postgresJs(urlOf(server.port), { max: 1, onnotice: () => undefined });
  clients.later(() => sql.end({ timeout: 1 }));
  await server.sql("create table if not exists done (n int)");
  await a.query("begin");
  await withTransactionLock(a, busy);
  const work = async (client: Parameters<typeof withTransactionLock>[0]): Promise<void> => {
    const taken = await Promise.allSettled([
      withTransactionLock(client, free, { wait: 0 }),
      withTransactionLock(client, busy, { wait: 20 }),
      withTransactionLock(client, `${free} too`, { wait: 1000 }),
    ]);
    expect(taken.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(taken[1]).toMatchObject({ reason: expect.any(LockTimeoutError) });
    await a.query("savepoint s");
    for (const name of [free, `${free} too`]) {
      await expect(withTransactionLock(a, name, { wait: 0 })).rejects.toBeInstanceOf(LockTimeoutError);
    }
  };
  // The transaction goes on after a wait that has ended, and what it writes is kept.
  await sql.begin(async (transaction) => {
    await work(transaction as never);
    await transaction.unsafe("insert into done values (1)");
  });
  await b.query("begin");
  await work(b);
  await b.query("insert into done values (1)");
  await b.query("commit");
  expect(await server.sql("select count(*) from done")).toBe("2");
});

test("it goes with a savepoint that is older than it, as what was written since does", async () => {
  await using clients = new Clients();
  const { name } = claimOf();
  const [a, b] = [await clients.client(server.port), await clients.client(server.port)];
  await a.query("begin");
  await a.query("savepoint nested");
  await withTransactionLock(a, name);
  await a.query("rollback to savepoint nested");
  await b.query("begin");
  await withTransactionLock(b, name, { wait: 0 });
});

test("readers hold it together, and it works behind PgBouncer and with postgres.js", async () => {
  await using clients = new Clients();
  await using bouncer = await startPgBouncer(server, { connections: 4 });
  const { name } = claimOf();
  const sql = postgresJs(urlOf(bouncer.port), { max: 2 });
  clients.later(() => sql.end({ timeout: 1 }));
  const a = await clients.client(bouncer.port);
  await a.query("begin");
  await withTransactionLock(a, name, { mode: "shared" });
  await sql.begin(async (transaction) => {
    await withTransactionLock(transaction as never, name, { mode: "shared", wait: 0 });
    await expect(withTransactionLock(transaction as never, name, { wait: 0 })).rejects.toBeInstanceOf(LockTimeoutError);
  });
  await a.query("commit");
});

test("a `sql` of postgres.js that renames columns takes it all the same, and no other is said to have it", async () => {
  await using clients = new Clients();
  const sql = postgresJs(urlOf(server.port), { max: 2, transform: postgresJs.pascal });
  clients.later(() => sql.end({ timeout: 1 }));
  const { name } = claimOf();
  await sql.begin(async (transaction) => {
    for (const wait of [0, "1s"] as const) await withTransactionLock(transaction as never, name, { wait });
  });
});

test("where it cannot hold it is refused: no transaction, a pool, `sql` outside of begin()", async () => {
  await using clients = new Clients();
  const sql = postgresJs(urlOf(server.port), { max: 1 });
  clients.later(() => sql.end({ timeout: 1 }));
  const client = await clients.client(server.port);
  for (const each of [client, clients.pool(server.port), sql, {}]) {
    await expect(withTransactionLock(each as never, "x")).rejects.toBeInstanceOf(TypeError);
  }
  await expect(withTransactionLock(client, "x", { wait: -1 as never })).rejects.toBeInstanceOf(TypeError);
  await eventually("nothing is left", async () => {
    const left = await server.sql("select count(*) from pg_locks where locktype = 'advisory'");
    return left === "0" ? true : undefined;
  });
});

test("names become the numbers that DistributedLock makes of them", () => {
  // Seven bits for each character, a zero, then ones.
  expect(advisoryKey("")).toEqual({ space: "two", high: 0x7fffffff, low: -1 });
  expect(advisoryKey("a")).toEqual({
    space: "two",
    high: Number(BigInt.asIntN(32, (0b1100001_0n << 24n) | 0xffffffn)),
    low: -1,
  });
  expect(advisoryKey("ABCDEFGHI")).toMatchObject({ space: "two" });
  expect(advisoryKey("00000000000000ff")).toEqual({ space: "one", key: 255n });
  expect(advisoryKey("ffffffffffffffff")).toEqual({ space: "one", key: -1n });
  expect(advisoryKey("00000001,ffffffff")).toEqual({ space: "two", high: 1, low: -1 });
  // SHA-1 of "abcdefghij" is d68c19a0a345b7ea…, and the first byte is the lowest.
  expect(advisoryKey("abcdefghij")).toEqual({ space: "one", key: BigInt.asIntN(64, 0xeab745a3a0198cd6n) });
  const all = ["", "a", "a\x7f", "aa", "ab", "é", "a".repeat(9), "a".repeat(10)].map((name) =>
    JSON.stringify(advisoryKey(name), text),
  );
  expect(new Set(all).size).toBe(all.length);
});

function text(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
