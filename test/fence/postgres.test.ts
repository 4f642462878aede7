import { setTimeout as pause } from "node:timers/promises";

import "../fixed-seed.ts";
import fc from "fast-check";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";

import { type Fenced, FenceRejectedError } from "../../src/fence/index.ts";
import {
  checkFence,
  FENCE_MIGRATION,
  migrateFences,
  postgresMarks,
  type Queryable,
  updateFenced,
  withFence,
} from "../../src/fence/postgres/index.ts";
import { startProxy } from "../../src/lab/proxy.ts";
import { type PostgresServer, startPostgres } from "../../src/lab/servers/postgres.ts";
import { rejectionsOf } from "./rejections.ts";
import { greatest, race, rises, writers } from "./writers.ts";

const BEYOND_DOUBLES = 2n ** 53n + 1n;

let server: PostgresServer;
let pool: pg.Pool;

beforeAll(async () => {
  server = await startPostgres();
  pool = new pg.Pool({ connectionString: server.url, max: 12 });
  pool.on("error", () => {}); // A restart ends idle connections.
  await migrateFences(pool);
});

afterAll(async () => {
  await pool?.end();
  await server?.stop();
});

beforeEach(async () => {
  await pool.query(`
    drop table if exists account, journal;
    truncate holdfast.fence_mark;
    create table account (id int primary key, balance int not null, fence bigint);
    insert into account values (1, 100, null), (2, 200, 5);
    create table journal (id serial primary key, fence bigint not null);
  `);
});

/** A pool on the same server: as another role, or on another database. */
function poolOf(change: pg.PoolConfig): pg.Pool {
  const { hostname, port, username, password, pathname } = new URL(server.url);
  const base = { host: hostname, port: Number(port), user: username, database: pathname.slice(1) };
  return new pg.Pool({ ...base, password, ...change });
}

const at = (fence: bigint): { name: string; fence: bigint } => ({ name: "account:1", fence });

async function refusal(work: Promise<unknown>): Promise<FenceRejectedError> {
  const error: unknown = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(FenceRejectedError);
  return error as FenceRejectedError;
}

async function balance(id = 1): Promise<number> {
  const { rows } = await pool.query("select balance from account where id = $1", [id]);
  return rows[0]?.balance;
}

describe("the migration", () => {
  test("can be run again, and by several at once, and keeps the marks", async () => {
    await withFence(pool, at(34n), async () => {});
    await Promise.all(Array.from({ length: 8 }, () => migrateFences(pool)));
    await pool.query(FENCE_MIGRATION);
    expect(await refusal(withFence(pool, at(33n), async () => {}))).toMatchObject({ current: 34n });
  });
});

describe("a schema that another role made beforehand (S176)", () => {
  /** A database of its own, in which mallory may create things. */
  async function database(name: string): Promise<{ admin: pg.Pool; mallory: pg.Pool; end: () => Promise<void> }> {
    await pool.query(`create database ${name}`);
    const admin = poolOf({ database: name });
    await admin.query(
      `do $$ begin create role mallory login password 'm'; exception when duplicate_object then end $$`,
    );
    await admin.query(`grant create on database ${name} to mallory`);
    const mallory = poolOf({ database: name, user: "mallory", password: "m" });
    const end = async (): Promise<void> => {
      await Promise.all([admin.end(), mallory.end()]);
    };
    return { admin, mallory, end };
  }

  const BAIT = `create table holdfast.fence_mark (lock text primary key, fence bigint not null);
    create function holdfast.bait() returns trigger language plpgsql as
      $$ begin alter role mallory superuser; return new; end $$;
    create trigger bait before insert or update on holdfast.fence_mark for each row execute function holdfast.bait()`;

  test("is refused, and nothing runs with the rights of the guarded role", async () => {
    const { admin, mallory, end } = await database("adopted");
    try {
      await mallory.query(`create schema holdfast; ${BAIT}`);
      await expect(migrateFences(admin)).rejects.toMatchObject({
        code: "LK003",
        message: /belongs to role "mallory", not to "postgres"/,
      });
      await withFence(admin, at(1n), async () => {}).catch(() => undefined);
      const { rows } = await admin.query("select rolsuper from pg_roles where rolname = 'mallory'");
      expect(rows).toEqual([{ rolsuper: false }]);
    } finally {
      await admin.query("alter role mallory nosuperuser");
      await end();
    }
  });

  test("is refused too where only a table, or only a function, in our schema is a stranger's", async () => {
    const { admin, mallory, end } = await database("mixed");
    const stranger = async (make: string): Promise<void> => {
      await admin.query(
        "drop schema if exists holdfast cascade; create schema holdfast; grant all on schema holdfast to mallory",
      );
      await mallory.query(make);
      await expect(migrateFences(admin)).rejects.toMatchObject({ code: "LK003" });
      await expect(admin.query(FENCE_MIGRATION)).rejects.toMatchObject({ code: "LK003" });
    };
    try {
      await stranger("create table holdfast.fence_mark (lock text primary key, fence bigint not null)");
      await stranger(
        "create function holdfast.check_fence(lock text, offered bigint) returns bigint language sql as 'select 1::bigint'",
      );
    } finally {
      await end();
    }
  });

  test("is accepted where the role that made it runs the migration again, and the hint works", async () => {
    const { admin, mallory, end } = await database("owned");
    try {
      await migrateFences(mallory);
      await migrateFences(mallory);
      await expect(migrateFences(admin)).rejects.toMatchObject({ code: "LK003", hint: /SET ROLE/ });
      await admin.query(`begin; set local role mallory; ${FENCE_MIGRATION} commit`);
    } finally {
      await end();
    }
  });
});

