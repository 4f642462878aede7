/** node-redis 6: standalone, Sentinel and Cluster. */
import type { Connection, OwnConnection, OwnConnectionEvents, Primary, Topology } from "../connection.ts";
import { type Emitter, listen } from "./listeners.ts";
import { slotOf } from "../keys.ts";

type Listener = (text: string, channel: string) => void;

/** What is used of node-redis, by structure. How a raw command is sent differs by kind. */
interface NodeRedisClient extends Emitter {
  readonly isOpen: boolean;
  /** On a Cluster: from connect() until it is closed, whatever its nodes do. */
  readonly isReady: boolean;
  sendCommand(...args: never[]): Promise<unknown>;
}

interface Standalone extends NodeRedisClient {
  readonly options?: { readonly socket?: object };
  sendCommand(args: readonly string[], options?: object): Promise<unknown>;
  duplicate(overrides: object): Own;
}

interface Own extends Standalone {
  connect(): Promise<unknown>;
  subscribe(channels: readonly string[], listener: Listener): Promise<unknown>;
  unsubscribe(channel: string, listener?: Listener): Promise<unknown>;
  sSubscribe(channels: string, listener: Listener): Promise<unknown>;
  sUnsubscribe(channel: string, listener?: Listener): Promise<unknown>;
  unref(): void;
  destroy(): void;
}

interface Sentinel extends NodeRedisClient {
  /** Calls with the client of the present primary, when there is one, and again when its connection ended. */
  _execute<T>(readOnly: boolean, work: (primary: Standalone) => Promise<T>): Promise<T>;
}

interface ClusterNode {
  readonly address: string;
}

interface Cluster extends NodeRedisClient {
  readonly masters: readonly ClusterNode[];
  readonly slots: readonly ({ readonly master: ClusterNode } | undefined)[];
  sendCommand(key: string | undefined, readOnly: boolean, args: readonly string[], options?: object): Promise<unknown>;
  nodeClient(node: ClusterNode): Standalone | Promise<Standalone>;
}

/** Replies come as the server's own types, whatever mapping the client was given: Buffers, or numbers as text. */
const PLAIN = { typeMapping: {} };

export function isNodeRedis(client: unknown): client is NodeRedisClient {
  if (typeof client !== "object" || client === null) return false;
  const c = client as Record<string, unknown>;
  return typeof c["sendCommand"] === "function" && typeof c["isOpen"] === "boolean" && typeof c["on"] === "function";
}

/** What makes a client of either library useless for locks, or `undefined`. */
export function whyUnusable(client: unknown): string | undefined {
  if (typeof client !== "object" || client === null) return undefined;
  const c = client as Record<string, unknown>;
  if (typeof c["execute"] === "function" && typeof c["totalClients"] === "number") {
    return "a pool (createClientPool): its connections come and go. Give it a client of its own: createClient()";
  }
  const subscribes = c["mode"] === "subscriber" || (c["isPubSubActive"] === true && speaksResp2(c));
  return subscribes
    ? "one in subscriber mode, which cannot run commands. Give it another connection: client.duplicate()"
    : undefined;
}

/** With RESP3, which is the default, a client may subscribe and run commands. */
function speaksResp2(client: Record<string, unknown>): boolean {
  return (client["options"] as { RESP?: number } | undefined)?.RESP === 2;
}

export function adaptNodeRedis(client: NodeRedisClient): Connection {
  const topology = topologyOf(client);
  let wasReady = false;
  let breaks = 0;
  const send = sender(client, topology, () => void breaks++);
  const evalsha = (command: string) => (text: string, keys: readonly string[], args: readonly string[]) =>
    send(keys[0], [command, text, String(keys.length), ...keys, ...args]);
  return {
    topology,
    keyPrefix: "",
    evalsha: evalsha("EVALSHA"),
    evalshaOn: (sha, key, other, first, second) => {
      const args = other === undefined ? ["EVALSHA", sha, "1", key, first] : ["EVALSHA", sha, "2", key, other, first];
      if (second !== undefined) args.push(second);
      return send(key, args);
    },
    eval: evalsha("EVAL"),
    primaries: () => primariesOf(client, topology, send),
    nodeOf: (key) => (topology === "cluster" ? ((client as Cluster).slots[slotOf(key)]?.master.address ?? "") : ""),
    breaks: () => breaks,
    isDown: () => {
      wasReady ||= client.isReady;
      return wasReady && !client.isReady;
    },
    onReconnect: (back) => listen(client, BACK[topology], back),
    openOwn: (to, events) => openOwn(client, topology, to, events),
  };
}

