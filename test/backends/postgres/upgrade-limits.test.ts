/** Steps of version 2 that run to their end in the middle of an upgrade, and tables that others use meanwhile. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { LOCKS_MIGRATION } from "../../../src/backends/postgres/index.ts";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, startMigrated } from "./lab.ts";

const VERSION_2 = readFileSync(new URL("version-2.sql", import.meta.url), "utf8");

async function startOld(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  const server = await startMigrated({ settings });
  await server.sql(`${VERSION_2}; update holdfast.store set version = 2`);
  return server;
}

/** A release with an outcome on the only connection of the backend, so that the next one begins with the old functions at once. */
async function keepOutcome(backend: Backend, claim: Claim): Promise<void> {
  const { fence } = await granted(backend, claim);
  expect(await backend.release(claim, { fence, keepMs: 60_000, value: "1" })).toBe("held");
}

/** Runs the old function, which has to wait for the upgrade, and then finds the claim as a waiter in row 0. */
async function meet<T>(
  server: PostgresServer,
  clients: Clients,
  { id, name, wantsOutcome }: Claim,
  old: () => Promise<T>,
): Promise<T> {
  const upgrading = await clients.client(server.port);
  await upgrading.query(`begin; ${LOCKS_MIGRATION}`);
  const { rows } = await upgrading.query(
    "select holdfast.attempt(convert_to($1, 'UTF8'), $2, false, 1, 600000, 0, 0, 256, 600000, null, null, $3, 0) as answer",
    [name, id, wantsOutcome === true],
  );
  expect(rows[0].answer).toMatch(/^refused /u);
  const answer = old();
  await eventually("it waits", async () =>
    (await server.sql("select count(*) from pg_locks where not granted")) === "1" ? true : undefined,
  );
  // The holder's time may pass while the old step waits.
  await upgrading.query("update holdfast.lease set until_us = 1 where convert_from(lock, 'UTF8') like 'over-%'");
  await upgrading.query("commit");
  return await answer;
}

test("who waits for an outcome in row 0 is not let in by its heartbeat, when a release of version 2 has kept one", async () => {
  await using server = await startOld();
  await using clients = new Clients();
  const backend = clients.backend(server.port, { listen: false }, { max: 1 });
  await keepOutcome(backend, claimOf());
  const holder = claimOf();
  const waiter = rivalOf(holder, { wantsOutcome: true });
  const { fence } = await granted(backend, holder);
  const kept = { fence, keepMs: 60_000, value: "1" };
  expect(await meet(server, clients, waiter, () => backend.release(holder, kept))).toBe("held");
  const beat = `select holdfast.beat(array[convert_to('${holder.name}', 'UTF8')], array['${waiter.id}'], null, 0)::json ->> 0`;
  // Its work would be done a second time.
  expect(await server.sql(beat)).not.toMatch(/^granted /u);
});

test("a claim that an attempt of version 2 has granted, though it waits in row 0, is not granted again when it leaves", async () => {
  await using server = await startOld();
  await using clients = new Clients();
  const backend = clients.backend(server.port);
  const holder = claimOf({ name: "over-1" });
  const claim = rivalOf(holder);
  await granted(backend, holder);
  await meet(server, clients, claim, () => granted(backend, claim));
  expect(await backend.release(claim)).toBe("held");
  expect((await backend.query(claim.name)).held).toEqual([]);
});

test("behind a reader that an attempt of version 2 has granted, the waiter in row 0 gets the lock for itself alone", async () => {
  await using server = await startOld();
  await using clients = new Clients();
  const backend = clients.backend(server.port);
  const holder = claimOf({ name: "over-2" });
  const [waiter, reader] = [rivalOf(holder), rivalOf(holder, { mode: "shared" })];
  await granted(backend, holder);
  await meet(server, clients, waiter, () => granted(backend, reader));
  expect(await backend.release(reader)).toBe("held");
  expect((await backend.query(holder.name)).held).toMatchObject([{ id: waiter.id, mode: "exclusive" }]);
  await refused(backend, rivalOf(holder, { mode: "shared" }));
});

test("a release lets none in from row 0 who waits for an outcome that steps of version 2 have kept", async () => {
  await using server = await startOld();
  await using clients = new Clients();
  const backend = clients.backend(server.port, { listen: false }, { max: 1 });
  await keepOutcome(backend, claimOf());
  const holder = claimOf();
  const [waiter, next] = [rivalOf(holder, { wantsOutcome: true }), rivalOf(holder)];
  const { fence } = await granted(backend, holder);
  await meet(server, clients, waiter, () => backend.release(holder, { fence, keepMs: 60_000, value: "1" }));
  // Another step that is late: only the functions are the old ones.
  await server.sql(VERSION_2.replace(/^alter table [^;]*drop column[^;]*;/mu, ""));
  await granted(backend, next);
  await server.sql(LOCKS_MIGRATION);
  expect(await backend.release(next)).toBe("held");
  expect((await backend.query(holder.name)).held).toEqual([]);
  expect(await backend.attempt(waiter)).toMatchObject({ granted: false, outcome: { value: "1" } });
});

test("two who upgrade by themselves, without the command, take turns", async () => {
  await using server = await startOld();
  await using clients = new Clients();
  const [first, second] = [await clients.client(server.port), await clients.client(server.port)];
  await first.query(`begin; ${LOCKS_MIGRATION}`);
  const upgraded = second.query(LOCKS_MIGRATION);
  await eventually("it waits", async () =>
    (await server.sql("select count(*) from pg_locks where not granted")) === "1" ? true : undefined,
  );
  await first.query("commit");
  await upgraded;
  expect(await server.sql("select version from holdfast.store")).toBe("3");
});

test("an upgrade does not keep the table of leases while it waits for that of the queue: a holder can renew", async () => {
  await using server = await startOld();
  await using clients = new Clients();
  const backend = clients.backend(server.port);
  const claim = claimOf();
  await granted(backend, claim);
  const [vacuums, upgrading] = [await clients.client(server.port), await clients.client(server.port)];
  // As VACUUM and ANALYZE do.
  await vacuums.query("begin; lock table holdfast.waiter in share update exclusive mode");
  // It would wait until this is over, with the table of leases for itself.
  await upgrading.query(`set lock_timeout = '5s'; ${LOCKS_MIGRATION}`);
  expect((await backend.renew([claim]))[0]?.held).toBe(true);
  await vacuums.query("rollback");
});

test("an upgrade ends an automatic clean-up of the table of leases, as each other change of a table does", async () => {
  await using server = await startOld({ autovacuum_naptime: "1s" });
  await using clients = new Clients();
  await server.sql(`insert into holdfast.lease (lock, place) select convert_to('lock-' || i, 'UTF8'), 0 from generate_series(1, 20000) as i;
    alter table holdfast.lease set (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1);
    update holdfast.lease set last = 2`);
  await eventually("it cleans", async () =>
    (await server.sql("select count(*) from pg_stat_progress_vacuum where relid = 'holdfast.lease'::regclass")) === "1"
      ? true
      : undefined,
  );
  const upgrading = await clients.client(server.port);
  await upgrading.query(LOCKS_MIGRATION);
  expect(await server.sql("select version from holdfast.store")).toBe("3");
});
