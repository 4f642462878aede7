/** What goes wrong on one Postgres, by the ids of the fault catalogue (docs/safety.md), and what must hold all the same. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { postgres } from "../../../src/backends/postgres/index.ts";
import { LockLostError } from "../../../src/contract/errors.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import { startPgBouncer } from "../../../src/lab/servers/pgbouncer.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { claimOf, Clients, eventually, granted, refused, rivalOf, startMigrated, urlOf, waitFor } from "./lab.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startMigrated({ settings: { max_connections: "100" } });
});
afterAll(() => server.stop());

const hex = (name: string): string => Buffer.from(name).toString("hex");

/** How many leases the store has of this lock, also those that are over. */
async function leasesOf(name: string, of: PostgresServer = server): Promise<string> {
  return await of.sql(`select count(*) from holdfast.lease where lock = '\\x${hex(name)}' and until_us > 0`);
}

describe("connections", () => {
  test("S77: the lease of a host that vanished ends with its ttl, and its holder hears of it before the next one gets in", async () => {
    await using clients = new Clients();
    await using proxy = await startProxy({ port: server.port });
    const locks = clients.own(createLocks(clients.backend(proxy.port)));
    const name = claimOf().name;
    const lease = await locks.acquire(name, { ttl: "2s" });
    const reported = new Promise<unknown>((resolve) => {
      lease.signal.addEventListener("abort", () => resolve(lease.signal.reason), { once: true });
    });
    // Neither side sees an end: nothing arrives any more, as when the power of the host goes.
    proxy.drop("both");
    const next = clients.backend(server.port);
    const waiting = waitFor(next, claimOf({ name }));
    const first = await Promise.race([reported, waiting]);
    expect(first).toBeInstanceOf(LockLostError);
    expect((await waiting).fence).toBeGreaterThan(lease.fence);
    await proxy.heal();
  });

  test("S81: the server ends the connection of a holder, and the lease goes on", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { application_name: "s81" });
    const locks = clients.own(createLocks(clients.own(postgres(pool))));
    const { name } = claimOf();
    const lease = await locks.acquire(name);
    const ended = await server.sql(
      "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 's81'",
    );
    expect(Number(ended)).toBeGreaterThan(0);
    const other = clients.backend(server.port);
    await refused(other, claimOf({ name, queues: false }));
    lease.assertHeld();
    expect(await lease.release()).toBe("released");
    await granted(other, claimOf({ name }));
  });

  test("S80: as many lockers as the pool has connections, and more, all get their turn", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { max: 2 });
    const locks = clients.own(createLocks(clients.own(postgres(pool))));
    const name = claimOf().name;
    const visits = Array.from({ length: 8 }, (_, i) =>
      // Each with a meta of its own, so that each goes to the store.
      locks.run(name, { wait: Infinity, meta: { i: String(i) } }, async () => {
        await pool.query("select 1");
        return i;
      }),
    );
    expect(await Promise.all(visits)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  test("S80: waiting for a lock keeps no connection of the pool", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { max: 2 });
    const backend = clients.own(postgres(pool));
    const holder = claimOf();
    await granted(backend, holder);
    const waiters = [rivalOf(holder), rivalOf(holder), rivalOf(holder)];
    for (const waiter of waiters) await refused(backend, waiter);
    const stop = new AbortController();
    const news = waiters.map(async (waiter) => await backend.watch?.(waiter, stop.signal));
    const taken = await Promise.all([pool.connect(), pool.connect()]);
    for (const client of taken) client.release();
    stop.abort();
    await Promise.all(news);
  });

  test("S79: behind PgBouncer in transaction mode nothing is listened to, and leases hold all the same", async () => {
    await using clients = new Clients();
    await using bouncer = await startPgBouncer(server, { connections: 2 });
    const [a, b] = [clients.backend(bouncer.port), clients.backend(bouncer.port)];
    const holder = claimOf();
    const { fence } = await granted(a, holder);
    const waiter = rivalOf(holder);
    await refused(b, waiter);
    const waiting = waitFor(b, waiter);
    await eventually("no process is asked to send", async () => {
      const inbox = await server.sql(`select inbox is null from holdfast.waiter where claim = '${waiter.id}'`);
      return inbox === "t" ? true : undefined;
    });
    // A server connection that listens would give messages for one client to another.
    const through = clients.pool(bouncer.port, { max: 2 });
    const both = await Promise.all([through.connect(), through.connect()]);
    await Promise.all(both.map((client) => client.query("begin")));
    const channels = await Promise.all(both.map((client) => client.query("select pg_listening_channels()")));
    for (const client of both) client.release(true);
    expect(channels.flatMap(({ rows }) => rows)).toEqual([]);
    expect(await a.release(holder)).toBe("held");
    expect((await waiting).fence).toBeGreaterThan(fence);
  });
});

