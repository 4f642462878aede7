/** ShedLock's table, shared with a ShedLock that is played by its own statements; the real one is in judges/shedlock. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { SHEDLOCK_TABLE, shedlock, type ShedLockOptions } from "../../../src/backends/shedlock/index.ts";
import { toBackendError } from "../../../src/backends/shedlock/errors.ts";
import { migrateUrl, openBackend, openRenewer } from "../../../src/backends/shedlock/open.ts";
import type { Backend } from "../../../src/contract/backend.ts";
import { createLocks } from "../../../src/index.ts";
import { type PostgresServer, startPostgres } from "../../../src/lab/servers/postgres.ts";
import { granted, refused } from "../../../src/testing/attempts.ts";
import { newClaim, rivalOf } from "../../../src/testing/claim.ts";
import { eventually } from "../../../src/testing/eventually.ts";

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

let server: PostgresServer;
let pool: pg.Pool;
beforeAll(async () => {
  // Nothing is written to disk by itself while this test runs: what is flushed was flushed by its own commit.
  server = await startPostgres({ settings: { wal_writer_delay: "10s", wal_writer_flush_after: "0" } });
  pool = new pg.Pool({ connectionString: server.url, max: 4 });
  await pool.query(SHEDLOCK_TABLE);
});
afterAll(async () => {
  await pool?.end();
  await server?.stop();
});

function open(options: ShedLockOptions = {}): Backend {
  return shedlock(pool, options);
}

function url(query = ""): string {
  return `${server.url.replace("postgres:", "postgres+shedlock:")}${query}`;
}

/** What ShedLock 6 does with `usingDbTime()`, in the words of its protocol: a host is one holder. */
const java = {
  lock: async (name: string, atMostMs: number): Promise<boolean> => {
    const { rowCount } = await pool.query(
      `insert into shedlock (name, lock_until, locked_at, locked_by)
       values ($1, timezone('utc', current_timestamp) + $2::bigint * interval '1 ms', timezone('utc', current_timestamp), 'java-host')
       on conflict (name) do update set lock_until = excluded.lock_until, locked_at = excluded.locked_at, locked_by = excluded.locked_by
       where shedlock.lock_until <= timezone('utc', current_timestamp)`,
      [name, atMostMs],
    );
    return rowCount === 1;
  },
  unlock: async (name: string): Promise<void> => {
    await pool.query(
      "update shedlock set lock_until = timezone('utc', current_timestamp) where name = $1 and locked_by = 'java-host'",
      [name],
    );
  },
};

test("an error is explained by its own code only, and one that the server answered is not called silence", () => {
  const explained = (code: string): string =>
    toBackendError(Object.assign(new Error("odd"), { code, severity: "ERROR" }), "x", true).message;
  expect(explained("toString")).toContain("gave no answer (odd)");
  expect(explained("22003")).toContain("refused the step (odd). Nothing was changed");
  expect(explained("57P01")).toContain("gave no answer (odd)");
});

test("a table that a crash of the server would empty is refused", async () => {
  await pool.query(
    SHEDLOCK_TABLE.replaceAll("create table", "create unlogged table").replace("exists shedlock", "exists forgetful"),
  );
  const backend = open({ table: "forgetful" });
  await expect(backend.attempt(newClaim())).rejects.toMatchObject({
    fatal: true,
    message: expect.stringContaining("unlogged"),
  });
});

