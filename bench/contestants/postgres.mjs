/**
 * Who takes part in the suite over one Postgres. Default settings, except for those that would give up waiting; a ttl of 30 s. A contestant
 * opens with `{ port }`. `limit`: no lock, but what no lock can be faster than. `handOverOnly`: it can do nothing but take turns.
 */
import { built } from "../lib/holdfast.mjs";

const TTL_MS = 30_000;
const BATCH = 40;
/** As often as pg-boss asks for jobs at most: every half second. */
const POLL_MS = 500;

function urlOf({ port, database = "postgres" }) {
  return `postgres://postgres:${process.env.HOLDFAST_LAB_PASSWORD}@127.0.0.1:${port}/${database}`;
}

async function poolOf(env, max = 4) {
  const { default: pg } = await import("pg");
  return new pg.Pool({ connectionString: urlOf(env), max });
}

/**
 * Of those that listen beside ours: a NOTIFY wakes every connection of its database that listens, so in one database with the others
 * each would also measure how long those take to find that it is not for them.
 */
export const OTHER_DATABASES = ["row", "queue", "bare"];

/** The statements that a lease in a table needs at least: taken if it is over, and let go by its claim. */
const TAKE = `insert into bench_lock as l (name, claim, until) values ($1, $2, clock_timestamp() + interval '30 s')
  on conflict (name) do update set claim = excluded.claim, until = excluded.until where l.until <= clock_timestamp() returning 1`;
const LET_GO = "update bench_lock set until = '-infinity' where name = $1 and claim = $2 and until > clock_timestamp()";

/** Two processes that pass a baton to and fro: the other one always wants it, so that nothing is looked up. */
async function takingTurns(env, give) {
  const [pool, ears] = [await poolOf(env), await (await poolOf(env, 1)).connect()];
  let mine;
  let granted = false;
  let wake;
  ears.on("notification", () => {
    granted = true;
    wake?.();
  });
  return {
    acquire: async (name, { index, untilMs }) => {
      const channel = `${name}-${index}`;
      if (mine !== channel) {
        if (mine !== undefined) await ears.query(`unlisten "${mine}"`);
        mine = channel;
        await ears.query(`listen "${channel}"`);
        await pool.query(
          "insert into bench_lock (name, claim, until) values ($1, '', '-infinity') on conflict do nothing",
          [name],
        );
        // The second to come gives it to the first, which listens by then.
        const { rowCount } = await pool.query(
          "insert into bench_lock (name, claim, until) values ($1, '', '-infinity') on conflict do nothing",
          [`${name} begun`],
        );
        granted = rowCount === 0;
      }
      if (!granted) {
        let timer;
        await new Promise((resolve) => {
          wake = resolve;
          timer = setTimeout(resolve, Math.max(0, untilMs - performance.now()) + 50);
        });
        clearTimeout(timer);
        wake = undefined;
      }
      if (!granted) return undefined;
      granted = false;
      return { name, other: `${name}-${1 - index}` };
    },
    release: ({ name, other }) => give(pool, name, other),
  };
}

/**
 * The least with which LISTEN/NOTIFY is a lock that is first come, first served: a row that is locked first, a queue, and the grant in the release.
 * As durable as ours: a grant is flushed, a place in the queue is not. No time, no fence, no modes, and a dead process keeps it for ever.
 */
export const QUEUE_SQL = `
create table bench_queued (name text primary key, claim text) with (fillfactor = 50);
create table bench_queue (name text, ticket bigserial, claim text, channel text, primary key (name, ticket)) with (fillfactor = 60);
create function bench_take(p_name text, p_claim text, p_channel text) returns boolean language plpgsql as $function$
declare
  holder text;
begin
  select claim into holder from bench_queued where name = p_name for update;
  if holder = '' then
    update bench_queued set claim = p_claim where name = p_name;
    return true;
  end if;
  insert into bench_queue (name, claim, channel) values (p_name, p_claim, p_channel);
  perform set_config('synchronous_commit', 'off', true);
  return false;
end
$function$;
create function bench_give(p_name text, p_claim text) returns boolean language plpgsql as $function$
declare
  holder text;
  next_one record;
begin
  select claim into holder from bench_queued where name = p_name for update;
  if holder <> p_claim then
    return false;
  end if;
  delete from bench_queue as q where q.name = p_name and q.ticket = (select min(f.ticket) from bench_queue as f where f.name = p_name)
  returning q.claim, q.channel into next_one;
  if not found then
    update bench_queued set claim = '' where name = p_name;
    return true;
  end if;
  update bench_queued set claim = next_one.claim where name = p_name;
  perform pg_notify(next_one.channel, next_one.claim);
  return true;
end
$function$`;

async function queued(given) {
  const env = { ...given, database: "queue" };
  const [pool, ears] = [await poolOf(env), await (await poolOf(env, 1)).connect()];
  const channel = `bench_${process.pid}`;
  const waiting = new Map();
  // A message may come before the answer to the statement that queued.
  const early = new Set();
  ears.on("notification", ({ payload }) => (waiting.has(payload) ? waiting.get(payload)() : early.add(payload)));
  await ears.query(`listen "${channel}"`);
  const made = new Set();
  let n = 0;
  return {
    acquire: async (name) => {
      if (!made.has(name))
        await pool.query("insert into bench_queued (name, claim) values ($1, '') on conflict do nothing", [name]);
      made.add(name);
      const claim = `${process.pid}-${++n}`;
      const { rows } = await pool.query("select bench_take($1, $2, $3) as taken", [name, claim, channel]);
      if (!rows[0].taken && !early.delete(claim)) {
        await new Promise((resolve) => waiting.set(claim, resolve));
        waiting.delete(claim);
      }
      return { name, claim };
    },
    release: ({ name, claim }) => pool.query("select bench_give($1, $2)", [name, claim]),
  };
}

