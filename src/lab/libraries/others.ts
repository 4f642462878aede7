/**
 * Other lock libraries as contenders, with fair settings: the same ttl, tries every 50 ms while they wait, and a
 * renewal every third of the ttl where the library renews by itself. Each is asked in its own words.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { machineMs } from "../../contract/clock.ts";
import { HOST } from "../servers/scratch.ts";
import { labPassword } from "../servers/secret.ts";
import type { LockLibrary, Hold, Library, Link, Terms } from "./library.ts";

export type OtherLibrary = Exclude<Library, "holdfast">;

const RETRY_MS = 50;
/** A command that gets no answer fails after this long; by default it would wait for ever. */
const COMMAND_MS = 1000;

/** What each was given, for whoever reads the table. */
export const SETTINGS: Readonly<Record<OtherLibrary, string>> = {
  redlock: "redlock 5.0.0-beta.2: using(), retryDelay 50 ms with jitter 25, automatic extension at a third of the ttl",
  "redis-semaphore": "redis-semaphore 5.8: Mutex, retryInterval 50 ms, refreshInterval ttl/3, onLockLost",
  "redis-semaphore-quorum": "redis-semaphore 5.8: RedlockMutex, the same settings",
  verrou: "@verrou/core 0.5: redisStore, retry delay 50 ms; it does not renew, so its extend() is called every ttl/3",
};

export async function openOther(library: OtherLibrary, link: Link): Promise<LockLibrary> {
  const clients = await Promise.all(link.ports.map(openClient));
  const [first] = clients;
  if (first === undefined) throw new TypeError(`${library} needs a Redis`);
  const acquire = {
    redlock: () => acquireRedlock(clients),
    "redis-semaphore": () => acquireSemaphore([first]),
    "redis-semaphore-quorum": () => acquireSemaphore(clients),
    verrou: () => acquireVerrou(first),
  }[library];
  return {
    acquire: await acquire(),
    close: async () => {
      for (const client of clients) client.disconnect();
    },
  };
}

const PACKAGES: Readonly<Record<OtherLibrary, readonly string[]>> = {
  redlock: ["ioredis", "redlock"],
  "redis-semaphore": ["ioredis", "redis-semaphore"],
  "redis-semaphore-quorum": ["ioredis", "redis-semaphore"],
  verrou: ["ioredis", "@verrou/core"],
};

/** Rejects, naming all that is missing, before any server is started for them. */
export async function checkInstalled(libraries: readonly Library[]): Promise<void> {
  const wanted = new Set(libraries.flatMap((library) => (library === "holdfast" ? [] : PACKAGES[library])));
  const missing: string[] = [];
  for (const name of wanted) await import(name).catch(() => missing.push(name));
  if (missing.length === 0) return;
  const all = missing.join(" ");
  throw new Error(
    `What this compares with is not installed here: ${missing.join(", ")}. To compare: npm install --no-save ${all}`,
  );
}

async function load<T>(name: string, module: () => Promise<T>): Promise<T> {
  return module().catch((cause: unknown) => {
    throw new Error(`${name} is not installed. To compare with it: npm install --no-save ${name}`, { cause });
  });
}

async function openClient(port: number): Promise<Redis> {
  const { Redis: Client } = await load("ioredis", () => import("ioredis"));
  const client = new Client({
    host: HOST,
    port,
    password: labPassword(),
    commandTimeout: COMMAND_MS,
    retryStrategy: () => RETRY_MS,
  });
  // Reconnecting is the client's business; each command tells its own failure.
  client.on("error", () => undefined);
  return client;
}

type Acquire = LockLibrary["acquire"];

