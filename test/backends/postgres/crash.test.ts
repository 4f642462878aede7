/** Servers that crash, and servers that are promoted: what was granted is not granted again. */
import { expect, test } from "vitest";
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