describe("beside ShedLock", () => {
  test("one whose clock is ahead does not keep the lock from others after a release", async () => {
    const backend = open();
    const claim = newClaim();
    await pool.query(
      `insert into shedlock select $1, n, n + interval '10 min', 'java-host' from timezone('utc', clock_timestamp()) as n`,
      [claim.name],
    );
    const { fence } = await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    expect((await granted(backend, rivalOf(claim))).fence).toBeGreaterThan(fence);
  });

  test("a row that is locked for long does not take the other leases along", async () => {
    const backend = open();
    const [stuck, other] = [newClaim({ ttlMs: 20_000 }), newClaim({ ttlMs: 20_000 })];
    for (const claim of [stuck, other]) await granted(backend, claim);
    const blocker = await pool.connect();
    await blocker.query("begin");
    await blocker.query("select from shedlock where name = $1 for update", [stuck.name]);
    const renewals = await backend.renew([stuck, other]);
    await blocker.query("commit");
    // Before anything is judged: the pool waits for it when it is closed.
    blocker.release();
    expect(renewals.map(({ held }) => held)).toEqual(["unknown", true]);
    expect((await backend.renew([stuck]))[0]?.held).toBe(true);
  });

  test("a row with times that never come neither blocks the others nor hides: it is refused, shown, and can be ended", async () => {
    const backend = open();
    const [until, since, free] = [newClaim(), newClaim(), newClaim()];
    const write = (name: string, lockUntil: string, lockedAt: string): Promise<unknown> =>
      pool.query("insert into shedlock values ($1, $2::timestamp, $3::timestamp, 'operator')", [
        name,
        lockUntil,
        lockedAt,
      ]);
    await write(until.name, "infinity", "2020-01-01");
    await write(since.name, "infinity", "infinity");
    await write(free.name, "-infinity", "infinity");
    for (const { name } of [until, since]) {
      expect((await refused(backend, newClaim({ name }))).heldBy).toHaveLength(1);
      const [holding] = (await backend.query(name)).held;
      expect(holding?.remainingMs).toBeGreaterThan(1e12);
      expect(await backend.forceRelease(name, holding!.fence, "ops", "by hand")).toBe(true);
      expect((await granted(backend, newClaim({ name }))).fence).toBeLessThan(10n ** 16n);
    }
    const first = await granted(backend, free);
    expect(await backend.release(free)).toBe("held");
    expect((await granted(backend, free)).fence).toBeGreaterThan(first.fence);
  });

  test("what one holds the other does not get, both ways, and fences rise over both", async () => {
    const backend = open();
    const claim = newClaim();
    expect(await java.lock(claim.name, 60_000)).toBe(true);
    const { heldBy, retryMs } = await refused(backend, claim);
    expect(heldBy).toMatchObject([{ holder: "java-host", mode: "exclusive", limit: 1 }]);
    expect(retryMs).toBeGreaterThan(0);
    await java.unlock(claim.name);
    const { fence } = await granted(backend, claim);
    expect(fence).toBeGreaterThan(heldBy[0]!.fence);
    expect(await java.lock(claim.name, 60_000)).toBe(false);
    // ShedLock unlocks by its host's name only: it cannot end ours.
    await java.unlock(claim.name);
    expect(await java.lock(claim.name, 60_000)).toBe(false);
    expect(await backend.release(claim)).toBe("held");
    expect(await java.lock(claim.name, 60_000)).toBe(true);
    expect((await backend.inspect(claim.name)).held[0]?.fence).toBeGreaterThan(fence);
    expect(await backend.renew([claim])).toMatchObject([{ held: false }]);
    await java.unlock(claim.name);
  });

  test("a claim that waits for a job of Java's gets the lock after it, and a lease of Java's can be ended by force", async () => {
    const locks = createLocks(open());
    const { name } = newClaim();
    expect(await java.lock(name, 60_000)).toBe(true);
    const waiting = locks.acquire(name, { wait: Infinity });
    const { held } = await open().inspect(name);
    expect(await open().forceRelease(name, held[0]!.fence, "ops", "the host is gone")).toBe(true);
    const lease = await waiting;
    expect(lease.fence).toBeGreaterThan(held[0]!.fence);
    expect(await lease.release()).toBe("released");
    await locks.close();
  });

  test("rows are never deleted, because ShedLock remembers which there are", async () => {
    const backend = open();
    const claim = newClaim();
    await granted(backend, claim);
    await backend.release(claim);
    const { rows } = await pool.query("select count(*)::int as n from shedlock where name = $1", [claim.name]);
    expect(rows[0]).toEqual({ n: 1 });
  });

  test("two claims of one host are two, as two processes on a host must be", async () => {
    const [a, b] = [open(), open()];
    const claim = newClaim({ holder: "same-host:1" });
    await granted(a, claim);
    const rival = rivalOf(claim);
    await refused(b, rival);
    expect(await b.release(rival)).toBe("absent");
    expect(await a.renew([claim])).toMatchObject([{ held: true }]);
  });
});

