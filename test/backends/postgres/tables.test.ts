/** The tables and functions themselves: how they are made, who may use them, and that they stay small. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LOCKS_MIGRATION, postgres } from "../../../src/backends/postgres/index.ts";
import { openBackend } from "../../../src/backends/postgres/open.ts";
import { statementsFor } from "../../../src/backends/shedlock/statements.ts";
import type { Backend } from "../../../src/contract/backend.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { findProgram } from "../../../src/lab/servers/programs.ts";
import { labPassword } from "../../../src/lab/servers/secret.ts";
import { claimOf, Clients, granted, refused, rivalOf, startAsked, urlOf } from "./lab.ts";

const VERSION_2 = readFileSync(new URL("version-2.sql", import.meta.url), "utf8");

let server: PostgresServer;
beforeAll(async () => {
  server = await startAsked();
});
afterAll(() => server.stop());

const run = promisify(execFile);

/** One of Postgres's own programs, on this database. */
async function client(program: "psql" | "pg_dump", database: string, ...args: string[]): Promise<void> {
  const path = join(dirname(await findProgram("psql")), program);
  const target = `postgres://postgres@127.0.0.1:${server.port}/${database}`;
  await run(path, ["-d", target, ...args], { env: { ...process.env, PGPASSWORD: labPassword() } });
}

let databases = 0;

/** An empty one. */
async function newDatabase(options = ""): Promise<string> {
  const name = `d${++databases}`;
  await server.sql(`create database ${name} template template0 ${options}`);
  return name;
}

describe.concurrent("migration", () => {
  test("many processes make the tables at once", async () => {
    const url = `${urlOf(server.port, "postgres", await newDatabase())}?migrate=true`;
    const opened = await Promise.all(Array.from({ length: 6 }, () => openBackend(url)));
    const claim = claimOf();
    await granted(opened[0]!, claim);
    await refused(opened[1]!, rivalOf(claim, { queues: false }));
    for (const backend of opened) await backend.close();
  });

  test("without tables the error says what to do, and `migrate` does it, with a client of the user's too", async () => {
    await using clients = new Clients();
    const database = await newDatabase();
    const url = urlOf(server.port, "postgres", database);
    await expect(openBackend(url)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("holdfast migrate"),
    });
    const pool = clients.pool(server.port, { connectionString: url });
    await expect(clients.own(postgres(pool)).attempt(claimOf())).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("migrate: true"),
    });
    await granted(clients.own(postgres(pool, { migrate: true })), claimOf());
    await (await openBackend(url)).close();
  });

  test("it keeps what is there, and functions of a later version are not replaced", async () => {
    await using clients = new Clients();
    const database = await newDatabase();
    const pool = clients.pool(server.port, { connectionString: urlOf(server.port, "postgres", database) });
    await pool.query(LOCKS_MIGRATION);
    const claim = claimOf();
    const backend = clients.own(postgres(pool));
    await granted(backend, claim);
    await pool.query(LOCKS_MIGRATION);
    await refused(backend, rivalOf(claim, { queues: false }));
    await pool.query("update holdfast.store set version = 99");
    await expect(pool.query(LOCKS_MIGRATION)).rejects.toMatchObject({ code: "LK005" });
    await refused(backend, rivalOf(claim, { queues: false }));
  });

  test("a role that may create schemas, and no more, makes the tables, upgrades them and uses them", async () => {
    await using clients = new Clients();
    const database = await newDatabase();
    await server.sql(
      `create role plain login password '${labPassword()}'; grant create on database ${database} to plain`,
    );
    const pool = clients.pool(server.port, { connectionString: urlOf(server.port, "plain", database) });
    await pool.query(`${LOCKS_MIGRATION}; ${VERSION_2}; update holdfast.store set version = 2`);
    const backend = clients.own(postgres(pool, { migrate: true, failover: "quarantine" }));
    const claim = claimOf({ ttlMs: 20_000 });
    await granted(backend, claim);
    expect((await pool.query("select version from holdfast.store")).rows).toEqual([{ version: 3 }]);
    await refused(backend, rivalOf(claim, { queues: false }));
    expect(await backend.release(claim)).toBe("held");
  });

  test("the SQL has no word that Postgres 11 does not know", () => {
    // It is run there by `npm run test:platforms`.
    expect(LOCKS_MIGRATION).not.toMatch(/\bmaterialized\b/iu);
    expect(JSON.stringify(statementsFor("shedlock"))).not.toMatch(/\bmaterialized\b/iu);
  });

  test("objects that another role made beforehand are refused", async () => {
    await using clients = new Clients();
    const database = await newDatabase();
    const pool = clients.pool(server.port, { connectionString: urlOf(server.port, "postgres", database) });
    await pool.query("create role stranger; create schema holdfast authorization stranger");
    await expect(pool.query(LOCKS_MIGRATION)).rejects.toMatchObject({ code: "LK003" });
    await pool.query("drop schema holdfast; drop role stranger");
  });

  test("every function has a search_path of its own, and no role may call one without being granted it", async () => {
    await using clients = new Clients();
    const database = await newDatabase();
    const pool = clients.pool(server.port, { connectionString: urlOf(server.port, "postgres", database) });
    await pool.query(LOCKS_MIGRATION);
    const { rows } = await pool.query(
      // The one that commits cannot have settings of its own: it runs with the caller's rights, and names nothing without its schema.
      `select p.proname, case when p.prokind = 'p' then not p.prosecdef
         else exists (select from unnest(p.proconfig) as c where c like 'search_path=pg_catalog, pg_temp') end as pinned,
         has_function_privilege('public', p.oid, 'execute') as open
       from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'holdfast'`,
    );
    expect(rows.length).toBeGreaterThan(15);
    expect(rows.filter(({ pinned, open }) => pinned !== true || open !== false)).toEqual([]);
  });
});

