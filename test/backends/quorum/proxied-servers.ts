/** Real servers, each behind a proxy per client: a client can be cut off from some members and not from others. */
import { Redis } from "ioredis";
import { afterEach, expect } from "vitest";
import type { Backend, Claim, Member } from "../../../src/contract/backend.ts";
import { type Proxy, startProxy } from "../../../src/lab/proxy.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { makeWallClock, type WallClock } from "../../../src/lab/servers/wall-clock.ts";
import { initMembers, quorum, type QuorumOptions } from "../../../src/backends/quorum/index.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { newClaim } from "./servers.ts";
import { PASSWORD } from "../../login.ts";

/** Whatever a test opened, closed after it in reverse order. */
const opened: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

export interface ProxiedServers {
  readonly servers: readonly RedisServer[];
  /** A client's own network: one proxy per member. */
  readonly proxies: readonly (readonly Proxy[])[];
  /** One quorum per client, each behind its own proxies. */
  readonly backends: readonly Backend[];
  /** The members without any proxy. */
  readonly members: readonly Member[];
  readonly skews: readonly WallClock[];
}

function memberAt(port: number): Member {
  const client = new Redis({
    port,
    host: "127.0.0.1",
    password: PASSWORD,
    maxRetriesPerRequest: null,
    retryStrategy: () => 20,
  });
  client.on("error", () => undefined);
  opened.push(() => client.disconnect());
  return redis(client);
}

export interface ProxiedOptions extends QuorumOptions {
  readonly count?: number;
  readonly clients?: number;
  /** Makes their clocks movable. */
  readonly shifted?: boolean;
}

export async function startProxiedServers({
  count = 5,
  clients = 2,
  shifted = false,
  ...options
}: ProxiedOptions = {}): Promise<ProxiedServers> {
  const skews: WallClock[] = [];
  const servers = await Promise.all(
    Array.from({ length: count }, async (_, at) => {
      if (shifted) skews[at] = await makeWallClock();
      return startRedis(shifted ? { env: skews[at]!.env } : {});
    }),
  );
  for (const wallClock of skews) opened.push(() => wallClock.stop());
  for (const server of servers) {
    opened.push(() => server.stop());
    opened.push(() => server.resume());
  }
  const members = servers.map(({ port }) => memberAt(port));
  const results = await initMembers(members, options);
  expect(results.map(({ result }) => result)).toEqual(servers.map(() => "admitted"));
  const proxies: Proxy[][] = [];
  const backends: Backend[] = [];
  for (let client = 0; client < clients; client++) {
    const own = await Promise.all(servers.map(({ port }) => startProxy({ port })));
    for (const proxy of own) opened.push(() => proxy.stop());
    proxies.push(own);
    const backend = quorum(
      own.map(({ port }) => memberAt(port)),
      { memberWait: "2s", ...options },
    );
    opened.push(() => backend.close());
    backends.push(backend);
  }
  return { servers, proxies, backends, members, skews };
}

/** Between this client and these members nothing passes, from the very first byte. */
export function cutOff({ proxies }: ProxiedServers, client: number, members: readonly number[]): void {
  for (const at of members) proxies[client]![at]!.hang();
}

/** Every connection is open, and every script known to the servers. */
export async function warmUp(backend: Backend): Promise<void> {
  const claim = newClaim({ name: "warm" });
  await granted(backend, claim);
  await backend.release(claim);
}

export async function granted(backend: Backend, claim: Claim): Promise<bigint> {
  const answer = await backend.attempt(claim);
  if (!answer.granted) throw new Error("expected the lease, but was refused");
  return answer.fence;
}

/** Who holds the lock at each member, asked directly. */
export async function holders({ members }: ProxiedServers, name: string): Promise<readonly string[]> {
  const snapshots = await Promise.all(members.map((member) => member.query(name)));
  return snapshots.map(({ held }) => held.map(({ holder }) => holder).join("+"));
}
