/** One redis-server, or several that know nothing of each other. */
import { initMembers } from "../../backends/quorum/admit-members.ts";
import { openMembers } from "../../backends/quorum/open.ts";
import { eventually } from "../../testing/eventually.ts";
import { leftInRedis } from "../leftovers.ts";
import { openObserver } from "../observers.ts";
import { HOST } from "../servers/scratch.ts";
import { startRedis } from "../servers/redis.ts";
import type { RedisServer } from "../servers/redis.ts";
import { labPassword } from "../servers/secret.ts";
import { makeWallClock } from "../servers/wall-clock.ts";
import type { WallClock } from "../servers/wall-clock.ts";
import type { Stage, StageServer } from "../stage.ts";
import { makeLinks } from "./proxied-links.ts";

export interface RedisStageOptions {
  /** True: nothing is lost at a crash (`appendfsync always`). @default false */
  readonly durable?: boolean | undefined;
}

export interface QuorumStageOptions {
  /** @default 3 */
  readonly members?: number | undefined;
  /** The longest ttl of the play, which is how long a member that forgot abstains. @default 2000 */
  readonly maxTtlMs?: number | undefined;
}

const DURABLE = ["--appendonly", "yes", "--appendfsync", "always"];

export async function openRedisStage(options: RedisStageOptions = {}): Promise<Stage> {
  const servers = await startAll(1, options.durable === true ? DURABLE : []);
  const links = makeLinks(portsOf(servers), ([host]) => `redis://:${labPassword()}@${host}`);
  return toStage("redis", servers, links);
}

export async function openQuorumStage(options: QuorumStageOptions = {}): Promise<Stage> {
  const { members = 3, maxTtlMs = 2000 } = options;
  const servers = await startAll(members, []);
  const toUrl = (hosts: readonly string[]): string =>
    `redlock://:${labPassword()}@${hosts.join(",")}?maxTtl=${maxTtlMs}ms`;
  await endQuarantine(toUrl(portsOf(servers).map((port) => `${HOST}:${port}`)));
  const links = makeLinks(portsOf(servers), toUrl);
  return toStage("quorum", servers, links);
}

/** New members abstain until their quarantine is ended: `holdfast doctor --init`. On a busy machine a new server may answer late. */
async function endQuarantine(url: string): Promise<void> {
  const { members, options } = await openMembers(url);
  try {
    await eventually("all members answer", async () => {
      const results = await initMembers(members, options);
      return results.every(({ result }) => result !== "failed") ? true : undefined;
    });
  } finally {
    await Promise.all(members.map((member) => member.close()));
  }
}

interface ShiftedServer {
  readonly server: RedisServer;
  readonly wallClock: WallClock;
}

async function startAll(count: number, args: readonly string[]): Promise<readonly ShiftedServer[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const wallClock = await makeWallClock();
      return { wallClock, server: await startRedis({ args, env: wallClock.env }) };
    }),
  );
}

function portsOf(servers: readonly ShiftedServer[]): readonly number[] {
  return servers.map(({ server }) => server.port);
}

function toStage(
  backend: "redis" | "quorum",
  servers: readonly ShiftedServer[],
  links: ReturnType<typeof makeLinks>,
): Stage {
  const nameOf = (i: number): string => (servers.length === 1 ? "redis" : `redis ${i + 1}`);
  const stop = async (): Promise<void> => {
    await links.stop();
    await Promise.all(servers.map(({ server }) => server.stop()));
    for (const { wallClock } of servers) wallClock.stop();
  };
  return {
    backend,
    servers: servers.map((shifted, i) => toStageServer(nameOf(i), shifted)),
    link: (client) => links.link(client),
    observe: () => Promise.all(servers.map(({ server }, i) => openObserver(nameOf(i), server.url))),
    left: async () => (await Promise.all(servers.map(({ server }) => leftInRedis(server)))).flat(),
    leaks: async () => (await Promise.all(servers.map(({ server }) => endlessKeys(server)))).flat(),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function toStageServer(name: string, { server, wallClock }: ShiftedServer): StageServer {
  return {
    name,
    pause: () => server.pause(),
    resume: () => server.resume(),
    kill: () => server.kill(),
    restart: () => server.restart(),
    flush: async () => void (await server.cli("FLUSHALL")),
    jump: (ms) => wallClock.jump(ms),
  };
}

const LIST_ENDLESS = `
local endless, cursor = {}, "0"
repeat
  local page = redis.call("SCAN", cursor, "COUNT", 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    if redis.call("PTTL", key) == -1 then endless[#endless + 1] = key end
  end
until cursor == "0"
return endless`;

/** Keys that would stay for ever. */
export async function endlessKeys(server: RedisServer): Promise<readonly string[]> {
  const answer = await server.cli("EVAL", LIST_ENDLESS, "0");
  return answer.split("\n").filter((name) => name !== "");
}
