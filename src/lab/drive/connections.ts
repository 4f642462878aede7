/** Clients of Redis for the driver: every library, every topology, each connection through a proxy. */
import type { RedisClient } from "../../backends/redis/index.ts";
import { HOST } from "../servers/scratch.ts";
import { labPassword } from "../servers/secret.ts";

export const CLIENT_LIBRARIES = ["ioredis", "ioredis6", "node-redis"] as const;
export type ClientLibrary = (typeof CLIENT_LIBRARIES)[number];

export interface Connected {
  readonly client: RedisClient;
  /** How many listeners the client has: backends come and go, and take theirs with them. */
  listeners(): number;
  close(): Promise<void>;
}

/** Ports as clients must see them, by the ports that the servers report. */
export type PortMap = ReadonlyMap<number, number>;

export interface Where {
  readonly topology: "standalone" | "sentinel" | "cluster";
  /** What the client gets: the server, the sentinels, or nodes of the cluster. */
  readonly ports: readonly number[];
  readonly service?: string | undefined;
  readonly map?: PortMap | undefined;
}

interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown;
  eventNames(): readonly (string | symbol)[];
  listenerCount(event: string | symbol): number;
}

type IoredisClient = Emitter & { disconnect(): void; ping(): Promise<unknown> };

interface Ioredis {
  readonly Redis: new (options: object) => IoredisClient;
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient;
}

type NodeRedisClient = Emitter & { readonly isOpen: boolean; connect(): Promise<unknown>; destroy(): unknown };
type NodeRedis = Readonly<
  Record<"createClient" | "createSentinel" | "createCluster", (options: object) => NodeRedisClient>
>;

/** Packages by the names that this repository gives them. */
const PACKAGES: Readonly<Record<ClientLibrary, string>> = {
  ioredis: "ioredis",
  ioredis6: "ioredis6",
  "node-redis": "redis",
};

export async function connectRedis(library: ClientLibrary, where: Where): Promise<Connected> {
  const loaded: unknown = await import(PACKAGES[library]);
  return library.startsWith("ioredis")
    ? withIoredis(loaded as Ioredis, where)
    : withNodeRedis(loaded as NodeRedis, where);
}

async function withIoredis({ Redis, Cluster }: Ioredis, { topology, ports, service, map }: Where): Promise<Connected> {
  const password = labPassword();
  const patient = { password, maxRetriesPerRequest: null, retryStrategy: () => 50, socketTimeout: 5000 };
  const natMap = map && Object.fromEntries([...map].map(([from, to]) => [`${HOST}:${from}`, { host: HOST, port: to }]));
  const hosts = ports.map((port) => ({ host: HOST, port }));
  const make = {
    standalone: () => new Redis({ ...hosts[0], ...patient }),
    sentinel: () =>
      new Redis({
        ...patient,
        sentinels: hosts,
        name: service,
        sentinelPassword: password,
        sentinelRetryStrategy: () => 50,
        failoverDetector: true,
        natMap,
      }),
    cluster: () =>
      new Cluster(hosts, {
        clusterRetryStrategy: () => 50,
        retryDelayOnFailover: 50,
        retryDelayOnTryAgain: 20,
        slotsRefreshTimeout: 2000,
        enableReadyCheck: false,
        redisOptions: patient,
        natMap,
      }),
  };
  const client = make[topology]();
  client.on("error", () => undefined);
  await client.ping();
  return {
    client: client as unknown as RedisClient,
    listeners: () => listenersOf(client),
    close: () => Promise.resolve(client.disconnect()),
  };
}

async function withNodeRedis(library: NodeRedis, { topology, ports, service, map }: Where): Promise<Connected> {
  const password = labPassword();
  const socket = { reconnectStrategy: () => 50 };
  const hosts = ports.map((port) => ({ host: HOST, port }));
  const nodeAddressMap =
    map && Object.fromEntries([...map].map(([from, to]) => [`${HOST}:${from}`, { host: HOST, port: to }]));
  const make = {
    standalone: () => library.createClient({ password, RESP: 2, socket: { ...hosts[0], ...socket } }),
    sentinel: () =>
      library.createSentinel({
        name: service,
        sentinelRootNodes: hosts,
        nodeClientOptions: { password, socket },
        sentinelClientOptions: { password },
        scanInterval: 1000,
        nodeAddressMap,
        RESP: 2,
      }),
    cluster: () =>
      library.createCluster({
        rootNodes: hosts.map((host) => ({ socket: { ...host, socketTimeout: 2000 } })),
        defaults: { password, socket, RESP: 2 },
        minimizeConnections: true,
        nodeAddressMap,
        RESP: 2,
      }),
  };
  const client = make[topology]();
  client.on("error", () => undefined);
  await client.connect();
  return {
    client: client as unknown as RedisClient,
    listeners: () => listenersOf(client),
    close: async () => {
      if (client.isOpen) await Promise.resolve(client.destroy()).catch(() => undefined);
    },
  };
}

function listenersOf(client: Emitter): number {
  return client.eventNames().reduce((sum, event) => sum + client.listenerCount(event), 0);
}
