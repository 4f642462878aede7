/** A server, clients of it, our backend, and Redisson as java.ts plays it. */
import { Redis } from "ioredis";
import { redisson, type RedissonBackend, type RedissonOptions } from "../../../src/backends/redisson/index.ts";
import type { Claim } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { newClaim } from "../../../src/testing/claim.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { PASSWORD } from "../../login.ts";
import { Java } from "./java.ts";

export interface Lab extends AsyncDisposable {
  readonly server: RedisServer;
  readonly raw: Redis;
  readonly java: Java;
  client(port?: number, options?: object): Redis;
  backend(options?: RedissonOptions, port?: number): RedissonBackend;
  /** All that is published on the channel from now on. */
  hear(channel: string): Promise<readonly string[]>;
  /** The whole store, to be compared. */
  dump(): Promise<readonly string[]>;
}

export const TTL_MS = 20_000;
export const claimOf = (name: string, facts: Partial<Claim> = {}): Claim =>
  newClaim({ name, ttlMs: TTL_MS, queues: false, ...facts });

export async function startLab(): Promise<Lab> {
  const server = await startRedis();
  const clients: Redis[] = [];
  const backends: RedissonBackend[] = [];
  const client = (port = server.port, options: object = {}): Redis => {
    const made = new Redis({ host: server.host, port, password: PASSWORD, maxRetriesPerRequest: null, ...options });
    made.on("error", () => undefined);
    clients.push(made);
    return made;
  };
  const raw = client();
  return {
    server,
    raw,
    java: new Java(raw),
    client,
    backend: (options, port) => {
      const made = redisson(client(port), options);
      backends.push(made);
      return made;
    },
    hear: async (channel) => {
      const heard: string[] = [];
      const subscriber = client();
      subscriber.on("message", (_, text: string) => void heard.push(text));
      await subscriber.subscribe(channel);
      return heard;
    },
    dump: async () => {
      const keys = (await raw.keys("*")).toSorted();
      const contents = async (key: string): Promise<unknown> =>
        (await raw.type(key)) === "hash" ? Object.entries(await raw.hgetall(key)).toSorted() : raw.dump(key);
      return Promise.all(
        keys.map(async (key) => JSON.stringify([key, await contents(key), (await raw.pttl(key)) < 0])),
      );
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.allSettled(backends.map((one) => one.close()));
      for (const one of clients) one.disconnect();
      await server.stop();
    },
  };
}

/** Attempts until the claim is subscribed, so that from now on only a message ends a watch. Far above the longest pause of a poll. */
export async function waits(backend: RedissonBackend, claim: Claim): Promise<void> {
  await eventually("it is subscribed", async () => {
    const answer = await backend.attempt(claim);
    if (answer.granted) throw new Error("expected a refusal");
    if ((answer.retryMs ?? 0) > 1000) return true;
    await backend.watch(claim, AbortSignal.timeout(50));
    return undefined;
  });
}
