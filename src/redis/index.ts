/** `holdfast/redis`: locks in one Redis, behind Sentinel, or in a Cluster, through a client that you already have. */
import { RedisBackend } from "./backend.ts";
import { connectionOf } from "./connection.ts";
import type { IoredisClient } from "./ioredis.ts";
import type { NodeRedisClient } from "./node-redis.ts";
import { type RedisOptions, toSettings } from "./options.ts";

/** An ioredis or node-redis client: standalone, Sentinel or Cluster. It stays yours: close() does not close it. */
export type RedisClient = IoredisClient | NodeRedisClient;

/** Makes a backend for `createLocks()`. Throws a `TypeError` for wrong options or something that is no client. */
export function redis(client: RedisClient, options: RedisOptions = {}): RedisBackend {
  return new RedisBackend(connectionOf(client), toSettings(options));
}

export type { RedisBackend };
export type { Durability, RedisOptions } from "./options.ts";
export type { Identity } from "./inspect.ts";