describe("a caller's search_path (S176)", () => {
  test("decides nothing inside the guard's functions", async () => {
    await pool.query(`create schema if not exists evil;
      create table if not exists evil.heard (what text); truncate evil.heard;
      create or replace function evil.set_config(text, text, boolean) returns text language sql as
        $$ insert into evil.heard values ('set_config'); select $2 $$;
      create or replace function evil.current_setting(text, boolean) returns text language sql as
        $$ insert into evil.heard values ('current_setting'); select null::text $$`);
    const client = await pool.connect();
    try {
      await client.query("set search_path = evil, pg_catalog, public");
      await client.query("begin; select holdfast.check_fence('account:1', 34); commit");
      await client.query("reset search_path");
    } finally {
      client.release();
    }
    const { rows } = await pool.query("select what from evil.heard");
    await pool.query("drop schema evil cascade");
    expect(rows).toEqual([]);
  });

  test("is pinned on every function that the migration makes", async () => {
    const { rows } = await pool.query(
      "select proname from pg_proc where pronamespace = 'holdfast'::regnamespace and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)",
    );
    expect(rows).toEqual([]);
  });
});

describe("a role with few rights", () => {
  test("needs usage of the schema, and select, insert and update on the marks, to be guarded", async () => {
    await pool.query(`create role clerk login password 'c';
      grant usage on schema holdfast to clerk;
      grant select, insert, update on holdfast.fence_mark to clerk;
      grant select, update on account to clerk`);
    const clerk = poolOf({ user: "clerk", password: "c" });
    try {
      const set = (fence: bigint): Promise<unknown> =>
        withFence(clerk, at(fence), (client) => client.query("update account set balance = 7 where id = 1"));
      await set(34n);
      expect(await refusal(set(33n))).toMatchObject({ current: 34n });
      expect(await postgresMarks(clerk).advance("account:1", 35n)).toBe(35n);
    } finally {
      await clerk.end();
    }
  });
});