function topologyOf(client: NodeRedisClient): Topology {
  if (typeof (client as Partial<Cluster>).nodeClient === "function") return "cluster";
  if ("getSentinelNode" in client) return "sentinel";
  return "standalone";
}

/** Only a Sentinel client repeats a command whose connection ended, and calls `again` then. The others reject it. */
function sender(
  client: NodeRedisClient,
  topology: Topology,
  again: () => void,
): (key: string | undefined, args: readonly string[]) => Promise<unknown> {
  if (topology === "cluster") return (key, args) => (client as Cluster).sendCommand(key, false, args, PLAIN);
  if (topology === "sentinel") {
    return (_, args) => {
      let sent = false;
      return (client as Sentinel)._execute(false, (primary) => {
        if (sent) again();
        sent = true;
        return primary.sendCommand(args, PLAIN);
      });
    };
  }
  return (_, args) => (client as Standalone).sendCommand(args, PLAIN);
}

async function primariesOf(
  client: NodeRedisClient,
  topology: Topology,
  send: (key: string | undefined, args: readonly string[]) => Promise<unknown>,
): Promise<readonly Primary[]> {
  if (topology !== "cluster") return [{ address: "", command: (args) => send(undefined, args) }];
  const cluster = client as Cluster;
  // Each separately: one that cannot be reached must not delay the others.
  return cluster.masters.map((master) => ({
    address: master.address,
    command: async (args) => (await cluster.nodeClient(master)).sendCommand(args, PLAIN),
  }));
}

const BACK = { standalone: "ready", sentinel: "topology-change", cluster: "node-ready" } as const;

/** The options of our own connections, whatever the client's are: one socket, no retries, and no time-outs but the caller's. */
const OWN_SOCKET = { reconnectStrategy: false, socketTimeout: undefined };
const OWN = {
  name: "holdfast",
  disableOfflineQueue: false,
  commandsQueueMaxLength: undefined,
  pingInterval: undefined,
  clientSideCache: undefined,
  commandOptions: PLAIN,
};

async function openOwn(
  client: NodeRedisClient,
  topology: Topology,
  to: string,
  events: OwnConnectionEvents,
): Promise<OwnConnection> {
  const [template, where] = await templateFor(client, topology, to);
  const own = template.duplicate({ ...OWN, socket: { ...template.options?.socket, ...OWN_SOCKET, ...where } });
  let ended = false;
  const end = (): void => {
    if (ended) return;
    ended = true;
    // Also rejects what still waits for its turn.
    if (own.isOpen) own.destroy();
    events.ended();
  };
  // Without a listener an error would end the process. Each error ends the connection, because there are no retries.
  own.on("error", end);
  own.on("end", end);
  await own.connect().catch((error: unknown) => {
    if (own.isOpen) own.destroy();
    throw error;
  });
  // It must not keep a process alive.
  own.unref();
  const heard: Listener = (text, channel) => events.message(channel, text);
  return {
    get isOpen() {
      return !ended;
    },
    send: async (commands) => {
      const answers = await Promise.allSettled(commands.map((command) => own.sendCommand(command)));
      return answers.map((answer) => {
        if (answer.status === "fulfilled") return answer.value;
        // An error reply is an answer, unless the socket is gone.
        if (ended || !own.isOpen) throw answer.reason;
        return answer.reason as unknown;
      });
    },
    subscribe: async (channels) => void (await own.subscribe(channels, heard)),
    subscribeSharded: async (channel) => void (await own.sSubscribe(channel, heard)),
    unsubscribe: async (channel, sharded = false) => {
      await Promise.all([own.unsubscribe(channel, heard), sharded && own.sUnsubscribe(channel, heard)]);
    },
    close: end,
  };
}

/** A client to copy, and where the copy connects to: a cluster may redirect us to a node that the client does not know yet. */
async function templateFor(client: NodeRedisClient, topology: Topology, to: string): Promise<[Standalone, object]> {
  if (topology === "standalone") return [client as Standalone, {}];
  if (topology === "sentinel")
    return [await (client as Sentinel)._execute(false, (primary) => Promise.resolve(primary)), {}];
  const cluster = client as Cluster;
  const { masters } = cluster;
  const known = masters.find(({ address }) => address === to);
  const any = known ?? masters[Math.floor(Math.random() * masters.length)];
  if (any === undefined) throw new Error("no node of the cluster is known");
  const template = await cluster.nodeClient(any);
  if (known !== undefined || to === "") return [template, {}];
  const colon = to.lastIndexOf(":");
  return [template, { host: to.slice(0, colon), port: Number(to.slice(colon + 1)) }];
}