describe("transactions", () => {
  test("a client in a transaction of the user's: its answer is not believed", async () => {
    await using clients = new Clients();
    const client = await clients.client(server.port);
    const backend = clients.own(postgres(client, { listen: false }));
    const claim = claimOf();
    await client.query("begin");
    await expect(backend.attempt(claim)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringMatching(/transaction/u),
    });
    await client.query("rollback");
    await granted(clients.backend(server.port), rivalOf(claim));
  });

  test("the same with a pg that does not know the state of its transaction", async () => {
    await using clients = new Clients();
    const client = await clients.client(server.port);
    Object.defineProperty(client, "getTransactionStatus", { value: () => null });
    const backend = clients.own(postgres(client, { listen: false }));
    const claim = claimOf();
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    await client.query("begin");
    await expect(backend.attempt(claim)).rejects.toThrow(/transaction/u);
    await client.query("rollback");
  });

  test("a client that came back to the pool in a transaction: its answer is not believed, and it is closed", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { max: 1 });
    const backend = clients.own(postgres(pool, { listen: false }));
    const leaking = await pool.connect();
    await leaking.query("begin");
    leaking.release();
    const claim = claimOf();
    await expect(backend.attempt(claim)).rejects.toThrow(/transaction/u);
    await eventually("the rollback", async () => ((await leasesOf(claim.name)) === "0" ? true : undefined));
    await granted(backend, claim);
  });

  test.each(["repeatable read", "serializable"])("%s is refused, and nothing is granted", async (level) => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, {
      options: `-c default_transaction_isolation=${level.replace(" ", "\\ ")}`,
    });
    const backend = clients.own(postgres(pool, { listen: false }));
    const claim = claimOf();
    await expect(backend.attempt(claim)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringContaining(level),
    });
    expect(await leasesOf(claim.name)).toBe("0");
  });

  test("S78: a step that ends in the instant of the grant leaves no hidden lease", async () => {
    await using clients = new Clients();
    const backend = clients.backend(server.port, { listen: false }, { max: 6 });
    const { name } = claimOf();
    const claim = claimOf({ name });
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    const blocker = await clients.client(server.port);
    const pool = clients.pool(server.port, { max: 6, options: "-c statement_timeout=30" });
    let ended = 0;
    const attempt = async (): Promise<string> => {
      const mine = claimOf({ name });
      try {
        const { rows } = await pool.query(
          "select holdfast.attempt($1::text::bytea, $2, false, 1, 60000, 0, 0, 1, 0, null, '[]', false, 0) as answer",
          [`\\x${hex(name)}`, mine.id],
        );
        return rows[0]?.answer.startsWith("granted") === true ? await backend.release(mine) : "refused";
      } catch (error) {
        expect((error as pg.DatabaseError).code).toBe("57014");
        ended++;
        return `ended, ${await backend.release(mine)}`;
      }
    };
    const seen = new Set<string>();
    for (let round = 0; round < 12; round++) {
      await blocker.query("begin");
      await blocker.query("select from holdfast.lease where lock = $1::text::bytea for update", [`\\x${hex(name)}`]);
      const attempts = Array.from({ length: 5 }, attempt);
      // The row becomes free about when their time ends; in the last round not before.
      const before = ended;
      if (round < 11) await new Promise((resolve) => setTimeout(resolve, 24 + round));
      else await eventually("all have ended", () => (ended === before + attempts.length ? true : undefined));
      await blocker.query("commit");
      for (const what of await Promise.all(attempts)) seen.add(what);
    }
    expect([...seen].filter((what) => !["held", "refused", "ended, absent"].includes(what))).toEqual([]);
    expect(seen).toContain("ended, absent");
    expect(await leasesOf(name)).toBe("0");
  });
});