test("each renewal has its own answer, in the order asked", async () => {
  const backend = open();
  const [held, ended, retaken, never] = [newClaim(), newClaim(), newClaim(), newClaim()];
  for (const claim of [held, ended]) await granted(backend, claim);
  const { fence } = await granted(backend, retaken);
  await backend.release(ended);
  await granted(backend, rivalOf(ended));
  const { fence: right } = await granted(backend, held);
  const answers = await backend.renew([ended, held, never, retaken], [1n, right, 1n, fence - 1n]);
  expect(answers.map(({ held: is }) => is)).toEqual([false, true, false, false]);
  expect(answers[3]).toMatchObject({ reason: { kind: "retaken" } });
  expect(await backend.renew([])).toEqual([]);
});

test("a lease that ended before its minHold is held by no claim: it is neither renewed nor released again", async () => {
  const backend = open();
  const claim = newClaim({ minHoldMs: 60_000 });
  await granted(backend, claim);
  expect(await backend.release(claim)).toBe("held");
  expect((await backend.inspect(claim.name)).held).toMatchObject([{ remainder: "minHold", id: claim.id }]);
  expect(await backend.release(claim)).toBe("absent");
  expect(await backend.renew([claim])).toMatchObject([{ held: false }]);
  await refused(backend, claim);
  const unused = newClaim({ minHoldMs: 60_000 });
  await granted(backend, unused);
  expect(await backend.release({ ...unused, minHoldMs: 0 })).toBe("held");
  await granted(backend, rivalOf(unused));
});

test("who ended a lease by force, and why, is known until the next claim: by its renewal, and to all who look", async () => {
  const backend = open();
  const claim = newClaim();
  const { fence } = await granted(backend, claim);
  const reason = `deploy 17 hangs: ${"é".repeat(500)}`;
  expect(await backend.forceRelease(claim.name, fence, "ops on call", reason)).toBe(true);
  expect(await backend.forceRelease(claim.name, fence, "ops", "again")).toBe(false);
  expect(await backend.renew([claim])).toMatchObject([
    { held: false, reason: { kind: "forced", by: "ops_on_call", reason: expect.stringMatching(/^deploy 17/u) } },
  ]);
  expect(await backend.inspect(claim.name)).toMatchObject({ held: [], forced: [{ fence, by: "ops_on_call" }] });
  await granted(backend, rivalOf(claim));
  expect(await backend.renew([claim])).toMatchObject([{ held: false, reason: { kind: "gone" } }]);
  expect((await backend.inspect(claim.name)).forced).toEqual([]);
});

test("a claim that another process resumes is found by its id alone, with its minHold", async () => {
  const backend = open();
  const claim = newClaim({ minHoldMs: 60_000, holder: "here:1" });
  const { fence } = await granted(backend, claim);
  const resumed = { ...claim, holder: "there:2", minHoldMs: 0, resumes: true };
  expect(await backend.renew([resumed], [fence])).toMatchObject([{ held: true }]);
  expect((await granted(backend, resumed)).fence).toBe(fence);
  expect(await backend.release(resumed)).toBe("held");
  expect((await backend.inspect(claim.name)).held).toMatchObject([{ remainder: "minHold" }]);
});

test("what the table cannot keep is refused, and said", async () => {
  const backend = open();
  for (const [claim, words] of [
    [newClaim({ mode: "shared" }), "readers"],
    [newClaim({ limit: 2 }), "limit"],
    [newClaim({ name: "x".repeat(65) }), "64 characters"],
    // Postgres itself would cut these spaces, and lock "x".
    [newClaim({ name: `x${" ".repeat(64)}` }), "64 characters"],
    [newClaim({ name: "a\0b" }), "NUL"],
    [newClaim({ wantsOutcome: true }), "outcomes"],
  ] as const) {
    await expect(backend.attempt(claim)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining(words),
    });
  }
  await expect(backend.release(newClaim(), { value: "", keepMs: 1000, fence: 1n })).rejects.toThrow(/outcomes/u);
});