async function acquireRedlock(clients: readonly Redis[]): Promise<Acquire> {
  // Its types cannot be found through its package's exports, so they are written down here.
  const specifier: string = "redlock";
  const { default: Redlock } = (await load("redlock", () => import(specifier))) as { default: RedlockClass };
  const redlock = new Redlock(clients, { retryDelay: RETRY_MS, retryJitter: RETRY_MS / 2 });
  redlock.on("error", () => undefined);
  return (name, terms) => {
    const settings = {
      retryCount: Math.ceil(terms.waitMs / RETRY_MS),
      automaticExtensionThreshold: Math.round((terms.ttlMs * 2) / 3),
    };
    if (terms.renew === false) return plainRedlock(redlock, name, terms, settings);
    return new Promise((resolve) => {
      let release = (): void => undefined;
      const held = new Promise<void>((done) => (release = done));
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
              (error: unknown) => `error: ${messageOf(error)}`,
            );
          },
        });
        await held;
      });
      ended.catch(() => resolve(undefined));
    });
  };
}

type RedlockClass = new (clients: readonly Redis[], settings: object) => RedlockLike;

interface RedlockLike {
  on(event: "error", listener: () => void): void;
  acquire(
    names: string[],
    ttlMs: number,
    settings: object,
  ): Promise<{ expiration: number; release(): Promise<unknown> }>;
  using(
    names: string[],
    ttlMs: number,
    settings: object,
    work: (signal: AbortSignal & { error?: Error }) => Promise<void>,
  ): Promise<void>;
}

async function plainRedlock(
  redlock: RedlockLike,
  name: string,
  terms: Terms,
  settings: object,
): Promise<Hold | undefined> {
  const lock = await redlock.acquire([name], terms.ttlMs, settings).catch(() => undefined);
  if (lock === undefined) return undefined;
  return {
    fence: undefined,
    trustedUntilMs: () => machineMs() + (lock.expiration - Date.now()),
    onLost: () => undefined,
    isHeld: () => lock.expiration > Date.now(),
    release: () => endedAs(lock.release()),
  };
}

async function acquireSemaphore(clients: readonly Redis[]): Promise<Acquire> {
  const { Mutex, RedlockMutex } = await load("redis-semaphore", () => import("redis-semaphore"));
  return async (name, terms) => {
    const lost = new Set<(reason: string) => void>();
    const options = {
      lockTimeout: terms.ttlMs,
      acquireTimeout: Math.max(1, terms.waitMs),
      retryInterval: RETRY_MS,
      refreshInterval: terms.renew === false ? 0 : terms.ttlMs / 3,
      onLockLost: (error: Error) => {
        for (const tell of lost) tell(error.message);
      },
    };
    const [first] = clients as [Redis];
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

async function acquireVerrou(client: Redis): Promise<Acquire> {
  const { LockFactory } = await load("@verrou/core", () => import("@verrou/core"));
  const { RedisStore } = await load("@verrou/core", () => import("@verrou/core/drivers/redis"));
  const factory = new LockFactory(new RedisStore({ connection: client }));
  return async (name, terms) => {
    const lock = factory.createLock(name, terms.ttlMs);
    const retry = { delay: RETRY_MS, timeout: terms.waitMs, attempts: Math.ceil(terms.waitMs / RETRY_MS) + 1 };
    if (!(await lock.acquire({ retry }))) return undefined;
    const watchdog = new AbortController();
    const lost = new Set<(reason: string) => void>();
    if (terms.renew !== false) void keepVerrou(lock, terms.ttlMs, watchdog.signal, lost);
    return {
      fence: undefined,
      trustedUntilMs: () => machineMs() + (lock.getRemainingTime() ?? 0),
      onLost: (tell) => void lost.add(tell),
      isHeld: () => !lock.isExpired(),
      release: () => {
        watchdog.abort();
        return endedAs(lock.release());
      },
    };
  };
}

async function keepVerrou(
  lock: { extend(ttl?: number): Promise<void> },
  ttlMs: number,
  signal: AbortSignal,
  lost: ReadonlySet<(reason: string) => void>,
): Promise<void> {
  for (;;) {
    await sleep(ttlMs / 3, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await lock.extend(ttlMs);
    } catch (error) {
      // The store does not know the lock: the only answer that is certain.
      if (!/not owned|not acquired/iu.test(messageOf(error))) continue;
      for (const tell of lost) tell(messageOf(error));
      return;
    }
  }
}

function endedAs(release: Promise<unknown>): Promise<string> {
  return release.then(
    () => "released",
    (error: unknown) => `error: ${messageOf(error)}`,
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
