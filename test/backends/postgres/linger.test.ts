/** `linger` over a real database: what a cycle costs, and what is written down. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLocks } from "../../../src/core/locks.ts";
import { postgres } from "../../../src/backends/postgres/index.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, startMigrated } from "./lab.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startMigrated();
});
afterAll(() => server.stop());

test("one statement serves as many cycles as a grant reserves fences", async () => {
  await using clients = new Clients();
  const pool = clients.pool(server.port);
  const locks = clients.own(createLocks(clients.own(postgres(pool, { run: 64 })), { ttl: "20m", linger: "2m" }));
  await (await locks.acquire("lock")).release();
  await eventually("the store knows who wants to hear of it", async () =>
    (await server.sql(`select count(*) from holdfast.lease where inbox like '%!'`)) === "1" ? true : undefined,
  );
  let statements = 0;
  const query = pool.query.bind(pool) as (...args: readonly unknown[]) => unknown;
  Object.assign(pool, {
    query: (...args: readonly unknown[]) => {
      statements++;
      return query(...args);
    },
  });
  // The rest of the first run.
  for (let cycle = 1; cycle < 64; cycle++) await (await locks.acquire("lock")).release();
  expect(statements).toBe(0);
  for (let cycle = 0; cycle < 640; cycle++) await (await locks.acquire("lock")).release();
  // A release with the next claim, and the wish to hear of others, for each run.
  expect(statements).toBeLessThanOrEqual(20);
});

test("what is written says how long it may linger, and what another process wrote may be anything", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const lingers = claimOf({ lingerMs: 40 });
  await granted(a, lingers);
  expect(await refused(b, rivalOf(lingers, { lingerMs: undefined }))).toMatchObject({ heldBy: [{ lingerMs: 40 }] });
  for (const text of ["-1", "0", "1.5", '"40"', "null", "[40]", "1e300"]) {
    await server.sql(`update holdfast.lease set detail = '["h",{},null,${text}]' where claim = '${lingers.id}'`);
    const { held } = await b.inspect(lingers.name);
    expect(held, text).toEqual([expect.not.objectContaining({ lingerMs: expect.anything() })]);
  }
});