describe("updateFenced", () => {
  const set = (fence: bigint, amount: number, id = 1): Promise<number> =>
    updateFenced(pool, at(fence), { table: "public.account", where: { id }, set: { balance: amount } });

  test("accepts a rising fence and an equal one, refuses a lower one, and leaves the row alone then", async () => {
    expect(await set(34n, 110)).toBe(1);
    expect(await set(34n, 120)).toBe(1);
    expect(await refusal(set(33n, 0))).toMatchObject({ lock: "account:1", current: 34n, offered: 33n });
    expect(await balance()).toBe(120);
    expect(await set(35n, 130)).toBe(1);
  });

  test("distinguishes neighbours above 2^53", async () => {
    await set(BEYOND_DOUBLES, 1);
    expect(await refusal(set(BEYOND_DOUBLES - 1n, 2))).toMatchObject({ current: BEYOND_DOUBLES });
    expect(await balance()).toBe(1);
  });

  test("resolves to 0 where there is no such row", async () => {
    expect(await set(34n, 1, 99)).toBe(0);
  });

  test("finds a row by null, and by several columns", async () => {
    const where = { id: 1, fence: null };
    expect(await updateFenced(pool, at(7n), { table: "account", where, set: {}, column: "fence" })).toBe(1);
    expect(await updateFenced(pool, at(7n), { table: "account", where, set: {}, column: "fence" })).toBe(0);
  });

  test("refuses to touch every row, to take undefined for a value, or to get the fence twice", async () => {
    const table = "account";
    await expect(updateFenced(pool, at(1n), { table, where: {}, set: {} })).rejects.toThrow(/where/);
    await expect(updateFenced(pool, at(1n), { table, where: { id: undefined }, set: {} })).rejects.toThrow(TypeError);
    await expect(updateFenced(pool, at(1n), { table, where: { id: 1 }, set: { fence: 9 } })).rejects.toThrow(/fence/);
    await expect(updateFenced(pool, at(1n), { table: "a..b", where: { id: 1 }, set: {} })).rejects.toThrow(/table/);
  });

  test("takes names literally: no text in them becomes SQL", async () => {
    const table = 'account" set balance = 0; --';
    await expect(updateFenced(pool, at(1n), { table, where: { id: 1 }, set: {} })).rejects.toThrow(/does not exist/);
    expect(await balance()).toBe(100);
  });

  test("never lets an older fence win, whatever the pauses", async () => {
    await pool.query(`
      create or replace function note() returns trigger language plpgsql as
      $$ begin insert into journal (fence) values (new.fence); return new; end $$;
      create trigger note after update on account for each row execute function note();
    `);
    await fc.assert(
      fc.asyncProperty(writers, async (all) => {
        await pool.query("update account set fence = 0; truncate journal");
        const accepted = await race(all, ({ fence }, index) => set(fence, index));
        const { rows } = await pool.query("select fence::text from journal order by id");
        expect(rises(rows.map((row) => BigInt(row.fence)))).toBe(true);
        expect(rows).toHaveLength(accepted.length);
        expect(greatest(accepted)).toBe(greatest(all.map(({ fence }) => fence)));
      }),
      { numRuns: 25 },
    );
  });
});

