/** Tables of older versions are upgraded while processes use them: nothing fails, no lease or place in the queue is lost, and no two hold at once. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type pg from "pg";
import { LOCKS_MIGRATION } from "../../../src/backends/postgres/index.ts";
import { migrateUrl, openBackend } from "../../../src/backends/postgres/open.ts";
import { MIGRATE } from "../../../src/backends/postgres/migrate.ts";
import type { Claim } from "../../../src/contract/backend.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, startMigrated, urlOf, waitFor } from "./lab.ts";

const [VERSION_1, VERSION_2] = [1, 2].map((version) =>
  readFileSync(new URL(`version-${version}.sql`, import.meta.url), "utf8"),
);
const SECTIONS = 15;

/** A server with the tables and functions of an older version. */
async function startOld(version: number): Promise<PostgresServer> {
  const server = await startMigrated();
  await server.sql(`${VERSION_2}; ${version === 1 ? VERSION_1 : ""}; update holdfast.store set version = ${version}`);
  return server;
}

test.each([1, 2])("many processes upgrade version %i at once, while others take turns on a lock", async (version) => {
  await using server = await startOld(version);
  await using clients = new Clients();
  const source =
    "select md5(string_agg(prosrc, '' order by proname)) from pg_proc where proname in ('attempt', 'release', 'release_many')";
  const old = await server.sql(source);
  const running = Array.from({ length: 3 }, () => clients.backend(server.port));
  const kept = claimOf({ ttlMs: 600_000 });
  const waiter = rivalOf(kept);
  const { fence } = await granted(running[0]!, kept);
  await refused(running[1]!, waiter);

  const hot = claimOf();
  let [sections, inside, highest, isOver] = [0, 0, 0n, false];
  const loops = running.map(async (backend) => {
    while (!isOver) {
      const claim = rivalOf(hot);
      const lease = await waitFor(backend, claim);
      expect(++inside).toBe(1);
      expect(lease.fence).toBeGreaterThan(highest);
      highest = lease.fence;
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
      expect(await backend.release(claim)).toBe("held");
      sections++;
    }
  });
  const more = (from: number): Promise<true> =>
    eventually("they take turns", () => (sections >= from + SECTIONS ? true : undefined));
  try {
    await Promise.race([more(0), Promise.all(loops)]);
    expect(await server.sql(source)).toBe(old);
    await expect(openBackend(urlOf(server.port))).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining(`of version ${version}`),
    });
    const opened = await Promise.all(
      Array.from({ length: 5 }, () => openBackend(`${urlOf(server.port)}?migrate=true`)),
    );
    for (const backend of opened) clients.own(backend);
    expect(await server.sql("select version from holdfast.store")).toBe("3");
    expect(await server.sql(source)).not.toBe(old);
    await Promise.race([more(sections), Promise.all(loops)]);
    await refused(opened[0]!, rivalOf(kept, { queues: false }));
    expect((await running[0]!.renew([kept], [fence]))[0]?.held).toBe(true);
    expect(await running[0]!.release(kept)).toBe("held");
    expect((await waitFor(running[1]!, waiter)).fence).toBeGreaterThan(fence);
  } finally {
    isOver = true;
    await Promise.all(loops);
  }
});

/** An attempt that queues, in the middle of a transaction of this client's. */
async function queueOn(client: pg.Client, { id, name, ttlMs }: Claim): Promise<void> {
  const { rows } = await client.query(
    "select holdfast.attempt(convert_to($1, 'UTF8'), $2, false, 1, $3, 0, 0, 256, 10000, null, null, false, 0) as answer",
    [name, id, ttlMs],
  );
  expect(rows[0].answer).toMatch(/^refused /u);
}

/** Runs the old function, which has to wait for the upgrade, and then finds the claim as a waiter in row 0. */
async function meet<T>(server: PostgresServer, clients: Clients, waiter: Claim, old: () => Promise<T>): Promise<T> {
  const upgrading = await clients.client(server.port);
  await upgrading.query(`begin; ${LOCKS_MIGRATION}`);
  await queueOn(upgrading, waiter);
  const answer = old();
  await eventually("it waits", async () => {
    const waits = await server.sql("select count(*) from pg_locks where not granted");
    return waits === "1" ? true : undefined;
  });
  await upgrading.query("commit");
  expect(await server.sql("select version from holdfast.store")).toBe("3");
  return await answer;
}

