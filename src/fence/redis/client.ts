/** ioredis and node-redis by structure, as one way to run a script. Nothing of either is imported. */
import { ArgumentError } from "../../contract/argument-error.ts";
import { refuseOldNodeRedis } from "../../contract/node-redis.ts";
import type { Script } from "../generated/scripts.ts";

export type RedisValue = string | Buffer;

/** A client, Sentinel client or cluster of ioredis 5 or 6. */
export interface IoredisLike {
  eval(script: string, keyCount: number, ...rest: RedisValue[]): Promise<unknown>;
  evalsha(sha: string, keyCount: number, ...rest: RedisValue[]): Promise<unknown>;
}

interface ScriptOptions {
  keys?: RedisValue[];
  arguments?: RedisValue[];
}

/** A client, pool, sentinel or cluster of node-redis 6.2.1 or later. */
export interface NodeRedisLike {
  eval(script: string, options?: ScriptOptions): Promise<unknown>;
  evalSha(sha: string, options?: ScriptOptions): Promise<unknown>;
}

export type RedisLike = IoredisLike | NodeRedisLike;

export type RunScript = (keys: readonly string[], values: readonly RedisValue[]) => Promise<unknown>;

/** Runs `script` by its digest, and sends its text only when the server does not know it. */
export function scriptRunner(client: RedisLike, { sha, source }: Script): RunScript {
  const { byDigest, byText } = calls(client);
  return async (keys, values) => {
    try {
      return await byDigest(sha, keys, values);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
      return byText(source, keys, values);
    }
  };
}

type Call = (script: string, keys: readonly string[], values: readonly RedisValue[]) => Promise<unknown>;

function calls(client: RedisLike): { byDigest: Call; byText: Call } {
  if ("evalSha" in client && typeof client.evalSha === "function") {
    refuseOldNodeRedis(client);
    const options = (keys: readonly string[], values: readonly RedisValue[]): ScriptOptions => ({
      keys: [...keys],
      arguments: [...values],
    });
    return {
      byDigest: (sha, keys, values) => client.evalSha(sha, options(keys, values)),
      byText: (script, keys, values) => client.eval(script, options(keys, values)),
    };
  }
  if ("evalsha" in client && typeof client.evalsha === "function") {
    return {
      byDigest: (sha, keys, values) => client.evalsha(sha, keys.length, ...keys, ...values),
      byText: (script, keys, values) => client.eval(script, keys.length, ...keys, ...values),
    };
  }
  throw new ArgumentError("Expected a client of ioredis or node-redis: something with evalsha() or evalSha()");
}