describe("withFence", () => {
  const add = (fence: bigint, amount: number): Promise<unknown> =>
    withFence(pool, at(fence), (client) => client.query("update account set balance = balance + $1", [amount]));

  test("accepts a rising fence and an equal one, refuses a lower one before the work runs", async () => {
    await add(34n, 1);
    await add(34n, 1);
    expect(await refusal(add(33n, 1000))).toMatchObject({ lock: "account:1", current: 34n, offered: 33n });
    await add(35n, 1);
    expect(await balance()).toBe(103);
  });

  test("distinguishes neighbours above 2^53", async () => {
    await add(BEYOND_DOUBLES, 1);
    expect(await refusal(add(BEYOND_DOUBLES - 1n, 1))).toMatchObject({ offered: BEYOND_DOUBLES - 1n });
  });

  test("keeps the mark when the database restarts", async () => {
    await add(34n, 1);
    await server.restart();
    expect(await refusal(add(33n, 1))).toMatchObject({ current: 34n });
  });

  test("keeps marks of different locks apart", async () => {
    await withFence(pool, { name: "a", fence: 34n }, async () => {});
    await withFence(pool, { name: "b", fence: 3n }, async () => {});
    await withFence(pool, { name: "%_\\'\"ü💡", fence: 3n }, async () => {});
    expect(await refusal(withFence(pool, { name: "%_\\'\"ü💡", fence: 2n }, async () => {}))).toMatchObject({
      lock: "%_\\'\"ü💡",
    });
    await expect(withFence(pool, { name: "a\0b", fence: 3n }, async () => {})).rejects.toThrow(TypeError);
  });

  test("checks every lock of a lease over several, without deadlocks, and names the one that is too old", async () => {
    const lease = (a: bigint, b: bigint, names = ["a", "b"]): Fenced => ({
      name: names.join(", "),
      fence: 0n,
      fences: new Map(names.map((name) => [name, name === "a" ? a : b])),
    });
    await withFence(pool, lease(3n, 9n), async () => {});
    expect(await refusal(withFence(pool, lease(4n, 8n), async () => {}))).toMatchObject({ lock: "b", current: 9n });
    // A refusal takes back what had been admitted before it.
    await withFence(pool, { name: "a", fence: 3n }, async () => {});
    const slowly = (names: string[]): Promise<unknown> =>
      withFence(pool, lease(5n, 10n, names), (client) => client.query("select pg_sleep(0.01)"));
    await Promise.all(Array.from({ length: 8 }, (_, index) => slowly(index % 2 === 0 ? ["a", "b"] : ["b", "a"])));
  });

  test("takes the mark back with everything else when the work fails", async () => {
    await add(10n, 1);
    const failure = withFence(pool, at(20n), async (client) => {
      await client.query("update account set balance = 0");
      throw new Error("no");
    });
    await expect(failure).rejects.toThrow("no");
    expect(await balance()).toBe(101);
    await add(15n, 1);
  });

  test("does not call a transaction committed that had failed inside", async () => {
    const swallowed = withFence(pool, at(10n), async (client) => {
      await client.query("update account set balance = 0");
      await client.query("select 1 / 0").catch(() => {});
    });
    await expect(swallowed).rejects.toThrow(/rolled back/);
    expect(await balance()).toBe(100);
  });

  test("keeps a later holder out between the check and the commit", async () => {
    const steps: string[] = [];
    let proceed = (): void => {};
    const gate = new Promise<void>((resolve) => (proceed = resolve));
    let begun = (): void => {};
    const started = new Promise<void>((resolve) => (begun = resolve));
    const older = withFence(pool, at(33n), async (client) => {
      begun();
      await gate;
      steps.push("33 writes");
      await client.query("update account set balance = 33 where id = 1");
    });
    await started;
    const newer = withFence(pool, at(34n), async (client) => {
      steps.push("34 writes");
      await client.query("update account set balance = 34 where id = 1");
    });
    await waitForBlocked();
    proceed();
    await Promise.all([older, newer]);
    expect(steps).toEqual(["33 writes", "34 writes"]);
    expect(await balance()).toBe(34);
  });

  test("ends the transaction of a paused holder, so the next one gets through", async () => {
    let proceed = (): void => {};
    const gate = new Promise<void>((resolve) => (proceed = resolve));
    let begun = (): void => {};
    const started = new Promise<void>((resolve) => (begun = resolve));
    const paused = withFence(
      pool,
      at(33n),
      async (client) => {
        begun();
        await gate;
        await client.query("update account set balance = 0");
      },
      { idle: 50 },
    );
    const outcome = expect(paused).rejects.toThrow();
    await started;
    await add(34n, 1);
    proceed();
    await outcome;
    expect(await balance()).toBe(101);
    await expect(withFence(pool, at(35n), async () => {}, { idle: 0 })).rejects.toThrow(/idle/);
  });

  test("refuses a write that the network held back until the next holder had written (S05)", async () => {
    await using proxy = await startProxy({ port: server.port });
    const slow = poolOf({ host: proxy.host, port: proxy.port });
    try {
      await slow.query("select 1");
      proxy.hang("requests");
      const late = refusal(withFence(slow, at(33n), (client) => client.query("update account set balance = 0")));
      await add(34n, 1);
      await proxy.heal();
      expect(await late).toMatchObject({ current: 34n, offered: 33n });
      expect(await balance()).toBe(101);
    } finally {
      await slow.end();
    }
  });

  test("never lets an older fence win, whatever the pauses", async () => {
    await fc.assert(
      fc.asyncProperty(writers, async (all) => {
        await pool.query("truncate journal; truncate holdfast.fence_mark");
        const accepted = await race(all, ({ fence, pausesMs }) =>
          withFence(pool, at(fence), async (client) => {
            await pause(pausesMs[1]);
            await client.query("insert into journal (fence) values ($1)", [fence.toString()]);
            await pause(pausesMs[2]);
          }),
        );
        const { rows } = await pool.query("select fence::text from journal order by id");
        expect(rises(rows.map((row) => BigInt(row.fence)))).toBe(true);
        expect(rows).toHaveLength(accepted.length);
        expect(greatest(accepted)).toBe(greatest(all.map(({ fence }) => fence)));
      }),
      { numRuns: 25 },
    );
  });

  async function waitForBlocked(): Promise<void> {
    for (;;) {
      const { rows } = await pool.query("select count(*)::int as blocked from pg_locks where not granted");
      if (rows[0].blocked > 0) return;
      await pause(5);
    }
  }
});

