/** Tables of version 1 are upgraded while processes use them: nothing fails, no lease or place in the queue is lost, and no two hold at once. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { LOCKS_MIGRATION } from "../../../src/backends/postgres/index.ts";
import { openBackend } from "../../../src/backends/postgres/open.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, startMigrated, urlOf, waitFor } from "./lab.ts";

const VERSION_1 = readFileSync(new URL("version-1.sql", import.meta.url), "utf8");
const SECTIONS = 15;

test("many processes upgrade version 1 at once, while others take turns on a lock", async () => {
  await using server = await startMigrated();
  await using clients = new Clients();
  await server.sql(`${VERSION_1}; update holdfast.store set version = 1`);
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
      message: expect.stringContaining("of version 1"),
    });
    const opened = await Promise.all(
      Array.from({ length: 5 }, () => openBackend(`${urlOf(server.port)}?migrate=true`)),
    );
    for (const backend of opened) clients.own(backend);
    expect(await server.sql("select version from holdfast.store")).toBe("2");
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

test("a batch of releases that version 1 has begun is flushed, though it goes on with functions of version 2: it may have granted", async () => {
  await using server = await startMigrated();
  await using clients = new Clients();
  await server.sql(`${VERSION_1}; update holdfast.store set version = 1`);
  const backend = clients.backend(server.port);
  // In the order of their names: the first has to wait; the second is granted to the next, which looks at further tables.
  const batch = ["a", "b", "c", "d"].map((letter) => claimOf({ name: `batch-${letter}` }));
  for (const claim of batch) await granted(backend, claim);
  await refused(backend, rivalOf(batch[1]!));
  const [locker, version1] = [await clients.client(server.port), await clients.client(server.port)];
  await locker.query("begin");
  await locker.query("select from holdfast.lease where lock = convert_to($1, 'UTF8') and place = 0 for update", [
    batch[0]!.name,
  ]);
  const names = batch.map(({ name }) => Buffer.from(name));
  const ids = batch.map(({ id }) => id);
  const call =
    "select holdfast.release_many($1::bytea[], $2::text[], '{0,0,0,0}', 0, true) as letters, current_setting('synchronous_commit') as flushed";
  const answer = version1.query(call, [names, ids]);
  await eventually("it waits", async () => {
    const waits = await server.sql("select count(*) from pg_locks where not granted");
    return waits === "1" ? true : undefined;
  });
  await server.sql(LOCKS_MIGRATION);
  await locker.query("rollback");
  expect((await answer).rows).toEqual([{ letters: "hhhh", flushed: "on" }]);
});
