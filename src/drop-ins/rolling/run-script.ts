/** Runs scripts with whatever client the other library took: ioredis of any version, what only looks like it, or node-redis. */
import { connectionOf } from "../../backends/redis/clients/choose.ts";
import type { Connection } from "../../backends/redis/connection.ts";
import type { NodeRedisLike } from "../../backends/redis/index.ts";
import type { Script } from "./generated/scripts.ts";

/** A client of ioredis, or what looks like one: a Cluster, a wrapper, a mock. */
export interface ScriptClient {
  evalsha(...args: never[]): unknown;
  eval(...args: never[]): unknown;
}

/** An ioredis or node-redis client. It stays yours. */
export type AnyClient = ScriptClient | NodeRedisLike;

/** One call of a script. */
export interface Call {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

interface Evaluates {
  evalsha(sha: string, keyCount: number, ...rest: string[]): Promise<unknown>;
  eval(source: string, keyCount: number, ...rest: string[]): Promise<unknown>;
}

/**
 * Rejects as the client does, and where it is none. `isOver`: it is no longer waited for, and what takes it back may be on its way. A script that
 * has to be sent a second time would come after that.
 */
export async function run(client: AnyClient, call: Call, isOver: () => boolean = () => false): Promise<unknown> {
  const { script, keys, args } = call;
  try {
    if (!evaluates(client)) return await known(client).evalsha(script.sha, keys, args);
    return await client.evalsha(script.sha, keys.length, ...keys, ...args);
  } catch (error) {
    if (!String(error).includes("NOSCRIPT") || isOver()) throw error;
    return await runText(client, call);
  }
}

/** Sends the script itself: one question for sure, so that it comes before what is sent after it. */
export async function runText(client: AnyClient, { script, keys, args }: Call): Promise<unknown> {
  if (!evaluates(client)) return await known(client).eval(script.source, keys, args);
  return await client.eval(script.source, keys.length, ...keys, ...args);
}

const connections = new WeakMap<object, Connection>();

function known(client: object): Connection {
  const connection = connections.get(client) ?? connectionOf(client);
  connections.set(client, connection);
  return connection;
}

/** Of node-redis the methods have these names in other letters, and other arguments. */
function evaluates(client: unknown): client is Evaluates {
  const { evalsha, eval: evaluate } = (client ?? {}) as Record<string, unknown>;
  return typeof evalsha === "function" && typeof evaluate === "function";
}

/** What a script that takes locks answers: for how many, and the server's time in microseconds as their fence. */
export interface Taken {
  readonly count: number;
  readonly fence: bigint | undefined;
}

/** From the reply of `take` or `takePermits`, or of a script of the user's, which says only how many. */
export function toTaken(reply: unknown): Taken {
  const [count, time]: unknown[] = Array.isArray(reply) ? reply : [reply];
  const fence = typeof time === "string" && /^\d{1,19}$/u.test(time) ? BigInt(time) : undefined;
  return { count: toCount(count), fence };
}

/** With `stringNumbers`, ioredis returns numbers as texts. */
export function toCount(reply: unknown): number {
  const count = typeof reply === "string" && reply !== "" ? Number(reply) : reply;
  if (typeof count === "number" && !Number.isNaN(count)) return count;
  throw new Error(`Unexpected result of type ${typeof reply} returned from redis.`);
}

/** Shorter ones are raised to it: no server can be asked often enough to keep them. */
export const TTL_MIN_MS = 100;

/** What is not above 0 stays as it is, so that the server refuses it. */
export function raised(ttlMs: number): number {
  return ttlMs > 0 ? Math.max(TTL_MIN_MS, ttlMs) : ttlMs;
}