describe("checkFence", () => {
  test("guards a transaction that its caller began", async () => {
    const client = await pool.connect();
    try {
      await client.query("begin");
      await checkFence(client, at(34n));
      await client.query("commit");
      await client.query("begin");
      expect(await refusal(checkFence(client, at(33n)))).toMatchObject({ current: 34n });
      await client.query("rollback");
    } finally {
      client.release();
    }
  });

  test("says that a pool, or a client without a transaction, protects nothing", async () => {
    await expect(checkFence(pool, at(34n))).rejects.toThrow(/BEGIN/);
    const client = await pool.connect();
    try {
      await expect(checkFence(client, at(34n))).rejects.toThrow(/BEGIN/);
      // A client of another library, which does not report its status.
      const other: Queryable = { query: (text, values) => client.query(text, values) };
      await expect(checkFence(other, at(34n))).rejects.toThrow(/BEGIN/);
      await client.query("begin");
      await checkFence(other, at(34n));
      await client.query("commit");
    } finally {
      client.release();
    }
  });
});

describe("the triggers", () => {
  test("guard_row refuses a row's older fence on every path, and publishes it through updateFenced", async () => {
    await pool.query(
      "create trigger guard before update on account for each row execute function holdfast.guard_row('fence')",
    );
    await pool.query("update account set balance = 1, fence = 34 where id = 1");
    await pool.query("update account set balance = 2, fence = 34 where id = 1");
    await expect(pool.query("update account set balance = 3, fence = 12 where id = 1")).rejects.toMatchObject({
      code: "LK001",
    });
    await expect(pool.query("update account set balance = 3, fence = null where id = 1")).rejects.toThrow(/too old/);
    expect(await balance()).toBe(2);
    const stale = withFence(pool, at(12n), (client) => client.query("update account set fence = 12 where id = 1"));
    expect(await refusal(stale)).toMatchObject({ current: 34n, offered: 12n });
  });

  test("require_fence refuses every write in a transaction that checked no fence of such a lock", async () => {
    await pool.query(`create trigger fenced before insert or update or delete or truncate on account
      for each statement execute function holdfast.require_fence('account:%')`);
    const forgot = [
      "insert into account values (3, 0, null)",
      "update account set balance = 0",
      "delete from account",
      "truncate account",
    ];
    for (const statement of forgot) await expect(pool.query(statement)).rejects.toMatchObject({ code: "LK002" });
    const other = withFence(pool, { name: "invoice:1", fence: 9n }, (client) => client.query("delete from account"));
    await expect(other).rejects.toMatchObject({ code: "LK002" });
    await withFence(pool, at(34n), (client) => client.query("update account set balance = 7 where id = 1"));
    expect(await balance()).toBe(7);
    // The check does not outlive its transaction on the same connection.
    const client = await pool.connect();
    try {
      await client.query("begin");
      await checkFence(client, at(34n));
      await client.query("commit");
      await expect(client.query("delete from account")).rejects.toMatchObject({ code: "LK002" });
    } finally {
      client.release();
    }
  });
});

describe("postgresMarks", () => {
  test("raises the mark, repeats it, and answers with the higher one", async () => {
    const marks = postgresMarks(pool);
    expect(await marks.advance("a", BEYOND_DOUBLES)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("a", BEYOND_DOUBLES)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("a", BEYOND_DOUBLES - 1n)).toBe(BEYOND_DOUBLES);
    expect(await marks.advance("b", 1n)).toBe(1n);
  });

  test("admits each fence only while none greater is known, in the order of the database", async () => {
    const marks = postgresMarks(pool);
    await fc.assert(
      fc.asyncProperty(writers, async (all) => {
        await pool.query("truncate holdfast.fence_mark");
        const answers = await Promise.all(all.map(({ fence }) => marks.advance("a", fence)));
        expect(answers.every((mark, index) => mark >= (all[index]?.fence ?? 0n))).toBe(true);
        expect(await marks.advance("a", 0n)).toBe(greatest(all.map(({ fence }) => fence)));
      }),
      { numRuns: 10 },
    );
  });
});

test("a refusal is published, with the lock and both fences", async () => {
  await withFence(pool, at(34n), async () => {});
  const events = await rejectionsOf(async () => {
    await refusal(withFence(pool, at(33n), async () => {}));
    await updateFenced(pool, at(34n), { table: "account", where: { id: 1 }, set: {} });
    await refusal(updateFenced(pool, at(33n), { table: "account", where: { id: 1 }, set: {} }));
  });
  const event = { guard: "postgres", name: "account:1", current: 34n, offered: 33n };
  expect(events).toEqual([event, event]);
});
