/** Opens Redis by URL, with whichever client library is installed; and closes what it opened. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Backend, Member, Renewer } from "../../contract/backend.ts";
import { systemClock } from "../../contract/clock.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { NODE_REDIS } from "../../contract/node-redis.ts";
import { installedVersion, whyUnsupported } from "../../contract/peer-version.ts";
import { within } from "../../contract/time-limit.ts";
import { RedisBackend } from "./backend.ts";
import { type Connection } from "./connection.ts";
import { connectionOf } from "./clients/choose.ts";
import { NO_PRIMARY, wordsOf, toBackendError } from "./errors.ts";
import { identify, type Identity } from "./query.ts";
import { namesOf } from "./keys.ts";
import { type Opened, openIoredis } from "./clients/open-ioredis.ts";
import { openNodeRedis } from "./clients/open-node-redis.ts";
import { toSettings } from "./options.ts";
import { Renewals } from "./renewals.ts";
import { Replicator } from "./durability.ts";
import { tlsTrouble } from "./tls.ts";
import { describe, type Endpoint, parseUrl } from "./url.ts";

const OPEN_MS = 10_000;

/**
 * Opens the backend, and makes sure that a primary answers. Otherwise rejects with a {@link LockBackendError}: fatal if the URL or the server
 * is wrong, but not if there is no answer, because the server may start later.
 */
export async function openBackend(url: string): Promise<Backend> {
  const endpoint = parseUrl(url);
  const { backend, opened, connection } = await open(endpoint, url);
  try {
    await confirm(endpoint, opened, connection);
    return backend;
  } catch (error) {
    await backend.close();
    throw error;
  }
}

/** Opens the backend without waiting for the server: a quorum must start even if one of its members is down. */
export async function openMember(url: string): Promise<Member> {
  const { backend, opened } = await open(parseUrl(url), url);
  void opened.connect().catch(() => {});
  return backend;
}

/** For a worker thread that renews the claims of a backend opened with the same URL. */
export async function openRenewer(data: unknown): Promise<Renewer> {
  if (typeof data !== "string") throw new ArgumentError("Expected the renewer's data to be a Redis URL");
  const endpoint = parseUrl(data);
  const settings = toSettings(endpoint.options);
  const opened = await openClient(endpoint);
  const connection = connectionOf(opened.client);
  const names = namesOf(settings.prefix, connection.topology === "cluster");
  const replicator = settings.durability && new Replicator(connection, settings.durability);
  const renewals = new Renewals(connection, names, settings, replicator);
  void opened.connect().catch(() => {});
  return {
    renew: (claims, fences) => renewals.renew(claims, fences),
    close: () => {
      replicator?.close();
      return opened.close();
    },
  };
}

async function open(
  endpoint: Endpoint,
  url: string,
): Promise<{ backend: RedisBackend; opened: Opened; connection: Connection }> {
  const settings = toSettings(endpoint.options);
  const opened = await openClient(endpoint);
  const connection = connectionOf(opened.client);
  const renewer = { module: import.meta.url, data: url };
  const backend = new RedisBackend(connection, settings, { close: () => opened.close(), renewer });
  return { backend, opened, connection };
}

/** The client libraries, and of each supported major version the oldest: the range of the optional peers in package.json. */
export const CLIENTS: Readonly<Record<"ioredis" | "redis", readonly string[]>> = {
  ioredis: ["5.4.0", "6.0.0"],
  redis: NODE_REDIS,
};

