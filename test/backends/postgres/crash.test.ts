/** Servers that crash, and servers that are promoted: what was granted is not granted again. */
import { expect, test } from "vitest";
import { postgres } from "../../../src/backends/postgres/index.ts";
import { startStandby } from "../../../src/lab/servers/postgres.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, startMigrated, waitFor } from "./lab.ts";

test("what was reported survives a crash of the server, whatever synchronous_commit is: grants, places in the queue and renewals", async () => {
  // Nothing is written to disk by itself while this test runs: what survives was flushed by its own commit.
  await using server = await startMigrated({ settings: { wal_writer_delay: "10s", wal_writer_flush_after: "0" } });
  await using clients = new Clients();
  const after = clients.backend(server.port);
  for (const setting of ["on", "off"]) {
    const before = clients.backend(server.port, {}, { options: `-c synchronous_commit=${setting}` });
    const claim = claimOf({ ttlMs: 600_000 });
    const [renewed, waiter] = [claimOf({ ttlMs: 600_000 }), rivalOf(claim)];
    const { fence } = await granted(before, claim);
    await granted(before, { ...renewed, ttlMs: 60_000 });
    await refused(before, waiter);
    // The last, so that no later commit flushes it.
    expect((await before.renew([renewed]))[0]?.held).toBe(true);
    await server.restart();
    await refused(after, rivalOf(claim, { queues: false }));
    expect((await after.renew([claim], [fence]))[0]?.held).toBe(true);
    const { held } = await after.query(renewed.name);
    expect(held[0]?.remainingMs, setting).toBeGreaterThan(60_000);
    expect((await after.query(claim.name)).pending).toHaveLength(1);
  }
});

test("a release that no claim waits for is not flushed: a crash may forget it, and then the lock is taken until its ttl ends, and no claim gets it twice", async () => {
  await using server = await startMigrated({ settings: { wal_writer_delay: "10s", wal_writer_flush_after: "0" } });
  await using clients = new Clients();
  const backend = clients.backend(server.port);
  const unflushed = "select pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn()";
  const [claim, lost] = [claimOf({ ttlMs: 30_000 }), claimOf({ ttlMs: 30_000 })];
  const first = await granted(backend, claim);
  // The server flushes by itself now and then: the next one is not.
  await eventually("a release is not flushed", async () => {
    await granted(backend, lost);
    expect(await backend.release(lost)).toBe("held");
    return (await server.sql(unflushed)) === "t" ? true : undefined;
  });
  expect(await backend.release(claim)).toBe("held");
  const next = rivalOf(claim, { ttlMs: 600_000 });
  const second = await granted(backend, next);
  expect(second.fence).toBeGreaterThan(first.fence);
  await granted(backend, lost);
  expect(await backend.release(lost)).toBe("held");
  await server.restart();
  // A grant that came after it brought it to the disk.
  expect((await backend.renew([claim, next], [first.fence, second.fence])).map(({ held }) => held)).toEqual([
    false,
    true,
  ]);
  const { held } = await backend.query(lost.name);
  for (const { remainingMs, id } of held)
    expect({ id, isLong: remainingMs > 30_000 }).toEqual({ id: lost.id, isLong: false });
  const rival = rivalOf(lost, { ttlMs: 30_000 });
  if (held.length > 0) await refused(backend, rival);
  // As if that time had passed.
  await server.sql("update holdfast.lease set until_us = 1 where until_us > 0");
  const third = await waitFor(backend, rival);
  expect(third.fence).toBeGreaterThan(held[0]?.fence ?? 0n);
});

test("a transaction of the user's on the same client is flushed, though the step that got into it need not be", async () => {
  await using server = await startMigrated();
  await using clients = new Clients();
  await server.sql("create table theirs (number integer)");
  const write = "insert into theirs values (1)";
  for (const [before, after] of [
    [write, "select"],
    ["select", write],
  ] as const) {
    for (const setting of ["on", "local"]) {
      const client = await clients.client(server.port);
      const backend = clients.own(postgres(client));
      const claim = claimOf();
      await granted(backend, claim);
      await client.query(`set synchronous_commit = ${setting}`);
      const steps = {
        "joins the queue": () => backend.attempt(rivalOf(claim)),
        "a release": () => backend.release(claim),
      };
      for (const [what, step] of Object.entries(steps)) {
        await client.query("begin");
        await client.query(before);
        await expect(step(), what).rejects.toThrow("in a transaction");
        await client.query(after);
        const { rows } = await client.query("show synchronous_commit");
        expect(rows, what).toEqual([{ synchronous_commit: setting }]);
        await client.query("rollback");
      }
      expect(await backend.release(claim)).toBe("held");
    }
  }
});