describe("lost replies", () => {
  test("a grant whose reply is lost is found by the claim's id, with the same fence", async () => {
    await using clients = new Clients();
    await using proxy = await startProxy({ port: server.port });
    const backend = clients.backend(proxy.port, { listen: false });
    const claim = claimOf();
    await granted(backend, claimOf());
    proxy.onReply = (chunk) => (chunk.includes("granted") ? "reset" : undefined);
    await expect(backend.attempt(claim)).rejects.toThrow(/may or may not/u);
    await proxy.heal();
    const { held } = await clients.backend(server.port).query(claim.name);
    expect(held).toHaveLength(1);
    expect((await granted(backend, claim)).fence).toBe(held[0]?.fence);
  });

  test("a release whose reply is lost ends the lease once, and the successor is not hurt", async () => {
    await using clients = new Clients();
    await using proxy = await startProxy({ port: server.port });
    const backend = clients.backend(proxy.port, { listen: false });
    const [claim, successor] = [claimOf(), claimOf()];
    const next = { ...successor, name: claim.name };
    await granted(backend, claim);
    proxy.onReply = (chunk) => (chunk.includes("held") ? "reset" : undefined);
    await expect(backend.release(claim)).rejects.toThrow(/may or may not/u);
    await proxy.heal();
    const other = clients.backend(server.port);
    await granted(other, next);
    expect(await backend.release(claim)).toBe("absent");
    expect((await other.renew([next]))[0]?.held).toBe(true);
  });

  test("a release is not sent before the answer to the attempt that it undoes", async () => {
    await using clients = new Clients();
    await using proxy = await startProxy({ port: server.port });
    const backend = clients.backend(proxy.port, { listen: false });
    const claim = claimOf();
    // So that there is a connection for each of the following.
    await Promise.all([1, 2, 3, 4].map(() => granted(backend, claimOf())));
    const seen: string[] = [];
    proxy.onRequest = (chunk) => {
      if (!chunk.includes(claim.id)) return undefined;
      seen.push(chunk.includes("holdfast.release") ? "release" : "attempt");
      return seen.length === 1 ? "hold" : undefined;
    };
    const attempt = backend.attempt(claim);
    const released = backend.release(claim);
    await eventually("the attempt is held back", () => (proxy.holding > 0 ? true : undefined));
    // On other connections, and sent later: a release would have been seen by now.
    for (let times = 0; times < 3; times++) await backend.query(claim.name);
    expect(seen).toEqual(["attempt"]);
    proxy.deliver();
    expect((await attempt).granted).toBe(true);
    expect(await released).toBe("held");
    expect(await leasesOf(claim.name)).toBe("0");
  });
});

