/** Real redis-servers as members, and quorums over them as several processes would have them. */
import { Redis } from "ioredis";
import type { Backend, Claim, Member } from "../../../src/contract/backend.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { initMembers, quorum, type QuorumOptions } from "../../../src/backends/quorum/index.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import { newClaim as anyClaim } from "../../../src/testing/claim.ts";
import { eventually } from "../../../src/testing/eventually.ts";
import { PASSWORD } from "../../login.ts";

export interface Servers extends AsyncDisposable {
  readonly all: readonly RedisServer[];
  /** All members once more, as another process would see them. */
  members(): readonly Member[];
  /** One more process's quorum. */
  quorum(options?: QuorumOptions): Backend;
  stop(): Promise<void>;
}

/** Starts `count` servers. They are known to be empty, as after `holdfast doctor --init`. */
export async function startServers(count: number): Promise<Servers> {
  const all = await Promise.all(Array.from({ length: count }, () => startRedis()));
  // One connection to each for all quorums: hundreds of them would keep the machine busy with nothing else.
  const clients = all.map(
    ({ host, port }) => new Redis({ host, port, password: PASSWORD, maxRetriesPerRequest: null }),
  );
  for (const client of clients) client.on("error", () => undefined);
  const members = (): readonly Member[] => clients.map((client) => redis(client));
  const stop = async (): Promise<void> => {
    for (const client of clients) client.disconnect();
    for (const server of all) server.resume();
    await Promise.all(all.map((server) => server.stop()));
  };
  const first = members();
  // On a busy machine a new server may answer late.
  await eventually("all members are admitted", async () => {
    const results = await initMembers(first);
    return results.every(({ result }) => result === "admitted") ? true : undefined;
  });
  await Promise.all(first.map((member) => member.close()));
  return {
    all,
    members,
    quorum: (options) => quorum(members(), options),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

export function newClaim(facts: Partial<Claim> = {}): Claim {
  return anyClaim({ ttlMs: 10_000, queues: false, ...facts });
}
