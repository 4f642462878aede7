/** Who takes part over five independent Redis servers. ioredis with its default settings; none gives up waiting. */
import { built } from "../lib/holdfast.mjs";

const TTL_MS = 30_000;

async function connectAll({ ports }) {
  const { Redis } = await import("ioredis");
  const clients = ports.map((port) => new Redis(port, "127.0.0.1", { password: process.env.HOLDFAST_LAB_PASSWORD }));
  // Without a listener the library prints every failed reconnect.
  for (const client of clients) client.on("error", () => {});
  await Promise.all(clients.map((client) => client.ping()));
  return clients;
}

export async function holdfastOver(env, defaults) {
  const [{ createLocks }, { redis }, { quorum }] = await Promise.all([
    built("index.js"),
    built("backends/redis/index.js"),
    built("backends/quorum/index.js"),
  ]);
  const clients = await connectAll(env);
  const locks = createLocks(quorum(clients.map((client) => redis(client))), defaults);
  return {
    acquire: (name) => locks.acquire(name, { wait: Infinity }),
    release: (lease) => lease.release(),
    fence: (lease) => lease.fence,
  };
}

export const contestants = {
  holdfast: { own: true, open: (env) => holdfastOver(env) },

  "redlock 5 beta": {
    package: "redlock",
    open: async (env) => {
      const { default: Redlock } = await import("redlock");
      const redlock = new Redlock(await connectAll(env), { retryCount: -1 });
      redlock.on("error", () => {});
      return { acquire: (name) => redlock.acquire([name], TTL_MS), release: (lock) => lock.release() };
    },
  },

  "@sesamecare-oss/redlock": {
    package: "@sesamecare-oss/redlock",
    open: async (env) => {
      const { Redlock } = await import("@sesamecare-oss/redlock");
      const redlock = new Redlock(await connectAll(env), { retryCount: -1 });
      redlock.on("error", () => {});
      return { acquire: (name) => redlock.acquire([name], TTL_MS), release: (lock) => lock.release() };
    },
  },

  "redis-semaphore": {
    package: "redis-semaphore",
    open: async (env) => {
      const { RedlockMutex } = await import("redis-semaphore");
      const clients = await connectAll(env);
      const options = { lockTimeout: TTL_MS, acquireTimeout: Infinity, onLockLost: () => {} };
      return {
        acquire: async (name) => {
          const mutex = new RedlockMutex(clients, name, options);
          await mutex.acquire();
          return mutex;
        },
        release: (mutex) => mutex.release(),
      };
    },
  },

  "redlock-universal": {
    package: "redlock-universal",
    open: async (env) => {
      const { createRedlock, IoredisAdapter } = await import("redlock-universal");
      const adapters = (await connectAll(env)).map((client) => new IoredisAdapter(client));
      return {
        acquire: async (name) => {
          const lock = createRedlock({ adapters, key: name, ttl: TTL_MS, retryAttempts: 1e9 });
          return { lock, handle: await lock.acquire() };
        },
        release: ({ lock, handle }) => lock.release(handle),
      };
    },
  },
};