test.each([
  ["lock_until timestamptz", "lock_until timestamp", "lock_until timestamptz", /lock_until.*"timestamp"/u],
  ["milliseconds", "locked_at timestamp", "locked_at timestamp(3)", /fewer digits/u],
  ["no key", "primary key", "not null", /primary key/u],
  ["a short locked_by", "varchar(255)", "varchar(50)", /255/u],
  ["other columns", "locked_by", "owner_of_it", /columns/u],
])("a table in which times or holders would be read otherwise is refused: %s", async (_, find, replace, words) => {
  const table = `odd_${replace.replaceAll(/\W/gu, "_")}`;
  await pool.query(SHEDLOCK_TABLE.replace("shedlock", table).replace(find, replace));
  await expect(open({ table }).attempt(newClaim())).rejects.toMatchObject({
    fatal: true,
    message: expect.stringMatching(words),
  });
});

describe("by URL", () => {
  test("a table that is missing is made if `migrate` says so, by many at once; another name and schema are fine", async () => {
    await pool.query("create schema jobs");
    await expect(openBackend(url("?table=jobs.locks"))).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("is missing"),
    });
    const opened = await Promise.all([1, 2, 3, 4].map(() => openBackend(url("?table=jobs.locks&migrate=true"))));
    const claim = newClaim();
    await granted(opened[0]!, claim);
    await refused(opened[1]!, rivalOf(claim));
    const renewer = await openRenewer(opened[0]!.renewer?.data);
    expect(await renewer.renew([claim])).toMatchObject([{ held: true }]);
    await renewer.close();
    expect(await opened[0]!.release(claim)).toBe("held");
    for (const backend of opened) await backend.close();
    await eventually("all connections are closed", async () => {
      const { rows } = await pool.query("select from pg_stat_activity where application_name = 'holdfast'");
      return rows.length === 0 ? true : undefined;
    });
  });

  test.each(["?run=2", "?failover=quarantine", "?table=a;b", "?colour=red"])(
    "what means nothing here is refused: %s",
    async (query) => {
      await expect(openBackend(url(query))).rejects.toBeInstanceOf(TypeError);
    },
  );

  test("a server that refuses to make the table is not said to be away", async () => {
    await pool.query("create database strict");
    const client = new pg.Client(server.url.replace(/\/postgres$/u, "/strict"));
    await client.connect();
    await client.query(
      `create function no() returns event_trigger language plpgsql as $$begin raise 'not today'; end$$`,
    );
    await client.query(
      "create event trigger strict on ddl_command_start when tag in ('CREATE TABLE') execute function no()",
    );
    await client.end();
    await expect(migrateUrl(url().replace(/\/postgres$/u, "/strict"))).rejects.toMatchObject({
      message: expect.stringMatching(
        /database strict: Postgres refused the step \(not today\)\. Nothing was changed\.$/u,
      ),
    });
  });

  test("the error for a role without rights says which it needs, and synchronous_commit = off loses nothing", async () => {
    await pool.query("create role nobody_here login password 'secret-word'");
    const stranger = new URL(server.url);
    stranger.username = "nobody_here";
    stranger.password = "secret-word";
    const opened = await openBackend(`postgres+shedlock:${stranger.href.slice("postgres:".length)}`);
    await expect(opened.attempt(newClaim())).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining("insert and update"),
    });
    await opened.close();
    await pool.query(
      "grant select, insert, update on shedlock to nobody_here; alter role nobody_here set synchronous_commit = off",
    );
    const [before, again] = [
      await server.sql("select pg_current_wal_flush_lsn()"),
      await openBackend(`postgres+shedlock:${stranger.href.slice("postgres:".length)}`),
    ];
    await granted(again, newClaim());
    const { rows } = await pool.query("select pg_current_wal_flush_lsn() > $1::pg_lsn as flushed", [before]);
    expect(rows[0]).toEqual({ flushed: true });
    await again.close();
  });
});
