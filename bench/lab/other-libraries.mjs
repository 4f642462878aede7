/**
 * Other lock libraries for `holdfast lab compare`, with fair settings: the same ttl, an attempt every 50 ms while they wait, and
 * a renewal every third of the ttl where the library renews by itself. src/lab/libraries/others.ts opens this module and says
 * what it must export.
 */
import { setTimeout as sleep } from "node:timers/promises";

const RETRY_MS = 50;
/** A command that gets no answer fails after this long; by default it would wait for ever. */
const COMMAND_MS = 1000;

/** Printed under the table. */
export const SETTINGS = {
  redlock: "redlock 5.0.0-beta.2: using(), retryDelay 50 ms with jitter 25, automatic extension at a third of the ttl",
  "redis-semaphore": "redis-semaphore 5.8: Mutex, retryInterval 50 ms, refreshInterval ttl/3, onLockLost",
  "redis-semaphore-quorum": "redis-semaphore 5.8: RedlockMutex, the same settings",
  verrou: "@verrou/core 0.5: redisStore, retry delay 50 ms; it does not renew, so its extend() is called every ttl/3",
};

export async function openOther(library, server) {
  const clients = await Promise.all(server.ports.map((port) => openClient(port, server)));
  const [first] = clients;
  if (first === undefined) throw new TypeError(`${library} needs a Redis server`);
  const acquire = {
    redlock: () => acquireRedlock(clients, server.nowMs),
    "redis-semaphore": () => acquireSemaphore([first]),
    "redis-semaphore-quorum": () => acquireSemaphore(clients),
    verrou: () => acquireVerrou(first, server.nowMs),
  }[library];
  return {
    acquire: await acquire(),
    close: async () => {
      for (const client of clients) client.disconnect();
    },
  };
}

const PACKAGES = {
  redlock: ["ioredis", "redlock"],
  "redis-semaphore": ["ioredis", "redis-semaphore"],
  "redis-semaphore-quorum": ["ioredis", "redis-semaphore"],
  verrou: ["ioredis", "@verrou/core"],
};

/** The packages that these libraries need and that cannot be imported here. */
export async function missingPackages(libraries) {
  const missing = [];
  for (const name of new Set(libraries.flatMap((library) => PACKAGES[library])))
    await import(name).catch(() => missing.push(name));
  return missing;
}

async function openClient(port, { host, password }) {
  const { Redis } = await import("ioredis");
  const client = new Redis({
    host,
    port,
    password,
    commandTimeout: COMMAND_MS,
    retryStrategy: () => RETRY_MS,
  });
  // The client reconnects by itself, and each command reports its own failure.
  client.on("error", () => undefined);
  return client;
}

async function acquireRedlock(clients, nowMs) {
  const { default: Redlock } = await import("redlock");
  const redlock = new Redlock(clients, { retryDelay: RETRY_MS, retryJitter: RETRY_MS / 2 });
  redlock.on("error", () => undefined);
  return (name, terms) => {
    const settings = {
      retryCount: Math.ceil(terms.waitMs / RETRY_MS),
      automaticExtensionThreshold: Math.round((terms.ttlMs * 2) / 3),
    };
    if (terms.renew === false) return plainRedlock(redlock, name, terms, settings, nowMs);
    return new Promise((resolve) => {
      let release = () => undefined;
      const held = new Promise((done) => (release = done));
      const ended = redlock.using([name], terms.ttlMs, settings, async (signal) => {
        resolve({
          fence: undefined,
          trustedUntilMs: () => Infinity,
          onLost: (tell) =>
            signal.addEventListener("abort", () => tell(signal.error?.message ?? "aborted"), { once: true }),
          isHeld: () => !signal.aborted,
          release: async () => {
            release();
            return ended.then(
              () => "released",
              (error) => `error: ${messageOf(error)}`,
            );
          },
        });
        await held;
      });
      ended.catch(() => resolve(undefined));
    });
  };
}

async function plainRedlock(redlock, name, terms, settings, nowMs) {
  const lock = await redlock.acquire([name], terms.ttlMs, settings).catch(() => undefined);
  if (lock === undefined) return undefined;
  return {
    fence: undefined,
    trustedUntilMs: () => nowMs() + (lock.expiration - Date.now()),
    onLost: () => undefined,
    isHeld: () => lock.expiration > Date.now(),
    release: () => endedAs(lock.release()),
  };
}

async function acquireSemaphore(clients) {
  const { Mutex, RedlockMutex } = await import("redis-semaphore");
  return async (name, terms) => {
    const lost = new Set();
    const options = {
      lockTimeout: terms.ttlMs,
      acquireTimeout: Math.max(1, terms.waitMs),
      retryInterval: RETRY_MS,
      refreshInterval: terms.renew === false ? 0 : terms.ttlMs / 3,
      onLockLost: (error) => {
        for (const tell of lost) tell(error.message);
      },
    };
    const [first] = clients;
    const lock = clients.length === 1 ? new Mutex(first, name, options) : new RedlockMutex([...clients], name, options);
    if (!(await lock.tryAcquire())) return undefined;
    return {
      fence: undefined,
      trustedUntilMs: () => Infinity,
      onLost: (tell) => void lost.add(tell),
      isHeld: () => lock.isAcquired,
      release: () => endedAs(lock.release()),
    };
  };
}

async function acquireVerrou(client, nowMs) {
  const { LockFactory } = await import("@verrou/core");
  const { RedisStore } = await import("@verrou/core/drivers/redis");
  const factory = new LockFactory(new RedisStore({ connection: client }));
  return async (name, terms) => {
    const lock = factory.createLock(name, terms.ttlMs);
    const retry = { delay: RETRY_MS, timeout: terms.waitMs, attempts: Math.ceil(terms.waitMs / RETRY_MS) + 1 };
    if (!(await lock.acquire({ retry }))) return undefined;
    const watchdog = new AbortController();
    const lost = new Set();
    if (terms.renew !== false) void keepVerrou(lock, terms.ttlMs, watchdog.signal, lost);
    return {
      fence: undefined,
      trustedUntilMs: () => nowMs() + (lock.getRemainingTime() ?? 0),
      onLost: (tell) => void lost.add(tell),
      isHeld: () => !lock.isExpired(),
      release: () => {
        watchdog.abort();
        return endedAs(lock.release());
      },
    };
  };
}

async function keepVerrou(lock, ttlMs, signal, lost) {
  for (;;) {
    await sleep(ttlMs / 3, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await lock.extend(ttlMs);
    } catch (error) {
      // Only this answer is certain: the store does not know the lock.
      if (!/not owned|not acquired/iu.test(messageOf(error))) continue;
      for (const tell of lost) tell(messageOf(error));
      return;
    }
  }
}

function endedAs(release) {
  return release.then(
    () => "released",
    (error) => `error: ${messageOf(error)}`,
  );
}

function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