test("a batch of releases that version 1 has begun is flushed, though it goes on with later functions: it may have granted", async () => {
  await using server = await startOld(1);
  await using clients = new Clients();
  const backend = clients.backend(server.port);
  // In the order of their names: the first has to wait; the second and the third are granted to the next.
  const batch = ["a", "b", "c", "d"].map((letter) => claimOf({ name: `batch-${letter}` }));
  for (const claim of batch) await granted(backend, claim);
  await refused(backend, rivalOf(batch[1]!));
  const version1 = await clients.client(server.port);
  const names = batch.map(({ name }) => Buffer.from(name));
  const ids = batch.map(({ id }) => id);
  const call =
    "select holdfast.release_many($1::bytea[], $2::text[], '{0,0,0,0}', 0, true) as letters, current_setting('synchronous_commit') as flushed";
  const { rows } = await meet(server, clients, rivalOf(batch[2]!), () => version1.query(call, [names, ids]));
  expect(rows).toEqual([{ letters: "hhhh", flushed: "on" }]);
});

test.each([1, 2])(
  "an attempt of version %i that meets a waiter in row 0 of the lock comes after it",
  async (version) => {
    await using server = await startOld(version);
    await using clients = new Clients();
    const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
    const holder = claimOf();
    const [first, second] = [rivalOf(holder), rivalOf(holder)];
    await granted(a, holder);
    await meet(server, clients, first, () => refused(b, second));
    const shown = await server.sql(
      `select w.shown::json ->> 'id' from holdfast.inspect(convert_to('${holder.name}', 'UTF8'), 0) as w (shown) where w.shown::json ->> 'kind' = 'waiting' order by w.shown::json ->> 'place'`,
    );
    expect(shown.split("\n")).toEqual([first.id, second.id]);
    for (const [leaves, comes] of [
      [holder, first],
      [first, second],
    ]) {
      expect((await a.query(holder.name)).held.map(({ id }) => id)).toEqual([leaves!.id]);
      expect(await a.release(leaves!)).toBe("held");
      expect((await a.query(holder.name)).held.map(({ id }) => id)).toEqual([comes!.id]);
    }
  },
);

test.each([1, 2])(
  "a release of version %i that meets a waiter in row 0 leaves it there: it learns that it is free by its heartbeat",
  async (version) => {
    await using server = await startOld(version);
    await using clients = new Clients();
    const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
    const holder = claimOf();
    const waiter = rivalOf(holder);
    const { fence } = await granted(a, holder);
    expect(await meet(server, clients, waiter, () => a.release(holder))).toBe("held");
    // One that asks now comes behind it.
    await refused(b, rivalOf(holder));
    expect((await granted(a, waiter)).fence).toBeGreaterThan(fence);
  },
);

test("an upgrade that cannot have the table of leases fails and changes nothing; later it is made, and leaves the limit for locks as it was", async () => {
  await using server = await startOld(2);
  await using clients = new Clients();
  const backend = clients.backend(server.port);
  const [reading, upgrading] = [await clients.client(server.port), await clients.client(server.port)];
  const claim = claimOf();
  await granted(backend, claim);
  await reading.query("begin; select from holdfast.lease");
  // It goes on for longer than a statement may take, and what it says is what the server said in the end.
  await expect(migrateUrl(`${urlOf(server.port)}?answer=1s`)).rejects.toMatchObject({
    message: expect.stringMatching(/waited too long for another transaction.* Nothing was changed\.$/u),
    cause: { code: "55P03" },
  });
  expect(await server.sql("select version from holdfast.store")).toBe("2");
  await refused(backend, rivalOf(claim));
  await reading.query("rollback");
  await upgrading.query(`begin; set local lock_timeout = '7s'; ${LOCKS_MIGRATION}`);
  expect((await upgrading.query("show lock_timeout")).rows).toEqual([{ lock_timeout: "7s" }]);
  await upgrading.query("commit");
  expect(await server.sql("select version from holdfast.store")).toBe("3");
  expect(await backend.release(claim)).toBe("held");
});

test("who upgrades waits for its turn, for longer than a statement may take", async () => {
  await using server = await startOld(2);
  await using clients = new Clients();
  const first = await clients.client(server.port);
  await first.query(`begin; ${MIGRATE}`);
  const opened = openBackend(`${urlOf(server.port)}?migrate=true&answer=2s`);
  await Promise.race([opened, new Promise((resolve) => setTimeout(resolve, 2500))]);
  await first.query("commit");
  await granted(clients.own(await opened), claimOf());
});
