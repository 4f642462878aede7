/** What the Redis tests share: clients that are closed for them, and how the core waits. */
import { Redis, type RedisOptions as IoredisOptions } from "ioredis";
import { vi } from "vitest";
import type { Backend, Claim, Granted } from "../../../src/contract/backend.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import type { SentinelLab } from "../../../src/lab/servers/sentinels.ts";
import { type RedisBackend, redis, type RedisOptions } from "../../../src/backends/redis/index.ts";
import { PASSWORD } from "../../login.ts";

export { granted, refused } from "../../../src/testing/attempts.ts";
export { newClaim as claimOf, rivalOf } from "../../../src/testing/claim.ts";
export { eventually };

// On a busy machine a server takes its time to start. These limits only end what has failed anyway.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve_) => setTimeout(resolve_, ms));
}

/** For {@link startSentinels}: on a busy machine a primary may be silent for seconds, and no fail-over is wanted because of it. */
export const UNHURRIED: { readonly downAfterMs: number } = { downAfterMs: 120_000 };

/** From now on these sentinels call a silent primary down after half a second. */
export async function hurry({ sentinels, service }: Pick<SentinelLab, "sentinels" | "service">): Promise<void> {
  const soon = ["SENTINEL", "SET", service, "down-after-milliseconds", "500"] as const;
  await Promise.all(sentinels.map((sentinel) => sentinel.cli(...soon)));
}

/** Waits as the core does, without its pace: attempt, watch, attempt. */
export async function waitFor(backend: Backend, claim: Claim): Promise<Granted> {
  return eventually(`${claim.name} is granted`, async () => {
    const answer = await backend.attempt(claim);
    if (answer.granted) return answer;
    return backend.watch?.(claim, AbortSignal.timeout(answer.retryMs ?? 1000));
  });
}

/** Clients and backends that are closed at the end of a test. */
export class Clients implements AsyncDisposable {
  readonly #closes: (() => unknown)[] = [];

  /** A client that never gives up, as a lock's client should be. */
  client(port: number, options: IoredisOptions = {}): Redis {
    const client = new Redis({
      port,
      host: "127.0.0.1",
      password: PASSWORD,
      maxRetriesPerRequest: null,
      retryStrategy: () => 20,
      ...options,
    });
    client.on("error", () => {});
    this.#closes.push(() => client.disconnect());
    return client;
  }

  backend(port: number, options: RedisOptions = {}, client: IoredisOptions = {}): RedisBackend {
    return this.own(redis(this.client(port, client), options));
  }

  own<T extends { close(): unknown }>(opened: T): T {
    this.#closes.push(() => opened.close());
    return opened;
  }

  later(close: () => unknown): void {
    this.#closes.push(close);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const close of this.#closes.toReversed()) await close();
  }
}

/** How often the server ran each command since the last reset; scripts' own calls are counted too. */
export async function calls(client: Redis): Promise<Record<string, number>> {
  const stats = await client.info("commandstats");
  const found = stats.matchAll(/cmdstat_([\w|]+):calls=(\d+)/gu);
  return Object.fromEntries([...found].map(([, name, count]) => [name as string, Number(count)]));
}

/** Every key that would stay for ever. */
export async function immortalKeys(client: Redis): Promise<string[]> {
  const keys = await client.keys("*");
  const ttls = await Promise.all(keys.map((key) => client.pttl(key)));
  return keys.filter((_, index) => ttls[index] === -1);
}
