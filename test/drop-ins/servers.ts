/** Redis servers for the drop-ins, alone and as clusters of one node each, and clients of them that end with the test. */
import { Cluster, Redis, type RedisOptions } from "ioredis";
import { type RedisServer, startRedis } from "../../src/lab/servers/redis.ts";
import { eventually } from "../../src/testing/eventually.ts";

export interface Servers extends AsyncDisposable {
  readonly servers: readonly RedisServer[];
  /** Of the first server. */
  readonly raw: Redis;
  /** One for each server. */
  readonly raws: readonly Redis[];
  /** Another client of one of them. */
  client(at?: number, options?: RedisOptions): Redis;
  clients(options?: RedisOptions): Redis[];
}

export async function startServers(count: number): Promise<Servers> {
  const servers = await Promise.all(Array.from({ length: count }, () => startRedis()));
  const made: Redis[] = [];
  const client = (at = 0, options: RedisOptions = {}): Redis => {
    const { host, port, password } = servers[at] as RedisServer;
    const one = new Redis({ host, port, password, ...options });
    one.on("error", () => undefined);
    made.push(one);
    return one;
  };
  const clients = (options?: RedisOptions): Redis[] => servers.map((_, at) => client(at, options));
  const raws = clients({ maxRetriesPerRequest: null });
  return {
    servers,
    raw: raws[0] as Redis,
    raws,
    client,
    clients,
    [Symbol.asyncDispose]: async () => {
      for (const one of made) one.disconnect();
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

export interface Clusters extends AsyncDisposable {
  readonly clients: readonly Cluster[];
}

export async function startClusters(count: number): Promise<Clusters> {
  const servers = await Promise.all(
    Array.from({ length: count }, () =>
      startRedis({ args: ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"] }),
    ),
  );
  const clients: Cluster[] = [];
  for (const server of servers) {
    await server.cli("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
    await eventually("the cluster serves", async () =>
      (await server.cli("CLUSTER", "INFO")).includes("cluster_state:ok") ? true : undefined,
    );
    const { host, port, password } = server;
    const cluster = new Cluster([{ host, port }], { redisOptions: { password } });
    cluster.on("error", () => undefined);
    clients.push(cluster);
  }
  return {
    clients,
    [Symbol.asyncDispose]: async () => {
      for (const one of clients) one.disconnect();
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}
