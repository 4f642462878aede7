/** What goes wrong on one Postgres, by the ids of the fault catalogue (docs/safety.md), and what must hold all the same. */
import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { once } from "node:events";
import pg from "pg";
import postgresJs from "postgres";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { postgres } from "../../../src/backends/postgres/index.ts";
import { openBackend } from "../../../src/backends/postgres/open.ts";
import type { Backend, Claim } from "../../../src/contract/backend.ts";
import { systemClock } from "../../../src/contract/clock.ts";
import { LockLostError } from "../../../src/contract/errors.ts";
import { createLocks } from "../../../src/core/locks.ts";
import { startProxy } from "../../../src/lab/proxy.ts";
import { startPgBouncer } from "../../../src/lab/servers/pgbouncer.ts";
import type { PostgresServer } from "../../../src/lab/servers/postgres.ts";
import { DIST } from "../../dist.ts";
import {
  claimOf,
  Clients,
  eventually,
  granted,
  refused,
  rivalOf,
  startMigrated,
  urlOf,
  waitFor,
  WAITERS,
} from "./lab.ts";

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

  test("S77: postgres.js comes back after its connections fell silent, and leaves none when it is closed", async () => {
    await using proxy = await startProxy({ port: server.port });
    const backend = await openBackend(`${urlOf(proxy.port)}?client=postgres&answer=3s`);
    const claim = claimOf();
    await granted(backend, claim);
    // All that its pool may have: a statement without an answer keeps its connection, and the next one opens another.
    await Promise.all(Array.from({ length: 12 }, () => backend.query("nothing")));
    proxy.halfOpen();
    await proxy.heal();
    await eventually("it works again", async () => {
      const [renewal] = await backend.renew([claim]);
      return renewal?.held === true ? true : undefined;
    });
    expect(await backend.release(claim)).toBe("held");
    await backend.close();
  });

  test("a process ends by itself after close(), also when its connections have fallen silent", async () => {
    const byUrl = (query: string): string => `
      const locks = await connect(process.env.URL_OF_LOCKS + "?answer=5m&${query}", { ttl: "5s" });`;
    // Such a pool keeps no process alive; only what we open beside it could.
    const onPool = `
      const pool = new pg.Pool({ connectionString: process.env.URL_OF_LOCKS, allowExitOnIdle: true, connectionTimeoutMillis: 3000 }).on("error", () => {});
      const locks = createLocks(postgres(pool, { answer: "3s" }), { ttl: "5s" });`;
    const endOf = async (open: string, name: string): Promise<unknown> => {
      await using proxy = await startProxy({ port: server.port });
      const body = `import pg from "pg"; import { connect, createLocks } from "${DIST}/index.js";
        import { postgres } from "${DIST}/backends/postgres/index.js"; ${open}
        await locks.acquire("${name}", { renew: false });
        console.log("held");
        process.stdin.once("data", async () => {
          // Several connections wait for an answer.
          for (let at = 0; at < 3; at++) locks.inspect("${name}").catch(() => undefined);
          await locks.close({ grace: 0, force: true }).catch(() => undefined);
          process.stdin.destroy();
          setTimeout(() => process.exit(3), 60_000).unref();
        });`;
      const child = spawn(process.execPath, ["--input-type=module", "-e", body], {
        stdio: ["pipe", "pipe", "inherit"],
        env: { ...process.env, URL_OF_LOCKS: urlOf(proxy.port) },
      });
      const closed = once(child, "close");
      await once(child.stdout, "data");
      proxy.drop("both");
      child.stdin.write("close");
      const how = await closed;
      await proxy.heal();
      return how;
    };
    const ends = [
      endOf(byUrl("client=pg"), "silent-pg"),
      endOf(byUrl("client=postgres"), "silent-js"),
      endOf(onPool, "silent-pool"),
    ];
    expect(await Promise.all(ends)).toEqual(Array(3).fill([0, null]));
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

  test("S79: behind PgBouncer in transaction mode nothing is listened to, which is said once, and leases hold all the same", async () => {
    const warnings: unknown[] = [];
    const hear = (warning: Error): void => void warnings.push((warning as NodeJS.ErrnoException).code);
    process.on("warning", hear);
    onTestFinished(() => void process.off("warning", hear));
    await using clients = new Clients();
    await using bouncer = await startPgBouncer(server, { connections: 2 });
    const [a, b] = [clients.backend(bouncer.port), clients.backend(bouncer.port)];
    const holder = claimOf();
    const { fence } = await granted(a, holder);
    const waiter = rivalOf(holder);
    await refused(b, waiter);
    const waiting = waitFor(b, waiter);
    await eventually("no process is asked to send", async () => {
      const inbox = await server.sql(`select inbox is null from ${WAITERS} as w where claim = '${waiter.id}'`);
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
    expect(warnings).toEqual(["HOLDFAST_POSTGRES_POOLER"]);
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

  test("its state is that of our own answer, also when the answer to the user's next statement comes with it", async () => {
    await using clients = new Clients();
    const client = await clients.client(server.port);
    let state = "I";
    const query = client.query.bind(client) as (...args: unknown[]) => Promise<{ rows: unknown[] }>;
    // As with a client in `pipeline` mode: the answers to ours and to the `rollback` after it are read in one turn.
    const late = async (
      text: string,
      values: unknown[],
      heard?: (error: null, result: unknown) => void,
    ): Promise<unknown> => {
      const result = await query(text, values);
      state = "T";
      heard?.(null, result);
      state = "I";
      return result;
    };
    Object.assign(client, { query: late, getTransactionStatus: () => state });
    const backend = clients.own(postgres(client, { listen: false }));
    await expect(backend.attempt(claimOf())).rejects.toThrow(/transaction/u);
  });

  test("a pg that does not know the state of its transaction: its pool serves, and its client is refused", async () => {
    await using clients = new Clients();
    const old = { getTransactionStatus: undefined };
    expect(() => postgres(Object.assign(new pg.Client(urlOf(server.port)), old))).toThrow(TypeError);
    const pool = clients.pool(server.port, { max: 1 });
    pool.on("connect", (client) => Object.assign(client, old));
    const backend = clients.own(postgres(pool, { listen: false }));
    const claim = claimOf();
    await granted(backend, claim);
    expect(await backend.release(claim)).toBe("held");
    const leaking = await pool.connect();
    await leaking.query("begin");
    leaking.release();
    await expect(backend.attempt(claim)).rejects.toThrow(/transaction/u);
    await granted(backend, claim);
  });

  test("a client that came back to the pool in a transaction: its answer is not believed, and it is closed", async () => {
    await using clients = new Clients();
    const pool = clients.pool(server.port, { max: 1 });
    const backend = clients.own(postgres(pool, { listen: false }));
    const leak = async (...statements: readonly string[]): Promise<void> => {
      const leaking = await pool.connect();
      for (const statement of statements) await leaking.query(statement).catch(() => undefined);
      leaking.release();
    };
    const claim = claimOf();
    await leak("begin");
    await expect(backend.attempt(claim)).rejects.toThrow(/transaction/u);
    await eventually("the rollback", async () => ((await leasesOf(claim.name)) === "0" ? true : undefined));
    await granted(backend, claim);
    // One that has failed answers every step with an error, so it must go, too.
    await leak("begin", "select 1 / 0");
    await expect(backend.release(claim)).rejects.toThrow(/nothing was done/u);
    expect(await backend.release(claim)).toBe("held");
  });

  test("a connection of postgres.js that was left in a transaction: the server refuses the step", async () => {
    await using clients = new Clients();
    const sql = postgresJs(urlOf(server.port), { max: 2, fetch_types: false, onnotice: () => undefined });
    clients.later(() => sql.end({ timeout: 1 }));
    const both = async (statement: string): Promise<unknown> =>
      await Promise.all([1, 2].map(() => sql.unsafe(`${statement}; select pg_sleep(0.05)`).simple()));
    const backend = clients.own(postgres(sql, { listen: false }));
    // Details with everything that an array in Postgres might take for its own.
    const claim = claimOf({ meta: { odd: `{"a\\b",'c'} null` } });
    await granted(backend, claim);
    expect((await backend.query(claim.name)).held[0]?.meta).toEqual(claim.meta);
    expect((await backend.renew([claim]))[0]?.held).toBe(true);
    expect(await backend.release(claim)).toBe("held");
    await both("start transaction");
    await expect(backend.attempt(claim)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringMatching(/transaction/u),
    });
    await both("rollback");
    await granted(clients.backend(server.port), rivalOf(claim));
  });

  test("a `sql` of postgres.js that renames columns serves as each other", async () => {
    await using clients = new Clients();
    const sql = postgresJs(urlOf(server.port), { max: 2, transform: postgresJs.pascal, onnotice: () => undefined });
    clients.later(() => sql.end({ timeout: 1 }));
    const backend = clients.own(postgres(sql));
    const claim = claimOf();
    await granted(backend, claim);
    expect((await backend.query(claim.name)).held).toHaveLength(1);
    expect(await backend.release(claim)).toBe("held");
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
      const found = await server.sql(`select inbox from ${WAITERS} as w where claim = '${waiter.id}'`);
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

  test("a message with a fence that no clock explains is not believed, though its sender knows the claim's id", async () => {
    await using clients = new Clients();
    const [a, b] = [clients.backend(server.port), clients.backend(server.port)];
    const holder = claimOf();
    await granted(a, holder);
    const waiter = rivalOf(holder);
    // A first grant waits until messages are heard.
    await granted(b, claimOf());
    await refused(b, waiter);
    const inbox = await server.sql(`select inbox from ${WAITERS} as w where claim = '${waiter.id}'`);
    const watching = b.watch!(waiter, new AbortController().signal);
    for (const news of ["granted 9000000000000000 1", "granted 1 1", "granted 0 1", "granted 9000000000000000 0"]) {
      const seal = hash("sha256", `${waiter.id} ${news}`, "hex").slice(0, 24);
      await server.sql(`select pg_notify('${inbox}', '${waiter.id.slice(0, 8)} ${news} ${seal}')`);
    }
    expect(await a.release(holder)).toBe("held");
    const heard = await watching;
    expect(String(heard?.fence)).toBe(
      await server.sql(`select fence from holdfast.lease where claim = '${waiter.id}'`),
    );
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

  test("a connection that listens and has fallen silent is noticed when a heartbeat brings what a message should have", async () => {
    await using clients = new Clients();
    await using proxy = await startProxy({ port: server.port });
    const pool = clients.pool(proxy.port, { application_name: "silent" });
    // Without the test that comes every minute.
    const setTimer: typeof systemClock.setTimer = (run, ms, keep) =>
      ms === 60_000 ? undefined : systemClock.setTimer(run, ms, keep);
    const clock = Object.assign(Object.create(systemClock) as typeof systemClock, { setTimer });
    const [a, b] = [clients.backend(server.port), clients.own(postgres(pool, { ticket: "1s", clock }))];
    const listeners = (): Promise<string> =>
      server.sql("select pid from pg_stat_activity where application_name = 'silent' and query like 'listen %'");
    let messages = 0;
    // The first is that to ourselves. The next one, which brings the grant, and the one that tests the connection, do not come.
    proxy.onReply = (chunk) => (chunk.includes("holdfast_") && ++messages > 1 && messages < 4 ? "hold" : undefined);
    const holder = claimOf();
    await granted(a, holder);
    const waiter = rivalOf(holder);
    await refused(b, waiter);
    const before = await eventually("it hears itself", async () => (messages > 0 && (await listeners())) || undefined);
    // It asks for nothing by itself, so that only a heartbeat can bring the news.
    const waiting = b.watch!(waiter, new AbortController().signal);
    expect(await a.release(holder)).toBe("held");
    await waiting;
    await eventually("it listens on another connection", async () => {
      const now = await listeners();
      return now !== "" && now !== before ? true : undefined;
    });
  });

  test("a refusal does not wait until messages can be heard", { timeout: 60_000 }, async () => {
    await using clients = new Clients();
    await using proxy = await startProxy({ port: server.port });
    proxy.onRequest = (chunk) => (chunk.includes('listen "') ? "hold" : undefined);
    // No limit of time passes, so what waits for the inbox waits for ever.
    const clock = Object.assign(Object.create(systemClock) as typeof systemClock, { setTimer: () => undefined });
    const b = postgres(clients.pool(proxy.port), { clock });
    const holder = claimOf();
    await granted(clients.backend(server.port), holder);
    const waiter = rivalOf(holder);
    await refused(b, waiter);
    expect(await b.release(waiter)).toBe("queued");
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
    // The message to ourselves does not come back, and after the first attempt nothing does.
    let [hangs, silent] = [false, false];
    proxy.onReply = (chunk) => {
      const isMessage = chunk.includes("holdfast_");
      hangs ||= isMessage;
      return isMessage || silent ? "hold" : undefined;
    };
    await granted(backend, claimOf());
    await eventually("the message to ourselves hangs", () => (hangs ? true : undefined));
    silent = true;
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

test("a row that is locked for long delays the renewals of other leases by a tenth of their ttl at most", async () => {
  await using clients = new Clients();
  const pool = clients.pool(server.port, { max: 1 });
  const waits: unknown[] = [];
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    const noting = (text: string, values: readonly unknown[], ...rest: unknown[]): unknown => {
      if (text.includes("holdfast.renew(")) waits.push(values.at(-1));
      return query(text, values, ...rest);
    };
    Object.assign(client, { query: noting });
  });
  const backend = clients.own(postgres(pool, { listen: false }));
  const [stuck, other] = [claimOf({ ttlMs: 20_000 }), claimOf({ ttlMs: 20_000 })];
  for (const claim of [stuck, other]) await granted(backend, claim);
  const blocker = await clients.client(server.port);
  await blocker.query("begin");
  await blocker.query("select from holdfast.lease where claim = $1 for update", [stuck.id]);
  expect((await backend.renew([stuck, other])).map(({ held }) => held)).toEqual(["unknown", true]);
  expect(waits).toEqual(["0", "2000"]);
  await blocker.query("commit");
  expect((await backend.renew([stuck]))[0]?.held).toBe(true);
});

test("no lease is longer than a quarantine that another process asked for", async () => {
  await using clients = new Clients();
  const backend = clients.backend(server.port, { listen: false });
  const [long, short] = [claimOf({ ttlMs: 60_000 }), claimOf({ ttlMs: 30_000 })];
  // They queue before it is asked for: behind one that leaves, and behind one whose waiter only sends heartbeats.
  const [left, right] = [claimOf(), claimOf()];
  const [first, second] = [rivalOf(left, { ttlMs: 60_000 }), rivalOf(right, { ttlMs: 60_000 })];
  const behind = rivalOf(left, { ttlMs: 30_000 });
  for (const claim of [left, right]) await granted(backend, claim);
  for (const claim of [first, behind, second]) await refused(backend, claim);
  await server.sql("update holdfast.store set quarantine_ms = 32000");
  try {
    expect(await backend.release(left)).toBe("held");
    await granted(backend, behind);
    await server.sql(`update holdfast.lease set until_us = 1 where claim = '${right.id}'`);
    expect(await backend.watch!(second, AbortSignal.timeout(60_000)), "it must ask again").toBeUndefined();
    await expect(backend.attempt(second)).rejects.toMatchObject({ fatal: true });
    await expect(backend.attempt(long)).rejects.toMatchObject({
      fatal: true,
      message: expect.stringMatching(/maxTtl/u),
    });
    await granted(backend, short);
    expect((await backend.renew([{ ...short, ttlMs: 60_000 }]))[0]?.held).toBe("unknown");
    expect((await backend.renew([short]))[0]?.held).toBe(true);
  } finally {
    await server.sql("update holdfast.store set quarantine_ms = 0");
  }
});

test("a clock that was set back keeps no lock after its release", async () => {
  await using clients = new Clients();
  const backend = clients.backend(server.port, { listen: false });
  const claim = claimOf();
  await granted(backend, claim);
  // As after a clock that went back by ten minutes. Crowded: so that the release goes the long way.
  await server.sql(
    `update holdfast.lease set since_us = since_us + 600000000, crowded = true where claim = '${claim.id}'`,
  );
  expect(await backend.release(claim)).toBe("held");
  await granted(backend, rivalOf(claim));
});

test("a role that may only read is an error at once, also after it has read", async () => {
  await using clients = new Clients();
  const backend = clients.backend(server.port, { listen: false }, { options: "-c default_transaction_read_only=on" });
  await backend.query("nothing");
  await expect(backend.attempt(claimOf())).rejects.toMatchObject({ fatal: true });
});

describe("many at once", () => {
  /** A pool of one connection that counts its statements. */
  function counting(clients: Clients): { readonly backend: Backend; readonly statements: () => number } {
    let count = 0;
    const pool = clients.pool(server.port, { max: 1 });
    pool.on("connect", (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => unknown;
      Object.assign(client, { query: (...args: unknown[]) => (count++, query(...args)) });
    });
    return { backend: clients.own(postgres(pool, { listen: false })), statements: () => count };
  }

  test("renewals are one statement", async () => {
    await using clients = new Clients();
    const { backend, statements } = counting(clients);
    const held = Array.from({ length: 300 }, () => claimOf());
    for (const claim of held) await granted(backend, claim);
    const before = statements();
    const answers = await backend.renew(held);
    expect(statements() - before).toBe(1);
    expect(answers.filter((answer) => answer.held)).toHaveLength(held.length);
  });

  test("releases are few statements, each with its own answer, and pass the lock to who waits", async () => {
    await using clients = new Clients();
    const { backend, statements } = counting(clients);
    const other = clients.backend(server.port, { listen: false });
    const held = Array.from({ length: 60 }, () => claimOf());
    for (const claim of held) await granted(backend, claim);
    const [queued, absent] = [rivalOf(held[0]!), claimOf()];
    const waiting = rivalOf(held[30]!);
    const readers = [1, 2].map(() => claimOf({ name: "many readers", mode: "shared" }));
    for (const reader of readers) await granted(backend, reader);
    await refused(backend, queued);
    await refused(other, waiting);
    const before = statements();
    const claims = [...held.slice(1), ...readers, queued, absent];
    const answers = await Promise.all(claims.map((claim) => backend.release(claim)));
    // Eight of them alone, then one for all that came meanwhile, and one for the lock that has no row.
    expect(statements() - before).toBeLessThanOrEqual(10);
    expect(answers).toEqual([...claims.slice(0, -2).map(() => "held"), "queued", "absent"]);
    await granted(other, waiting);
    const left = await server.sql(
      `select count(*) from holdfast.lease where claim in (${claims.map(({ id }) => `'${id}'`).join(",")})`,
    );
    expect(left).toBe("0");
  });

  test("a release whose row is locked neither holds up the others nor undoes them", async () => {
    await using clients = new Clients();
    const backend = clients.backend(server.port, { listen: false }, { max: 12 });
    const claims = Array.from({ length: 40 }, () => claimOf());
    // Of several holders each but the first has a row of its own.
    const readers = [1, 2].map(() => claimOf({ name: "locked readers", mode: "shared" }));
    const stuck = [claims[20]!, readers[1]!];
    // Later in the order of names.
    const after = claimOf({ name: `${stuck[0]!.name}~` });
    for (const claim of [...claims, ...readers, after]) await granted(backend, claim);
    const blocker = await clients.client(server.port);
    await blocker.query("begin");
    await blocker.query("select from holdfast.lease where claim = any ($1) for update", [stuck.map(({ id }) => id)]);
    const answers = new Map<Claim, unknown>();
    const asked = [...claims, ...readers].map(async (claim) => {
      answers.set(claim, await backend.release(claim).catch((error: unknown) => error));
    });
    await Promise.all(asked);
    for (const claim of stuck) {
      expect(answers.get(claim)).toMatchObject({
        fatal: false,
        message: expect.stringMatching(/Nothing was changed/u),
      });
      answers.delete(claim);
    }
    expect(new Set(answers.values())).toEqual(new Set(["held"]));
    const list = (of: (claim: Claim) => string): string => [stuck[0]!, after].map(of).join(",");
    const waiting = `select holdfast.release_many(array[${list(({ name }) => `'\\x${hex(name)}'::bytea`)}],
      array[${list(({ id }) => `'${id}'`)}], array[0, 0], 0, true)`;
    expect(await server.sql(waiting), "after one that stays locked").toBe("bh");
    await blocker.query("commit");
    // As the core does.
    for (const claim of stuck) expect(await backend.release(claim)).toBe("held");
  });
});

test("a URL with a password that is wrong says so, and shows neither", async () => {
  const url = urlOf(server.port).replace(/:[^:@]+@/u, ":wrong-secret@");
  await expect(openBackend(url)).rejects.toMatchObject({
    fatal: true,
    message: expect.not.stringContaining("wrong-secret"),
  });
});