test("what must survive a crash is flushed with a release: the grant to the next, also in a batch; a minHold, an outcome, and the end of a long lease", async () => {
  await using server = await startMigrated({ settings: { wal_writer_delay: "10s", wal_writer_flush_after: "0" } });
  await using clients = new Clients();
  const backend = clients.backend(server.port);
  const afterCrash = async (what: () => Promise<unknown>): Promise<void> => {
    await what();
    await server.restart();
  };
  for (const count of [1, 2]) {
    const holder = claimOf();
    const waiters = Array.from({ length: count }, () => rivalOf(holder, { ttlMs: 600_000 }));
    await granted(backend, holder);
    for (const waiter of waiters) await refused(backend, waiter);
    await afterCrash(async () => expect(await backend.release(holder)).toBe("held"));
    expect((await backend.renew([waiters[0]!]))[0]?.held).toBe(true);
  }

  // A waiter's heartbeat, sent when its process hears again, may just have the row: that lock is passed over, and others are taken.
  const next = await eventually("no lock of a batch is passed over", async () => {
    const [held, alone] = [claimOf(), claimOf()];
    const waiter = rivalOf(held, { ttlMs: 600_000 });
    for (const claim of [held, alone]) await granted(backend, claim);
    await refused(backend, waiter);
    const batch = [alone, held];
    const names = batch.map(({ name }) => `'\\x${Buffer.from(name).toString("hex")}'::bytea`);
    const ids = batch.map(({ id }) => `'${id}'`);
    const call = `select holdfast.release_many(array[${names.join()}], array[${ids.join()}], array[0, 0], 0, false)`;
    return (await server.sql(call)) === "hh" ? waiter : undefined;
  });
  await server.restart();
  expect((await backend.renew([next]))[0]?.held).toBe(true);

  const kept = claimOf({ minHoldMs: 600_000 });
  await granted(backend, kept);
  await afterCrash(async () => expect(await backend.release(kept)).toBe("held"));
  expect((await backend.query(kept.name)).held[0]?.remainingMs).toBeGreaterThan(60_000);

  const done = claimOf();
  const { fence } = await granted(backend, done);
  await afterCrash(async () =>
    expect(await backend.release(done, { value: "done", keepMs: 600_000, fence })).toBe("held"),
  );
  expect((await backend.inspect(done.name)).outcome).toMatchObject({ value: "done" });

  const long = claimOf({ ttlMs: 3_600_000 });
  await granted(backend, long);
  await afterCrash(async () => expect(await backend.release(long)).toBe("held"));
  expect((await backend.query(long.name)).held).toEqual([]);
});

test("a promoted standby that has missed a lease: fences rise all the same, and with a quarantine no process gets the lock before that lease is over", async () => {
  await using server = await startMigrated({ settings: { wal_level: "replica" } });
  await using standby = await startStandby(server);
  await using clients = new Clients();
  const options = { failover: "quarantine", maxTtl: "60s" } as const;
  const [before, after, careless] = [
    clients.backend(server.port, options),
    clients.backend(standby.port, options),
    clients.backend(standby.port),
  ];
  await expect(before.attempt(claimOf({ ttlMs: 61_000 }))).rejects.toThrow(/maxTtl/u);
  const early = claimOf({ ttlMs: 60_000 });
  await granted(before, early);
  expect(await before.release(early)).toBe("held");
  const seen = `select timeline || ' ' || quarantine_ms from holdfast.store`;
  const wanted = await server.sql(seen);
  await eventually("the standby has it", async () => ((await standby.sql(seen)) === wanted ? true : undefined));
  await expect(after.attempt(claimOf({ ttlMs: 60_000 }))).rejects.toMatchObject({
    fatal: true,
    message: expect.stringMatching(/standby/u),
  });
  // From here on the standby gets nothing.
  await standby.sql("alter system set primary_conninfo = ''");
  await standby.sql("select pg_reload_conf()");
  await eventually("it no longer follows", async () => {
    const followers = await server.sql("select count(*) from pg_stat_replication");
    return followers === "0" ? true : undefined;
  });
  const claim = claimOf({ ttlMs: 60_000 });
  const { fence } = await granted(before, claim);
  await server.crash();
  await standby.promote();
  const rival = rivalOf(claim);
  expect((await refused(after, rival)).quarantineMs).toBeGreaterThan(0);
  // Who asks for no quarantine obeys the one that others asked for.
  expect((await refused(careless, claimOf({ queues: false }))).quarantineMs).toBeGreaterThan(0);
  expect(Number(await standby.sql("select quarantine_ms from holdfast.store"))).toBeGreaterThan(claim.ttlMs);
  // As if that time had passed.
  await standby.sql("update holdfast.store set changed_us = changed_us - quarantine_ms * 1000");
  const next = await waitFor(after, rival);
  expect(next.fence).toBeGreaterThan(fence);
  expect((await after.renew([claim]))[0]?.held).toBe(false);
});