describe.concurrent("databases of every encoding", () => {
  test.each(["encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'", "encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'"])(
    "%s keeps names, holders and meta as they are",
    async (options) => {
      const backend = await openBackend(`${urlOf(server.port, "postgres", await newDatabase(options))}?migrate=true`);
      try {
        const claim = claimOf({ name: "a\0é🔒\\x", holder: "wëb:1", meta: { "ü\0": "🔑" } });
        await granted(backend, claim);
        const { heldBy } = await refused(backend, rivalOf(claim, { queues: false }));
        expect(heldBy[0]).toMatchObject({ name: claim.name, holder: "wëb:1", meta: claim.meta });
        expect((await backend.query("a\0é")).held).toHaveLength(1);
        expect((await backend.query("a\0e")).held).toHaveLength(0);
        expect(await backend.release(claim)).toBe("held");
      } finally {
        await backend.close();
      }
    },
  );
});

describe("fences and rows", () => {
  let database: string;
  beforeAll(async () => {
    database = await newDatabase();
  });

  test("while the counter is ahead of the clock, a grant reserves one fence, and the next is greater", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { connectionString: urlOf(server.port, "postgres", database) });
    const backend = clients.own(postgres(pool, { migrate: true }));
    const claim = claimOf();
    expect((await granted(backend, claim)).run).toBe(256);
    await backend.release(claim);
    const ahead = 2_000_000_000_000_000n;
    await pool.query("update holdfast.lease set last = $1", [String(ahead)]);
    expect(await granted(backend, claim)).toMatchObject({ fence: ahead + 1n, run: 1 });
    await backend.release(claim);
    const [holder, waiter] = [rivalOf(claim), rivalOf(claim)];
    expect(await granted(backend, holder)).toMatchObject({ fence: ahead + 2n, run: 1 });
    await refused(backend, waiter);
    await backend.release(holder);
    expect(await granted(backend, waiter)).toMatchObject({ fence: ahead + 3n, run: 1 });
  });

  test("the rows of unused locks go, and fences keep rising when a lock is used again", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { connectionString: urlOf(server.port, "postgres", database) });
    const backend = clients.own(postgres(pool, { migrate: true }));
    const claims = Array.from({ length: 5 }, () => claimOf());
    for (const claim of claims) await granted(backend, claim);
    const [used, , waited, ...unused] = claims;
    for (const claim of [used!, ...unused]) await backend.release(claim);
    await refused(backend, rivalOf(waited!));
    const ahead = 2_100_000_000_000_000n;
    await pool.query("update holdfast.lease set last = $1", [String(ahead)]);
    // As if all of it had happened an hour ago; then one lock is used again.
    await pool.query("update holdfast.lease set since_us = since_us - 3600000000 where until_us = 0");
    await granted(backend, used!);
    const clean = async (from: string): Promise<string> => {
      const { rows } = await pool.query("select holdfast.clean($1::text::bytea, 2, 600000) as next", [`\\x${from}`]);
      return String(rows[0]?.next);
    };
    let from = await clean("");
    while (from !== "") from = await clean(from);
    const { rows } = await pool.query("select encode(lock, 'escape') as name from holdfast.lease");
    const left = new Set(rows.map(({ name }) => String(name)));
    expect(claims.map(({ name }) => left.has(name))).toEqual([true, true, true, false, false]);
    expect(await granted(backend, rivalOf(unused[0]!))).toMatchObject({ fence: ahead + 1n });
  });

  test("a backup that is restored has its holders and waiters, and later fences are above all that were given since", async () => {
    await using clients = new Clients();
    const place = mkdtempSync(join(tmpdir(), "holdfast-backup-"));
    clients.later(() => rmSync(place, { recursive: true }));
    const [from, to] = [await newDatabase(), await newDatabase()];
    const open = (name: string): Backend =>
      clients.own(
        postgres(clients.pool(server.port, { connectionString: urlOf(server.port, "postgres", name) }), {
          migrate: true,
        }),
      );
    const [backend, restored] = [open(from), open(to)];
    const holder = claimOf();
    const waiter = rivalOf(holder);
    await granted(backend, holder);
    await refused(backend, waiter);
    const file = join(place, "backup.sql");
    await client("pg_dump", from, "-f", file);
    for (const claim of [holder, waiter]) expect(await backend.release(claim)).toBe("held");
    const since = await granted(backend, rivalOf(holder));
    await client("psql", to, "-Xq", "-v", "ON_ERROR_STOP=1", "-f", file);
    const { held, pending } = await restored.query(holder.name);
    expect([held, pending]).toMatchObject([[{ id: holder.id }], [{ id: waiter.id }]]);
    expect(await restored.release(holder)).toBe("held");
    expect((await granted(restored, waiter)).fence).toBeGreaterThan(since.fence + BigInt(since.run));
  });

  test("taking, handing over and releasing a lock 120 times needs one more page at most, without a vacuum", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { connectionString: urlOf(server.port, "postgres", database) });
    const backend = clients.own(postgres(pool, { migrate: true, listen: false }));
    await pool.query("alter table holdfast.lease set (autovacuum_enabled = false)");
    await pool.query("alter table holdfast.waiter set (autovacuum_enabled = false)");
    const size = async (table: string): Promise<number> => {
      const { rows } = await pool.query("select pg_relation_size($1::regclass) / 8192 as pages", [table]);
      return Number(rows[0]?.pages);
    };
    const [leases, waiters] = [await size("holdfast.lease"), await size("holdfast.waiter")];
    for (let turn = 0; turn < 120; turn++) {
      const claim = claimOf({ name: "busy" });
      const next = rivalOf(claim);
      await granted(backend, claim);
      await refused(backend, next);
      await backend.release(claim);
      await backend.release(next);
    }
    expect(await size("holdfast.lease")).toBeLessThanOrEqual(leases + 1);
    // On a busy machine a waiter asks again before the release, and stands in the queue then.
    expect(await size("holdfast.waiter")).toBeLessThanOrEqual(waiters + 1);
  });
});
