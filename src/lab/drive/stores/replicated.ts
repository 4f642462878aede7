/** Redis that fails over, under the driver: behind sentinels, or a cluster; with the settings for which exclusion is promised. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Locks } from "../../../core/api.ts";
import type { RedisOptions } from "../../../backends/redis/index.ts";
import { startCluster } from "../../servers/cluster.ts";
import type { RedisServer } from "../../servers/redis.ts";
import { startSentinels, until } from "../../servers/sentinels.ts";
import { endlessKeys } from "../../stages/redis.ts";
import { type ClientLibrary, type Connected, connectRedis, type Where } from "../connections.ts";
import type { Holdfast } from "../library.ts";
import type { ServerAct } from "../schedule.ts";
import type { DrivenStore, StoreName } from "../store.ts";
import { calm, proxiesFor, strike } from "./redis.ts";

const TTL_MS = 1000;
/** A primary without a replica accepts nothing; what it granted before is over when its successor grants. */
const GUARDED = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"];
const QUARANTINE: RedisOptions = { failover: "quarantine", maxTtl: TTL_MS, maxLag: "3s" };

interface Kind {
  readonly name: StoreName;
  readonly where: Where;
  readonly servers: readonly RedisServer[];
  readonly serverActs: readonly ServerAct[];
  failOver(server: RedisServer): Promise<void>;
  /** Resolves when there is a primary, with a replica, for everything. */
  whole(): Promise<void>;
  stop(): Promise<void>;
}

export async function driveSentinel(holdfast: Holdfast, library: ClientLibrary): Promise<DrivenStore> {
  const lab = await startSentinels({ args: GUARDED });
  const servers = [lab.primary, ...lab.replicas];
  const [sentinel] = lab.sentinels as readonly [RedisServer];
  return toStore(holdfast, library, {
    name: "sentinel",
    where: { topology: "sentinel", ports: lab.sentinels.map(({ port }) => port), service: lab.service },
    servers,
    serverActs: ["pause", "restart", "fail over"],
    // It refuses while another is under way.
    failOver: async () => void (await sentinel.cli("SENTINEL", "FAILOVER", lab.service).catch(() => undefined)),
    whole: async () => {
      await until("the primary has a replica", async () => {
        const port = await lab.currentPrimary().catch(() => 0);
        const primary = servers.find((server) => server.port === port);
        return primary === undefined ? undefined : hasReplica(primary);
      });
    },
    stop: () => lab.stop(),
  });
}

export async function driveCluster(holdfast: Holdfast, library: ClientLibrary): Promise<DrivenStore> {
  const lab = await startCluster({ args: GUARDED });
  return toStore(holdfast, library, {
    name: "cluster",
    where: { topology: "cluster", ports: lab.nodes.map(({ port }) => port) },
    servers: lab.nodes,
    serverActs: ["pause", "fail over"],
    // Only a replica can take over.
    failOver: async (node) => void (await node.cli("CLUSTER", "FAILOVER").catch(() => undefined)),
    whole: async () => {
      await until("the cluster is whole", async () => {
        const primaries = await Promise.all(
          lab.nodes.map(async (node) => ((await role(node)) === "master" ? hasReplica(node) : undefined)),
        );
        const infos = await Promise.all(lab.nodes.map((node) => node.cli("CLUSTER", "INFO").catch(() => "")));
        const ok = infos.every((info) => info.includes("cluster_state:ok"));
        return ok && primaries.filter((one) => one === true).length === 3 ? true : undefined;
      });
    },
    stop: () => lab.stop(),
  });
}

async function role(server: RedisServer): Promise<string> {
  return (await server.cli("ROLE").catch(() => "")).split("\n")[0] ?? "";
}

async function hasReplica(server: RedisServer): Promise<true | undefined> {
  const info = await server.cli("INFO", "replication").catch(() => "");
  return info.includes("state=online") && info.includes("role:master") && !info.includes("min_slaves_good_slaves:0")
    ? true
    : undefined;
}

async function toStore(holdfast: Holdfast, library: ClientLibrary, kind: Kind): Promise<DrivenStore> {
  const { name, servers, where } = kind;
  const open = ({ client }: Connected, holder: string, run: number): Locks =>
    holdfast.createLocks(holdfast.redis(client, { ...QUARANTINE, run }), { holder });
  await kind.whole();
  const direct = await connectRedis("ioredis", where);
  await endQuarantine(holdfast, direct);
  const observer = open(direct, "observer", 1);
  const stop = async (): Promise<void> => {
    await observer.close().catch(() => undefined);
    await direct.close();
    await kind.stop();
  };
  return {
    name,
    possible: {
      clients: 3,
      servers: servers.length,
      serverActs: kind.serverActs,
      processActs: [],
      network: true,
      limits: true,
      ttls: [TTL_MS],
      linger: holdfast.lingers,
      mayForget: kind.serverActs.includes("restart"),
    },
    client: async () => {
      const proxies = await proxiesFor(servers.map(({ port }) => port));
      const map = new Map(servers.map(({ port }, i) => [port, proxies[i]?.port ?? port]));
      // Sentinels are asked directly: they say where the primary is, and the map replaces that by a proxy.
      const ports = where.topology === "cluster" ? where.ports.map((port) => map.get(port) ?? port) : where.ports;
      const connected = await connectRedis(library, { ...where, ports, map });
      return {
        proxies,
        open: (holder, run) => open(connected, holder, run),
        listeners: () => connected.listeners(),
        close: async () => {
          await connected.close();
          await Promise.all(proxies.map((proxy) => proxy.stop()));
        },
      };
    },
    look: (prefix) => observer.query(prefix),
    strike: async (what, at, forMs) => {
      const server = servers[at % servers.length] as RedisServer;
      if (what !== "fail over") return strike(server, what, forMs);
      await kind.failOver(server);
      await sleep(forMs);
    },
    calm: async () => {
      await calm(servers);
      await kind.whole();
    },
    // A cluster's scripts may not look at all keys; what there is in one Redis there is in each.
    leaks: async () => (where.topology === "cluster" ? [] : (await Promise.all(servers.map(endlessKeys))).flat()),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** A new store begins with a quarantine; an operator ends it. */
async function endQuarantine(holdfast: Holdfast, { client }: Connected): Promise<void> {
  const backend = holdfast.redis(client, QUARANTINE);
  await until("writes are accepted", async () =>
    backend.endQuarantine?.().then(
      () => true as const,
      () => undefined,
    ),
  );
  await backend.close();
}
