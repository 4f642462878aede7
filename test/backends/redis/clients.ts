/** The client libraries that the backend accepts, in every supported major version, and how each connects. */
import { Cluster as Cluster5, Redis as Redis5 } from "ioredis";
import { Cluster as Cluster6, Redis as Redis6 } from "ioredis6";
import { createClient, createCluster, createSentinel } from "redis";
import type { ClusterLab } from "../../../src/lab/servers/cluster.ts";
import type { SentinelLab } from "../../../src/lab/servers/sentinels.ts";
import type { RedisClient } from "../../../src/backends/redis/index.ts";
import { PASSWORD } from "../../login.ts";

export interface Opened {
  readonly client: RedisClient;
  readonly close: () => Promise<void>;
}

export interface Library {
  readonly name: string;
  /** `extra` goes to the library as it is, on top of what the tests need. */
  standalone(port: number, extra?: object): Promise<Opened>;
  /** One that no test waits for: it may never connect. */
  connecting(port: number): Opened;
  sentinel(lab: SentinelLab): Promise<Opened>;
  cluster(lab: Pick<ClusterLab, "nodes">): Promise<Opened>;
}

const HOST = "127.0.0.1";
const quiet = (): void => {};

function ioredis(name: string, Redis: typeof Redis5, Cluster: typeof Cluster5): Library {
  const opened = (client: Redis5 | Cluster5): Opened => {
    client.on("error", quiet);
    return { client, close: () => Promise.resolve(client.disconnect()) };
  };
  const patient = { password: PASSWORD, maxRetriesPerRequest: null, retryStrategy: () => 50 };
  return {
    name,
    standalone: (port, extra) => Promise.resolve(opened(new Redis({ port, host: HOST, ...patient, ...extra }))),
    connecting: (port) => opened(new Redis({ port, host: HOST, ...patient })),
    sentinel: ({ sentinels, service }) => {
      const hosts = sentinels.map(({ port }) => ({ host: HOST, port }));
      const client = new Redis({
        sentinels: hosts,
        name: service,
        ...patient,
        sentinelPassword: PASSWORD,
        sentinelRetryStrategy: () => 50,
      });
      return Promise.resolve(opened(client));
    },
    cluster: ({ nodes }) => {
      const hosts = nodes.map(({ port }) => ({ host: HOST, port }));
      const client = new Cluster(hosts, {
        clusterRetryStrategy: () => 50,
        retryDelayOnFailover: 50,
        retryDelayOnTryAgain: 20,
        redisOptions: patient,
      });
      return Promise.resolve(opened(client));
    },
  };
}

interface NodeRedis {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): unknown;
  on(event: string, listener: () => void): unknown;
}

interface NodeRedisLibrary {
  createClient(options: object): unknown;
  createSentinel(options: object): unknown;
  createCluster(options: object): unknown;
}

export function nodeRedis(name: string, library: NodeRedisLibrary): Library {
  const begin = (made: unknown): Opened & { connected: Promise<unknown> } => {
    const client = made as NodeRedis & RedisClient;
    client.on("error", quiet);
    const close = async (): Promise<void> => {
      if (client.isOpen) await Promise.resolve(client.destroy()).catch(quiet);
    };
    const connected = client.connect();
    connected.catch(quiet);
    return { client, close, connected };
  };
  const opened = async (made: unknown): Promise<Opened> => {
    const begun = begin(made);
    await begun.connected;
    return begun;
  };
  const socket = { reconnectStrategy: () => 50 };
  return {
    name,
    standalone: (port, extra: { socket?: object } = {}) => {
      const own = { ...extra, socket: { host: HOST, port, ...socket, ...extra.socket } };
      return opened(library.createClient({ password: PASSWORD, ...own }));
    },
    connecting: (port) => begin(library.createClient({ password: PASSWORD, socket: { host: HOST, port, ...socket } })),
    sentinel: ({ sentinels, service }) =>
      opened(
        library.createSentinel({
          name: service,
          sentinelRootNodes: sentinels.map(({ port }) => ({ host: HOST, port })),
          nodeClientOptions: { password: PASSWORD, socket },
          sentinelClientOptions: { password: PASSWORD },
          scanInterval: 1000,
        }),
      ),
    cluster: ({ nodes }) =>
      opened(
        library.createCluster({
          rootNodes: nodes.map(({ port }) => ({ socket: { host: HOST, port } })),
          defaults: { password: PASSWORD, socket },
        }),
      ),
  };
}

export const libraries: Readonly<Record<"ioredis5" | "ioredis6" | "redis6", Library>> = {
  ioredis5: ioredis("ioredis 5", Redis5, Cluster5),
  ioredis6: ioredis("ioredis 6", Redis6 as unknown as typeof Redis5, Cluster6 as unknown as typeof Cluster5),
  redis6: nodeRedis("node-redis 6", {
    createClient,
    createSentinel,
    createCluster,
  } as unknown as NodeRedisLibrary),
};