/** Makes a client. It is not connected yet. */
export async function openClient(endpoint: Endpoint): Promise<Opened> {
  const unsupported: string[] = [];
  const mayUse = (client: keyof typeof CLIENTS): boolean => {
    if (endpoint.client !== undefined && endpoint.client !== client) return false;
    // Before it is loaded: another major version may fail in any way.
    const why = whyUnsupported(client, installedVersion(client, import.meta.url), CLIENTS[client]);
    if (why !== undefined) unsupported.push(why);
    return why === undefined;
  };
  if (mayUse("ioredis")) {
    const library = await import("ioredis").catch(missing);
    if (library !== undefined) return openIoredis(library as never, endpoint);
  }
  if (mayUse("redis")) {
    const library = await import("redis").catch(missing);
    if (library !== undefined) return openNodeRedis(library as never, endpoint);
  }
  if (unsupported.length === 0) throw notInstalled(endpoint.client);
  const text = `Redis by URL needs a client library: ${unsupported.join("; ")}.`;
  throw new LockBackendError("redis", "", text, { fatal: true });
}

/** Says which package to install. */
export function notInstalled(client: Endpoint["client"]): LockBackendError {
  const text = client === undefined ? "ioredis, or redis: npm install ioredis" : `${client}: npm install ${client}`;
  return new LockBackendError("redis", "", `Redis by URL needs a client library. Install ${text}.`, { fatal: true });
}

function missing(error: unknown): undefined {
  if ((error as { code?: string }).code === "ERR_MODULE_NOT_FOUND") return undefined;
  throw error;
}

/** Makes sure that a primary answers, and that it is what the URL says. */
export async function confirm(endpoint: Endpoint, opened: Opened, connection: Connection): Promise<void> {
  refuseWrong(endpoint, await answered(endpoint, opened, connection));
}

/** Waits until the server has answered who it is. An error of the last host ends the wait: at the start there is nothing to wait for. */
async function answered(endpoint: Endpoint, opened: Opened, connection: Connection): Promise<Identity> {
  let trouble: Error | undefined;
  const failed = new Promise<never>((_, reject) => {
    opened.onError((error, final) => {
      trouble = error;
      if (final) reject(error);
    });
  });
  failed.catch(() => {});
  try {
    const identity = opened.connect().then(() => identify(connection));
    const answer = await within(systemClock, Promise.race([identity, failed]), OPEN_MS);
    if (answer !== undefined) return answer;
    throw trouble ?? new Error(`no answer within ${OPEN_MS / 1000} s`);
  } catch (error) {
    throw explained(endpoint, error);
  }
}

function explained(endpoint: Endpoint, error: unknown): LockBackendError {
  const known = toBackendError(error, "", false);
  const message = wordsOf(error);
  const secure = endpoint.tls === undefined ? undefined : tlsTrouble(`${message} ${(error as { code?: string }).code}`);
  const fatal = known.fatal || (secure !== undefined && secure.passing !== true);
  const text = known.fatal
    ? known.message.replace(/^Redis locks: /u, "")
    : secure !== undefined
      ? `${secure.text} (${message}).`
      : `nothing usable answers (${message}). Check that Redis runs there and that host, port and scheme are right.`;
  return new LockBackendError("redis", "", `Redis at ${describe(endpoint)}: ${text}`, { fatal, cause: known.cause });
}

/** Rejects a server that answers, but is not what the URL says. */
function refuseWrong(endpoint: Endpoint, { role, cluster }: Identity): void {
  const say = (text: string): never => {
    throw new LockBackendError("redis", "", `Redis at ${describe(endpoint)}: ${text}.`, { fatal: true });
  };
  if (role === "sentinel") {
    say(
      "this is a sentinel, which holds no data. Use redis+sentinel://host:port/service, with the service that it watches",
    );
  }
  if (role === "slave" && endpoint.topology === "sentinel") {
    throw new LockBackendError("redis", "", `Redis at ${describe(endpoint)}: ${NO_PRIMARY}.`);
  }
  if (role === "slave") {
    say(
      "this is a replica, which accepts no writes. Use its primary's address, or redis+sentinel:// to follow the primary",
    );
  }
  if (cluster && endpoint.topology !== "cluster") {
    say("this is a node of a Redis Cluster. Use redis+cluster://, with this and other nodes as hosts");
  }
  if (!cluster && endpoint.topology === "cluster") say("this is not a Redis Cluster. Use redis:// for a single server");
}