describe("messages", () => {
  test("a message on our channel by a sender that does not know the claim's id is not heard", async () => {
    await using clients = new Clients();
    const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
    const doubts: unknown[] = [];
    b.listen?.({ lost: (id) => doubts.push(id), doubt: (id) => void (id !== undefined && doubts.push(id)) });
    const holder = claimOf();
    await granted(a, holder);
    const waiter = rivalOf(holder);
    await refused(b, waiter);
    const inbox = await eventually("the waiter listens", async () => {
      const found = await server.sql(`select inbox from holdfast.waiter where claim = '${waiter.id}'`);
      return found === "" ? undefined : found;
    });
    const stop = new AbortController();
    let news: unknown = "none";
    const watching = b.watch?.(waiter, stop.signal).then((answer) => (news = answer));
    const seal = "0".repeat(24);
    const shown = waiter.id.slice(0, 8);
    for (const text of [`${shown} granted 9000000000000000 1 ${seal}`, `${shown} forced ${seal}`, "x".repeat(7000)]) {
      await server.sql(`select pg_notify('${inbox}', '${text}')`);
    }
    // A true message after them: messages of one sender come in order, and this one shows that the others were read.
    expect(await a.release(holder)).toBe("held");
    await watching;
    expect(news).toMatchObject({ granted: true });
    expect((news as { fence: bigint }).fence).toBeLessThan(9_000_000_000_000_000n);
    expect(doubts).toEqual([]);
    expect(await b.release(waiter)).toBe("held");
  });

  test("a listener whose connection ends is replaced, and its waiters are served meanwhile", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { application_name: "ears" });
    const [a, b] = [clients.backend(server.port), clients.own(postgres(pool))];
    const holder = claimOf();
    await granted(a, holder);
    const waiter = rivalOf(holder);
    await refused(b, waiter);
    const listeners = "from pg_stat_activity where application_name = 'ears' and query like 'listen %'";
    const count = async (): Promise<number> => Number(await server.sql(`select count(*) ${listeners}`));
    await eventually("it listens", async () => ((await count()) === 1 ? true : undefined));
    const waiting = waitFor(b, waiter);
    await server.sql(`select pg_terminate_backend(pid) ${listeners}`);
    expect(await a.release(holder)).toBe("held");
    await waiting;
    await eventually("it listens again", async () => ((await count()) === 1 ? true : undefined));
  });

  test("messages that hang for a while are not taken for a pooler: it listens again", async () => {
    await using clients = new Clients();
    await using proxy = await startProxy({ port: server.port });
    const warnings: unknown[] = [];
    const note = (warning: { readonly code?: unknown }): unknown => warnings.push(warning.code);
    process.on("warning", note);
    let held = 0;
    // The message to ourselves, which names our channel. The second one comes through.
    proxy.onReply = (chunk) => (chunk.includes("holdfast_") && ++held === 1 ? "hold" : undefined);
    const pool = clients.pool(proxy.port, { application_name: "hanging" });
    const b = clients.own(postgres(pool));
    const [holder, a] = [claimOf(), clients.backend(server.port)];
    await granted(a, holder);
    await refused(b, rivalOf(holder));
    await eventually("another message to ourselves", () => (held > 1 ? true : undefined));
    await eventually("it listens", async () => {
      const listening = "from pg_stat_activity where application_name = 'hanging' and query like 'listen %'";
      return (await server.sql(`select count(*) ${listening}`)) === "1" ? true : undefined;
    });
    process.removeListener("warning", note);
    expect(warnings).toEqual([]);
  });

  test("close() waits neither for a connection that hangs while it is made, nor for the message to ourselves", async () => {
    await using clients = new Clients();
    await using proxy = await startProxy({ port: server.port });
    const pool = clients.pool(proxy.port);
    const backend = postgres(pool, { answer: "10m" });
    // From the first message to ourselves on, nothing comes back any more.
    let hangs = false;
    proxy.onReply = (chunk) => {
      hangs ||= chunk.includes("holdfast_");
      return hangs ? "hold" : undefined;
    };
    const first = backend.attempt(claimOf()).catch(() => undefined);
    await eventually("the message to ourselves hangs", () => (hangs ? true : undefined));
    await first;
    let answered = false;
    const asked = backend
      .attempt(claimOf())
      .catch(() => undefined)
      .then(() => (answered = true));
    // It says that a lease may be left, because that attempt was not answered.
    await expect(backend.close()).rejects.toThrow(/may be left/u);
    expect(answered).toBe(false);
    await proxy.stop();
    await asked;
  });
});

test("a URL with a password that is wrong says so, and shows neither", async () => {
  const { openBackend } = await import("../../../src/backends/postgres/open.ts");
  const url = urlOf(server.port).replace(/:[^:@]+@/u, ":wrong-secret@");
  await expect(openBackend(url)).rejects.toMatchObject({
    fatal: true,
    message: expect.not.stringContaining("wrong-secret"),
  });
});
