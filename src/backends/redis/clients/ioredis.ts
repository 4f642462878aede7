/** ioredis 5 and 6: standalone, Sentinel and Cluster. */
import type { Connection, OwnConnection, OwnConnectionEvents, Primary, Topology } from "../connection.ts";
import { clusterGatherer, gatherer, type Stream } from "./gather.ts";
import { type Emitter, listen } from "./listeners.ts";
import { slotOf } from "../keys.ts";

/** What is used of ioredis, by structure. */
interface IoredisClient extends Emitter {
  readonly status: string;
  readonly isCluster: boolean;
  readonly options: Options;
  /** Absent on a Cluster: its nodes have them. */
  readonly commandQueue?: { readonly length: number };
  readonly stream?: Stream;
  evalsha(sha: string, keyCount: number | string, ...rest: string[]): Promise<unknown>;
  eval(source: string, keyCount: number, ...rest: string[]): Promise<unknown>;
  call(command: string, ...args: string[]): Promise<unknown>;
  duplicate(...args: never[]): unknown;
}

interface Options {
  readonly host?: string;
  readonly port?: number;
  readonly keyPrefix?: string;
  readonly stringNumbers?: boolean;
  readonly sentinels?: unknown[];
  readonly redisOptions?: Options;
}

interface NodeClient extends IoredisClient {
  duplicate(override: object): OwnClient;
}

interface OwnClient extends Omit<IoredisClient, "stream"> {
  readonly stream?: { unref?(): void };
  connect(): Promise<void>;
  disconnect(): void;
  subscribe(...channels: string[]): Promise<unknown>;
  unsubscribe(...channels: string[]): Promise<unknown>;
  ssubscribe(...channels: string[]): Promise<unknown>;
  sunsubscribe(...channels: string[]): Promise<unknown>;
}

interface ClusterClient extends IoredisClient {
  readonly slots: readonly (readonly string[] | undefined)[];
  nodes(role?: "master"): NodeClient[];
}

export function isIoredis(client: unknown): client is IoredisClient {
  if (typeof client !== "object" || client === null) return false;
  const c = client as Record<string, unknown>;
  return typeof c["status"] === "string" && typeof c["evalsha"] === "function" && typeof c["pipeline"] === "function";
}

