/**
 * Who takes part in the suites over one Redis. Default settings, except for those that would give up waiting; a ttl of 30 s.
 *
 * A contestant opens with `{ port }` and then can `acquire(name)` and `release(held)`; `cycle(name)` where one function
 * does both cheaper. `sends`: commands besides EVAL and EVALSHA that come from its client, not from its scripts.
 */
import { createHash } from "node:crypto";
import { built } from "../lib/holdfast.mjs";
import { holding, waiting } from "./redis-held.mjs";
import { queueAndPush } from "./redis-queue.mjs";

const TTL_MS = 30_000;
const RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0';

async function connect({ port, autoPipelining = false }) {
  const { Redis } = await import("ioredis");
  const client = new Redis(port, "127.0.0.1", {
    password: process.env.HOLDFAST_LAB_PASSWORD,
    enableAutoPipelining: autoPipelining,
  });
  await client.ping();
  return client;
}

async function loaded(client, script) {
  await client.script("LOAD", script);
  return createHash("sha1").update(script).digest("hex");
}

export async function holdfastOver(env, { dist, defaults } = {}) {
  const [{ createLocks }, { redis }] = await Promise.all([
    built("index.js", dist),
    built("backends/redis/index.js", dist),
  ]);
  const client = await connect(env);
  const backend = redis(client);
  const locks = createLocks(backend, defaults);
  await (await locks.acquire(`warm-${process.pid}`)).release();
  return {
    cycle: async (name) => {
      const lease = await locks.acquire(name);
      await lease.release();
    },
    acquire: (name) => locks.acquire(name, { wait: Infinity }),
    release: (lease) => lease.release(),
    fence: (lease) => lease.fence,
    ...waiting.holdfast(createLocks, backend),
    ...holding.holdfast(createLocks, redis, client),
  };
}

export const contestants = {
  /** The limit: what one connection can do without any library. It cannot wait. */
  "raw ioredis": {
    package: "ioredis",
    sends: ["set"],
    limit: true,
    open: async (env) => {
      const client = await connect(env);
      const sha = await loaded(client, RELEASE);
      let n = 0;
      return {
        cycle: async (name) => {
          const id = `${process.pid}-${++n}`;
          if ((await client.set(name, id, "PX", TTL_MS, "NX")) !== "OK") throw new Error("the lock was not free");
          await client.evalsha(sha, 1, name, id);
        },
        ...holding.raw(client, loaded),
      };
    },
  },

  holdfast: { own: true, open: (env) => holdfastOver(env) },

  /** Another build, for before and after: only when HOLDFAST_BEFORE names its folder. */
  "holdfast before": { own: true, open: (env) => holdfastOver(env, { dist: process.env.HOLDFAST_BEFORE }) },

  "redlock 5 beta": {
    package: "redlock",
    open: async (env) => {
      const { default: Redlock } = await import("redlock");
      const client = await connect(env);
      const redlock = new Redlock([client], { retryCount: -1 });
      redlock.on("error", () => {});
      return {
        acquire: (name) => redlock.acquire([name], TTL_MS),
        release: (lock) => lock.release(),
        ...holding.redlock(redlock, client),
      };
    },
  },

  "@sesamecare-oss/redlock": {
    package: "@sesamecare-oss/redlock",
    open: async (env) => {
      const { Redlock } = await import("@sesamecare-oss/redlock");
      const redlock = new Redlock([await connect(env)], { retryCount: -1 });
      redlock.on("error", () => {});
      return { acquire: (name) => redlock.acquire([name], TTL_MS), release: (lock) => lock.release() };
    },
  },

  "redis-semaphore": {
    package: "redis-semaphore",
    sends: ["set"],
    open: async (env) => {
      const { Mutex } = await import("redis-semaphore");
      const client = await connect(env);
      const options = { lockTimeout: TTL_MS, acquireTimeout: Infinity, onLockLost: () => {} };
      return {
        acquire: async (name) => {
          const mutex = new Mutex(client, name, options);
          await mutex.acquire();
          return mutex;
        },
        release: (mutex) => mutex.release(),
        ...holding.semaphore(Mutex, client),
      };
    },
  },

  "@verrou/core": {
    package: "@verrou/core",
    sends: ["set"],
    open: async (env) => {
      const [{ Verrou }, { redisStore }] = await Promise.all([
        import("@verrou/core"),
        import("@verrou/core/drivers/redis"),
      ]);
      const client = await connect(env);
      const verrou = new Verrou({
        default: "redis",
        stores: { redis: { driver: redisStore({ connection: client }) } },
      });
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

  "redlock-universal": {
    package: "redlock-universal",
    sends: ["set"],
    open: async (env) => {
      const { createLock, IoredisAdapter } = await import("redlock-universal");
      const client = await connect(env);
      const adapter = new IoredisAdapter(client);
      const known = new Map();
      // The lock object is made once per name, as in its README; it gives up after 3 attempts by default.
      const lockOf = (key) => {
        let lock = known.get(key);
        if (lock === undefined) known.set(key, (lock = createLock({ adapter, key, ttl: TTL_MS, retryAttempts: 1e9 })));
        return lock;
      };
      return {
        acquire: async (name) => {
          const lock = lockOf(name);
          return { lock, handle: await lock.acquire() };
        },
        release: ({ lock, handle }) => lock.release(handle),
        ...holding.universal(createLock, adapter, client),
      };
    },
  },

  "node-redisson": {
    package: "node-redisson",
    open: async ({ port, autoPipelining = false }) => {
      const { Redisson } = await import("node-redisson");
      const password = process.env.HOLDFAST_LAB_PASSWORD;
      const options = {
        redis: { options: { host: "127.0.0.1", port, password, enableAutoPipelining: autoPipelining } },
      };
      const redisson = new Redisson(options);
      const client = await connect({ port });
      let n = 0;
      return {
        acquire: async (name) => {
          // Re-entrant by client id, so that every section has one of its own.
          const lock = redisson.getLock(name, `${process.pid}-${++n}`);
          await lock.lock();
          return lock;
        },
        release: (lock) => lock.unlock(),
        ...holding.redisson(Redisson, options, client),
      };
    },
  },

  "simple-redis-mutex": {
    package: "simple-redis-mutex",
    /** node-redis sends what a turn asks for together, by itself. */
    autoPipelines: true,
    sends: ["set", "incr"],
    open: async ({ port }) => {
      const [{ createClient }, { lock }] = await Promise.all([import("redis"), import("simple-redis-mutex")]);
      // The only one here that speaks through node-redis and not ioredis.
      const client = createClient({
        password: process.env.HOLDFAST_LAB_PASSWORD,
        socket: { host: "127.0.0.1", port },
      });
      await client.connect();
      return {
        acquire: (name) => lock(client, name, { timeout: TTL_MS }),
        release: (release) => release(),
        fence: (release) => release.fencingToken,
      };
    },
  },

  /** The limit of a hand-over: one script that gives the lock to the other process and tells it. Two processes only. */
  "raw script + push": {
    package: "ioredis",
    limit: true,
    handOverOnly: true,
    open: async (env) => waiting.rawPush(await connect(env), await connect(env), loaded),
  },

  "raw queue + push": {
    package: "ioredis",
    limit: true,
    handOverOnly: true,
    open: async (env) => queueAndPush(await connect(env), await connect(env), loaded),
  },
};
