/** Redis: locks in one Redis, behind Sentinel, or in a Cluster, through your own client. */
import { RedisBackend } from "./backend.ts";
import { connectionOf } from "./clients/choose.ts";
import { type RedisOptions, toSettings } from "./options.ts";

/** An ioredis or node-redis client: standalone, Sentinel or Cluster. It stays yours: close() does not close it. */
export type RedisClient = IoredisLike | NodeRedisLike;

/** How an ioredis client (5 or 6) is recognised. */
export interface IoredisLike {
  readonly status: string;
  readonly isCluster: boolean;
  evalsha(...args: never[]): unknown;
}

/** How a node-redis client (6.2.1 or later) is recognised. */
export interface NodeRedisLike {
  readonly isOpen: boolean;
  sendCommand(...args: never[]): Promise<unknown>;
}

/** Makes a backend for `createLocks()`. Throws a `TypeError` for wrong options or something that is not a client. */
export function redis(client: RedisClient, options: RedisOptions = {}): RedisBackend {
  return new RedisBackend(connectionOf(client), toSettings(options));
}

export type { RedisBackend };
export type { Durability, RedisOptions } from "./options.ts";
export type { Identity } from "./query.ts";