async function polled(env) {
  const pool = await poolOf(env);
  let n = 0;
  return {
    acquire: async (name) => {
      const claim = `${process.pid}-${++n}`;
      while ((await pool.query(TAKE, [name, claim])).rowCount === 0)
        await new Promise((wake) => setTimeout(wake, POLL_MS));
      return { name, claim };
    },
    release: ({ name, claim }) => pool.query(LET_GO, [name, claim]),
  };
}

/** The database of another build's tables. */
export const BEFORE = "before";

export async function holdfastOver(env, { dist, defaults } = {}) {
  const [{ createLocks }, { postgres }] = await Promise.all([
    built("index.js", dist),
    built("backends/postgres/index.js", dist),
  ]);
  const backend = postgres(await poolOf(env));
  const locks = createLocks(backend, defaults);
  await (await locks.acquire(`warm-${process.pid}`)).release();
  let leases = [];
  return {
    cycle: async (name) => {
      const lease = await locks.acquire(name);
      await lease.release();
    },
    acquire: (name) => locks.acquire(name, { wait: Infinity }),
    release: (lease) => lease.release(),
    fence: (lease) => lease.fence,
    hold: async ({ count, ttlMs, name }) => {
      leases = [];
      for (let from = 0; from < count; from += BATCH) {
        const names = Array.from({ length: Math.min(BATCH, count - from) }, (_, i) => `${name}-${from + i}`);
        leases.push(...(await Promise.all(names.map((one) => locks.acquire(one, { ttl: ttlMs })))));
      }
    },
    drop: async () =>
      (await Promise.all(leases.map((lease) => lease.release()))).filter((was) => was !== "released").length,
  };
}

export const contestants = {
  "raw statements": {
    package: "pg",
    limit: true,
    open: async (env) => {
      const pool = await poolOf(env);
      let n = 0;
      return {
        cycle: async (name) => {
          const claim = `${process.pid}-${++n}`;
          if ((await pool.query(TAKE, [name, claim])).rowCount !== 1) throw new Error("the lock was not free");
          await pool.query(LET_GO, [name, claim]);
        },
      };
    },
  },

  /** Durable, as a lease that changes hands must be: its transaction writes a row. */
  "raw NOTIFY with a row": {
    package: "pg",
    limit: true,
    handOverOnly: true,
    open: (env) =>
      takingTurns({ ...env, database: "row" }, (pool, name, other) =>
        pool.query(
          "with u as (update bench_lock set claim = $2 where name = $1 returning 1) select pg_notify($2, '') from u",
          [name, other],
        ),
      ),
  },

  /** The limit for a hand-over: what a lock over LISTEN/NOTIFY must do at least. */
  "raw NOTIFY with a queue": { package: "pg", limit: true, waits: true, open: queued },

  /** Its transaction writes nothing, so that Postgres flushes nothing. */
  "raw NOTIFY": {
    package: "pg",
    limit: true,
    handOverOnly: true,
    open: (env) =>
      takingTurns({ ...env, database: "bare" }, (pool, _, other) => pool.query("select pg_notify($1, '')", [other])),
  },

  /** A session's lock on a connection of its own: no lease, no fence, not through a pooler. Postgres itself wakes the next. */
  "advisory lock": {
    package: "pg",
    limit: true,
    waits: true,
    open: async (env) => {
      const pool = await poolOf(env, 16);
      return {
        acquire: async (name) => {
          const client = await pool.connect();
          await client.query("select pg_advisory_lock(hashtextextended($1, 0))", [name]);
          return { client, name };
        },
        release: async ({ client, name }) => {
          await client.query("select pg_advisory_unlock(hashtextextended($1, 0))", [name]);
          client.release();
        },
      };
    },
  },

  holdfast: { own: true, open: (env) => holdfastOver(env) },

  /** Another build with tables of its own, for before and after: only when HOLDFAST_BEFORE names its folder. */
  "holdfast before": {
    own: true,
    open: (env) => holdfastOver({ ...env, database: BEFORE }, { dist: process.env.HOLDFAST_BEFORE }),
  },

  /** Both in one process, by turns: what disturbs one disturbs the other. */
  "holdfast and the raw statements, by turns": {
    turnsOnly: true,
    open: async (env) => ({
      turns: {
        holdfast: (await contestants.holdfast.open(env)).cycle,
        "raw statements": (await contestants["raw statements"].open(env)).cycle,
      },
    }),
  },

  "@verrou/core": {
    package: "@verrou/core",
    waits: true,
    open: async (env) => {
      const [{ Verrou }, { knexStore }, { default: knex }] = await Promise.all([
        import("@verrou/core"),
        import("@verrou/core/drivers/knex"),
        import("knex"),
      ]);
      const connection = knex({ client: "pg", connection: urlOf(env), pool: { min: 4, max: 4 } });
      const store = { driver: knexStore({ connection, dialect: "pg", tableName: "bench_verrou" }) };
      const verrou = new Verrou({ default: "pg", stores: { pg: store } });
      await verrou
        .createLock(`warm-${process.pid}`, TTL_MS)
        .acquireImmediately()
        .catch(() => {});
      return {
        acquire: async (name) => {
          const lock = verrou.createLock(name, TTL_MS);
          await lock.acquire();
          return lock;
        },
        release: (lock) => lock.release(),
      };
    },
  },

  "a row, polled as pg-boss polls": { package: "pg", waits: true, open: polled },
};