export function adaptIoredis(client: IoredisClient): Connection {
  const { options } = client;
  const topology: Topology = client.isCluster ? "cluster" : options.sentinels?.length ? "sentinel" : "standalone";
  const keyPrefix = options.keyPrefix ?? options.redisOptions?.keyPrefix ?? "";
  const read = options.stringNumbers || options.redisOptions?.stringNumbers ? withNumbers : undefined;
  let wasReady = false;
  let breaks = 0;
  const nodeOf = (key: string): string => (client.isCluster ? addressOf(client as ClusterClient, keyPrefix + key) : "");
  const gather = client.isCluster ? clusterGatherer(nodeOf, (address) => nodeAt(client, address)) : gatherer(client);
  const evalsha = (sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown> => {
    gather(keys[0] as string);
    return client.evalsha(sha, keys.length, ...keys, ...args);
  };
  const connection: Connection = {
    topology,
    keyPrefix,
    evalsha: (sha, keys, args) => {
      const one = keys.length > 1 ? nodeAt(client, nodeOf(keys[0] as string)) : undefined;
      if (one === undefined) return evalsha(sha, keys, args);
      // Straight to the node: the library would repeat a call whose slot is half moved (TRYAGAIN) for seconds, and the caller can do
      // better.
      const full = one.options.keyPrefix ? keys : keys.map((key) => keyPrefix + key);
      return one.evalsha(sha, full.length, ...full, ...args).catch((error: unknown) => {
        if (error instanceof Error && /^(TRYAGAIN|NOSCRIPT)/u.test(error.message)) throw error;
        return evalsha(sha, keys, args);
      });
    },
    evalshaOn: (sha, key, other, first, second) => {
      gather(key);
      if (other === undefined) {
        return second === undefined
          ? client.evalsha(sha, "1", key, first)
          : client.evalsha(sha, "1", key, first, second);
      }
      return second === undefined
        ? client.evalsha(sha, "2", key, other, first)
        : client.evalsha(sha, "2", key, other, first, second);
    },
    eval: (source, keys, args) => client.eval(source, keys.length, ...keys, ...args),
    primaries: () => Promise.resolve(primariesOf(client)),
    nodeOf,
    breaks: () => breaks,
    isDown: () => {
      // A client that connects for the first time is not down.
      const isReady = client.status === "ready";
      wasReady ||= isReady;
      return wasReady && !isReady;
    },
    onReconnect: (back) => {
      const broken = (): void => void breaks++;
      return client.isCluster ? watchCluster(client as ClusterClient, back, broken) : watch(client, back, broken);
    },
    openOwn: (to, events) => openOwn(client, to, events),
  };
  return read === undefined ? connection : reading(connection, read);
}

/** With `stringNumbers` every integer is returned as text. The integers in our replies are short; texts (times, fences) are longer. */
function withNumbers(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(withNumbers);
  return typeof reply === "string" && /^-?\d{1,12}$/u.test(reply) ? Number(reply) : reply;
}

function reading(connection: Connection, read: (reply: unknown) => unknown): Connection {
  return {
    ...connection,
    evalsha: (sha, keys, args) => connection.evalsha(sha, keys, args).then(read),
    evalshaOn: (sha, key, other, first, second) => connection.evalshaOn(sha, key, other, first, second).then(read),
    eval: (source, keys, args) => connection.eval(source, keys, args).then(read),
  };
}

function primariesOf(client: IoredisClient): readonly Primary[] {
  const nodes = client.isCluster ? (client as ClusterClient).nodes("master") : [client];
  return nodes.map((node) => ({
    address: client.isCluster ? nameOf(node) : "",
    command: ([name, ...rest]) => node.call(name as string, ...rest),
  }));
}

function nameOf({ options: { host, port } }: IoredisClient): string {
  return `${host}:${port}`;
}

function addressOf(client: ClusterClient, key: string): string {
  return client.slots[slotOf(key)]?.[0] ?? "";
}

function nodeAt(client: IoredisClient, address: string): NodeClient | undefined {
  return address === "" ? undefined : (client as ClusterClient).nodes().find((node) => nameOf(node) === address);
}

/** Calls `back` at every "ready" but the first of a client that is still connecting, and `broken` whenever a connection ended. */
function watch(client: IoredisClient, back: () => void, broken: () => void): () => void {
  let seen = client.status === "ready";
  const stopReady = listen(client, "ready", () => {
    if (seen) back();
    seen = true;
  });
  const stopClose = listen(client, "close", broken);
  return () => {
    stopReady();
    stopClose();
  };
}

function watchCluster(client: ClusterClient, back: () => void, broken: () => void): () => void {
  const stops: Map<IoredisClient, () => void> = new Map();
  const follow = (node: IoredisClient): void => {
    if (!stops.has(node)) stops.set(node, watch(node, back, broken));
  };
  client.nodes("master").forEach(follow);
  const stopAdded = listen(client, "+node", (node) => {
    follow(node as IoredisClient);
    back();
  });
  const stopRemoved = listen(client, "-node", (node) => {
    stops.get(node as IoredisClient)?.();
    stops.delete(node as IoredisClient);
    broken();
  });
  return () => {
    stopAdded();
    stopRemoved();
    for (const stop of stops.values()) stop();
  };
}

/** The options of our own connections, whatever the client's are: one socket, no retries, and no time-outs but the caller's. */
const OWN = {
  keyPrefix: "",
  stringNumbers: false,
  lazyConnect: true,
  enableOfflineQueue: true,
  enableAutoPipelining: false,
  readOnly: false,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: null,
  retryStrategy: null,
  sentinelRetryStrategy: () => null,
  // One that hangs must not delay the next.
  sentinelCommandTimeout: 2000,
  reconnectOnError: null,
  failoverDetector: false,
  commandTimeout: undefined,
  socketTimeout: undefined,
  blockingTimeout: undefined,
  connectionName: "holdfast",
};

async function openOwn(client: IoredisClient, to: string, events: OwnConnectionEvents): Promise<OwnConnection> {
  const [template, where] = client.isCluster ? await nodeFor(client as ClusterClient, to) : [client as NodeClient, {}];
  const own = template.duplicate({ ...OWN, ...where });
  // Errors appear in the commands that fail; without a listener they would be printed.
  own.on("error", () => {});
  const heard = ((channel: string, text: string) => events.message(channel, text)) as (...args: never[]) => void;
  own.on("message", heard);
  own.on("smessage", heard);
  await own.connect().catch((error: unknown) => {
    own.disconnect();
    throw error;
  });
  let ended = false;
  const end = (): void => {
    if (ended) return;
    ended = true;
    events.ended();
  };
  own.on("close", end);
  // It must not keep a process alive.
  own.stream?.unref?.();
  return {
    get isOpen() {
      return !ended && own.status === "ready";
    },
    send: async (commands) => {
      const asked = commands.map(([name, ...rest]) => own.call(name as string, ...rest));
      const answers = await Promise.allSettled(asked);
      return answers.map((answer) => {
        if (answer.status === "fulfilled") return answer.value;
        // An error reply is an answer; any other error means that the socket is gone.
        if ((answer.reason as Error).name !== "ReplyError") throw answer.reason;
        return answer.reason as unknown;
      });
    },
    subscribe: async (channels) => void (await own.subscribe(...channels)),
    subscribeSharded: async (channel) => void (await own.ssubscribe(channel)),
    unsubscribe: async (channel, sharded = false) => {
      await Promise.all([own.unsubscribe(channel), sharded && own.sunsubscribe(channel)]);
    },
    close: () => own.disconnect(),
  };
}

/** A client to copy, and where the copy connects to: a cluster may redirect us to a node that the client does not know yet. */
async function nodeFor(client: ClusterClient, address: string): Promise<[NodeClient, object]> {
  // A client that has not been used yet knows no nodes.
  if (client.nodes().length === 0) await client.call("PING");
  const nodes = client.nodes(address === "" ? "master" : undefined);
  const known = address === "" ? undefined : nodes.find((node) => nameOf(node) === address);
  const any = known ?? nodes[Math.floor(Math.random() * nodes.length)];
  if (any === undefined) throw new Error("no node of the cluster is known");
  if (known !== undefined || address === "") return [any, {}];
  const colon = address.lastIndexOf(":");
  return [any, { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) }];
}
