/** The message that a lock is wanted: only for holders that want to know, and never lost between their wish and the queue's beginning. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import {
  claimOf,
  Clients,
  eventually,
  granted,
  refused,
  rivalOf,
  startMigrated,
  tapInbox,
  waitFor,
  whenTold,
} from "./lab.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startMigrated();
});
afterAll(() => server.stop());

/** The claims that are reported as wanted. */
function listen(backend: Backend): readonly string[] {
  const wanted: string[] = [];
  backend.listen!({ lost: () => undefined, doubt: () => undefined, wanted: (id) => wanted.push(id) });
  return wanted;
}

async function isMarked({ id }: Claim): Promise<boolean> {
  return (await server.sql(`select count(*) from holdfast.lease where claim = '${id}' and inbox like '%!'`)) === "1";
}

/** The holders want to know, and the store has written it down. */
async function expects(backend: Backend, claims: readonly Claim[]): Promise<void> {
  for (const claim of claims) backend.expectWanted!(claim);
  await eventually("the store knows who wants to hear of it", async () =>
    (await Promise.all(claims.map(isMarked))).every(Boolean) ? true : undefined,
  );
}

async function isTold(wanted: readonly string[], { id }: Claim): Promise<void> {
  await eventually("the holder learns of it", () => (wanted.includes(id) ? true : undefined));
}

test("only the claim with which the queue begins sends a message that the lock is wanted", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const wanted = listen(a);
  const reader = claimOf({ mode: "shared" });
  const readers = [reader, rivalOf(reader)];
  for (const claim of readers) await granted(a, claim);
  const heard = await tapInbox(server, clients, reader);
  await expects(a, readers);
  await refused(b, rivalOf(reader, { mode: "exclusive", queues: false }));
  const writers = [1, 2, 3].map(() => rivalOf(reader, { mode: "exclusive", ttlMs: 60_000 }));
  for (const writer of writers) await refused(b, writer);
  // Asked again, it is the same place in the queue.
  await refused(b, writers[0]!);
  await whenTold(server, clients, heard, reader);
  expect(heard).toEqual(["wanted", "last"]);
  await eventually("all readers of the process learn it", () => (wanted.length >= 2 ? true : undefined));
  expect(wanted.toSorted()).toEqual(readers.map(({ id }) => id).toSorted());
});

test("a holder that does not want to know is sent nothing, and learns it from its renewal", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const holder = claimOf();
  await granted(a, holder);
  const heard = await tapInbox(server, clients, holder);
  await refused(b, rivalOf(holder));
  await whenTold(server, clients, heard, holder);
  expect(heard).toEqual(["last"]);
  expect(await a.renew([holder])).toMatchObject([{ held: true, wanted: true }]);
});

test("a holder that wants to know when the queue has begun already learns it at once", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const wanted = listen(a);
  const holder = claimOf();
  await granted(a, holder);
  await refused(b, rivalOf(holder));
  a.expectWanted!(holder);
  await isTold(wanted, holder);
});

test("whichever comes first, the wish or the queue, the holder learns of it", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const wanted = listen(a);
  const holders = Array.from({ length: 60 }, () => claimOf());
  for (const holder of holders) await granted(a, holder);
  // Nothing else would report it: these are not renewed.
  await Promise.all(
    holders.map(async (holder, at) => {
      for (let turns = at % 7; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      a.expectWanted!(holder);
      await refused(b, rivalOf(holder));
    }),
  );
  for (const holder of holders) await isTold(wanted, holder);
});

test("the wish outlives a repeated attempt and a late heartbeat of the same claim", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const wanted = listen(a);
  const holder = claimOf();
  await granted(a, holder);
  await expects(a, [holder]);
  await granted(a, holder);
  expect(await isMarked(holder)).toBe(true);
  await server.sql(
    `select holdfast.beat(array[l.lock], array[l.claim], rtrim(l.inbox, '!'), 0) from holdfast.lease as l where l.claim = '${holder.id}'`,
  );
  expect(await isMarked(holder)).toBe(true);
  await refused(b, rivalOf(holder));
  await isTold(wanted, holder);
});

test("the next holder is sent nothing because the last one wanted to know", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const holder = claimOf();
  const next = rivalOf(holder);
  await granted(a, holder);
  await expects(a, [holder]);
  await refused(a, next);
  expect(await a.release(holder)).toBe("held");
  await waitFor(a, next);
  const heard = await tapInbox(server, clients, next);
  await refused(b, rivalOf(holder));
  await whenTold(server, clients, heard, next);
  expect(heard).toEqual(["last"]);
});

test("a row that is locked is passed over and asked for again, with no effect on others", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const wanted = listen(a);
  const [locked, free] = [claimOf(), claimOf()];
  for (const claim of [locked, free]) await granted(a, claim);
  const locker = await clients.client(server.port);
  await locker.query("begin");
  await locker.query("select from holdfast.lease where claim = $1 for update", [locked.id]);
  a.expectWanted!(locked);
  await expects(a, [free]);
  expect(await isMarked(locked)).toBe(false);
  await locker.query("rollback");
  await eventually("it is asked for again", async () => ((await isMarked(locked)) ? true : undefined));
  await refused(b, rivalOf(locked));
  await isTold(wanted, locked);
});

test("a wish whose answer was lost is sent again", async () => {
  await using clients = new Clients();
  await using proxy = await startProxy({ port: server.port });
  const [a, b] = [clients.backend(proxy.port), clients.backend(server.port)];
  const wanted = listen(a);
  const holder = claimOf();
  await granted(a, holder);
  await refused(b, rivalOf(holder));
  let lost = 0;
  // The row of the answer is the letter "w" alone.
  proxy.onReply = (chunk) => (lost === 0 && chunk.includes("SELECT 1") && ++lost ? "reset" : undefined);
  a.expectWanted!(holder);
  await eventually("an answer is lost", () => (lost > 0 ? true : undefined));
  await isTold(wanted, holder);
});

test("a holder that wants to know still hears that its lease was ended by force", async () => {
  await using clients = new Clients();
  const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
  const doubted: unknown[] = [];
  a.listen!({ lost: () => undefined, doubt: (id) => doubted.push(id), wanted: () => undefined });
  const holder = claimOf();
  const { fence } = await granted(a, holder);
  await expects(a, [holder]);
  expect(await b.forceRelease!(holder.name, fence, "ops", "stuck")).toBe(true);
  await eventually("its holder hears of it", () => (doubted.includes(holder.id) ? true : undefined));
});
