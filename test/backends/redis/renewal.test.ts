/** Thousands of renewals in few calls: each claim gets its own answer, whichever claims were renewed together before. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Claim, Renewal } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { claimOf, Clients } from "./lab.ts";

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

const COUNT = 1200;

/** Which of the claims were not renewed. */
function gone(claims: readonly Claim[], renewals: readonly Renewal[]): readonly string[] {
  expect(renewals).toHaveLength(claims.length);
  return claims.filter((_, at) => renewals[at]?.held !== true).map(({ id }) => id);
}

async function scriptCalls(): Promise<number> {
  const stats = await server.cli("info", "commandstats");
  return Number(/cmdstat_evalsha:calls=(\d+)/u.exec(stats)?.[1] ?? 0);
}

test("1,200 leases are three calls, and the answers follow their claims when some leave, join or change places", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const claims = Array.from({ length: COUNT }, (_, at) => claimOf({ ttlMs: at < 600 ? 60_000 : 50_000 }));
  await Promise.all(claims.map((claim) => backend.attempt(claim)));
  const alike = claims.slice(0, 600).concat(claims.slice(0, 600));
  await backend.renew(alike);
  const before = await scriptCalls();
  expect(gone(alike, await backend.renew(alike))).toEqual([]);
  expect(await scriptCalls()).toBe(before + 3);

  expect(gone(claims, await backend.renew(claims))).toEqual([]);
  const [first, middle, last] = [claims[0] as Claim, claims[700] as Claim, claims[COUNT - 1] as Claim];
  await backend.release(middle);
  expect(gone(claims, await backend.renew(claims))).toEqual([middle.id]);
  expect(gone(claims, await backend.renew(claims))).toEqual([middle.id]);
  // As a renewal group does it: the last takes the place of the one that left.
  const fewer = claims.slice(0, -1).map((claim) => (claim === middle ? last : claim));
  expect(gone(fewer, await backend.renew(fewer))).toEqual([]);
  await backend.release(first);
  const backwards = fewer.toReversed();
  expect(gone(backwards, await backend.renew(backwards))).toEqual([first.id]);
  expect(gone([first], await backend.renew([first]))).toEqual([first.id]);
});

test("each is renewed for the time that it asked for", async () => {
  await using testClients = new Clients();
  const backend = testClients.backend(server.port);
  const claims = [
    claimOf({ ttlMs: 70_000 }),
    claimOf({ ttlMs: 50_000, lockDelayMs: 40_000 }),
    claimOf({ ttlMs: 70_000 }),
  ];
  for (const claim of claims) await backend.attempt({ ...claim, ttlMs: 10_000, lockDelayMs: 0 });
  expect(gone(claims, await backend.renew(claims))).toEqual([]);
  for (const { name, ttlMs, lockDelayMs } of claims) {
    const [holding] = (await backend.query(name)).held;
    const keepMs = ttlMs + lockDelayMs;
    expect(holding?.remainingMs).toBeGreaterThan(keepMs - 10_000);
    expect(holding?.remainingMs).toBeLessThanOrEqual(keepMs);
  }
});
