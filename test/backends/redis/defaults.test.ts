/** How long things last by default, as the documentation promises it, by the server's own clock. */
import { expect, test } from "vitest";
import { startRedis } from "../../../src/lab/servers/redis.ts";
import { makeWallClock } from "../../../src/lab/servers/wall-clock.ts";
import { namesOf } from "../../../src/backends/redis/keys.ts";
import { toSettings } from "../../../src/backends/redis/options.ts";
import { claimOf, Clients, granted, refused, rivalOf } from "./lab.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const keyOf = (name: string): string => namesOf("holdfast", false).lock(name);

test("an idle lock remembers its last fence for an hour, a waiter that says nothing keeps its place for ten seconds", async () => {
  await using server = await startRedis();
  await using testClients = new Clients();
  const client = testClients.client(server.port);
  const backend = testClients.backend(server.port);
  const nowMs = async (): Promise<number> => {
    const [seconds, micros] = (await client.time()) as unknown as [number | string, number | string];
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  };
  const claim = claimOf();
  await granted(backend, claim);
  await backend.release(claim);
  expect(await client.pttl(keyOf(claim.name))).toBeGreaterThan(HOUR_MS - 60_000);
  await granted(backend, claim);
  const waiter = rivalOf(claim);
  const askedMs = await nowMs();
  await refused(backend, waiter);
  const ticket = Number(((await client.hget(keyOf(claim.name), `w${waiter.id}`)) ?? "").slice(0, 13));
  expect(ticket).toBeGreaterThanOrEqual(askedMs + 10_000);
  expect(ticket).toBeLessThanOrEqual((await nowMs()) + 10_000);
});

test("who ended a lease by force can be seen for an hour, and no longer", async () => {
  const wallClock = await makeWallClock();
  await using server = await startRedis({ env: wallClock.env });
  await using testClients = new Clients();
  testClients.later(() => wallClock.stop());
  const backend = testClients.backend(server.port);
  const claim = claimOf();
  const { fence } = await granted(backend, claim);
  expect(await backend.forceRelease(claim.name, fence, "ops", "stuck")).toBe(true);
  wallClock.jump(HOUR_MS - 60_000);
  expect((await backend.query(claim.name)).forced).toMatchObject([{ fence, by: "ops", reason: "stuck" }]);
  wallClock.jump(60_000);
  expect((await backend.query(claim.name)).forced).toEqual([]);
});

test("a marker is kept for 30 days after it was last seen", async () => {
  await using server = await startRedis();
  await using testClients = new Clients();
  const client = testClients.client(server.port);
  const member = testClients.backend(server.port);
  await member.join({ quarantineMs: 1000, allowEviction: false });
  await member.vote(claimOf({ ttlMs: 1000 }), BigInt(Date.now()) * 1000n);
  const longest = Math.max(...(await Promise.all((await client.keys("*")).map((key) => client.pttl(key)))));
  expect(longest).toBeGreaterThan(30 * DAY_MS - HOUR_MS);
  expect(longest).toBeLessThanOrEqual(30 * DAY_MS + HOUR_MS);
});

test("a quarantine after a fail-over outlasts the longest ttl and a lag of twelve seconds", () => {
  expect(toSettings({ failover: "quarantine" })).toMatchObject({
    idleMs: HOUR_MS,
    ticketMs: 10_000,
    maxTtlMs: 30_000,
    maxLagMs: 12_000,
    quarantineMs: 42_000,
    checkReplicas: true,
  });
});
