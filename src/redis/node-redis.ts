/** node-redis 5 and 6: standalone, Sentinel and Cluster. */
import type { Connection, Primary, Subscriber, Topology } from "./connection.ts";

type Listener = (text: string, channel: string) => void;

/** What is used of node-redis, by structure. How a raw command is sent differs by kind. */
interface NodeRedisClient {
  readonly isOpen: boolean;
  /** A Cluster does not tell. */
  readonly isReady?: boolean;
  sendCommand(...args: never[]): Promise<unknown>;
  subscribe(channel: string, listener: Listener): Promise<unknown>;
  unsubscribe(channel: string, listener?: Listener): Promise<unknown>;
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
}

interface Standalone extends NodeRedisClient {
  sendCommand(args: readonly string[]): Promise<unknown>;
  duplicate(): Standalone & { connect(): Promise<unknown>; unref(): void; destroy(): void };
}

interface Sentinel extends NodeRedisClient {
  sendCommand(readOnly: boolean, args: readonly string[]): Promise<unknown>;
  use<T>(work: (client: Sentinel) => Promise<T>): Promise<T>;
}

interface Cluster extends NodeRedisClient {
  sendCommand(key: string | undefined, readOnly: boolean, args: readonly string[]): Promise<unknown>;
  readonly masters: readonly object[];
  nodeClient(node: object): Standalone | Promise<Standalone>;
}

export function isNodeRedis(client: unknown): client is NodeRedisClient {
  if (typeof client !== "object" || client === null) return false;
  const c = client as Record<string, unknown>;
  return typeof c["sendCommand"] === "function" && typeof c["isOpen"] === "boolean" && typeof c["on"] === "function";
}

export function adaptNodeRedis(client: NodeRedisClient): Connection {
  const topology = topologyOf(client);
  const send = sender(client, topology);
  let wasReady = false;
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
    evalshaAndWait: async (sha, keys, args, replicas, waitMs) => {
      const script = ["EVALSHA", sha, String(keys.length), ...keys, ...args];
      const wait = ["WAIT", String(replicas), String(waitMs)];
      const both = async (one: typeof send): Promise<{ reply: unknown; replicas: number }> => {
        const [reply, acknowledged] = await Promise.all([one(keys[0], script), one(keys[0], wait)]);
        return { reply, replicas: Number(acknowledged) };
      };
      if (topology !== "sentinel") return both(send);
      // A Sentinel client may have several connections to the primary: both must use the same one.
      return (client as Sentinel).use((one) => both((_, command) => one.sendCommand(false, command)));
    },
    command: send,
    primaries: () => primariesOf(client, topology, send),
    isDown: () => {
      wasReady ||= client.isReady === true;
      return wasReady && client.isReady === false;
    },
    onReconnect: (back) => watch(client, topology, back),
    subscriber: (message, ready) =>
      topology === "standalone"
        ? ownSubscriber(client as Standalone, message, ready)
        : sharedSubscriber(client, topology, message, ready),
  };
}

function topologyOf(client: NodeRedisClient): Topology {
  if (typeof (client as Partial<Cluster>).nodeClient === "function") return "cluster";
  if ("getSentinelNode" in client || typeof (client as Partial<Sentinel>).use === "function") return "sentinel";
  return "standalone";
}

function sender(
  client: NodeRedisClient,
  topology: Topology,
): (key: string | undefined, args: readonly string[]) => Promise<unknown> {
  if (topology === "cluster") return (key, args) => (client as Cluster).sendCommand(key, false, args);
  if (topology === "sentinel") return (_, args) => (client as Sentinel).sendCommand(false, args);
  return (_, args) => (client as Standalone).sendCommand(args);
}

async function primariesOf(
  client: NodeRedisClient,
  topology: Topology,
  send: (key: string | undefined, args: readonly string[]) => Promise<unknown>,
): Promise<readonly Primary[]> {
  if (topology !== "cluster") return [{ command: (args) => send(undefined, args) }];
  const cluster = client as Cluster;
  const nodes = await Promise.all(cluster.masters.map(async (master) => cluster.nodeClient(master)));
  return nodes.map((node) => ({ command: (args) => node.sendCommand(args) }));
}

const BACK = { standalone: "ready", sentinel: "topology-change", cluster: "node-ready" } as const;

function watch(client: NodeRedisClient, topology: Topology, back: () => void): () => void {
  client.on(BACK[topology], back);
  return () => client.off(BACK[topology], back);
}

/** A connection of our own: with RESP2 one that is subscribed can do nothing else. */
function ownSubscriber(
  client: Standalone,
  message: (channel: string, text: string) => void,
  ready: () => void,
): Subscriber {
  const own = client.duplicate();
  const heard: Listener = (text, channel) => message(channel, text);
  // Errors show where they matter, in commands; without a listener they would end the process.
  own.on("error", () => {});
  let opened: Promise<unknown> | undefined;
  const open = (): Promise<unknown> => {
    opened ??= own.connect().then(() => {
      // Listening alone must not keep a process alive. The library subscribes again before it says that it is ready.
      own.unref();
      own.on("ready", () => {
        own.unref();
        ready();
      });
    });
    return opened;
  };
  return {
    add: async (channel) => {
      await open();
      await own.subscribe(channel, heard);
    },
    remove: async (channel) => {
      await own.unsubscribe(channel, heard);
    },
    close: async () => {
      await opened?.catch(() => {});
      if (own.isOpen) own.destroy();
    },
  };
}

/** Sentinel and Cluster clients keep a connection for messages themselves, and move it when its node goes. */
function sharedSubscriber(
  client: NodeRedisClient,
  topology: Topology,
  message: (channel: string, text: string) => void,
  ready: () => void,
): Subscriber {
  const channels = new Set<string>();
  const heard: Listener = (text, channel) => message(channel, text);
  client.on(BACK[topology], ready);
  return {
    add: async (channel) => {
      channels.add(channel);
      await client.subscribe(channel, heard);
    },
    remove: async (channel) => {
      if (channels.delete(channel)) await client.unsubscribe(channel, heard);
    },
    close: async () => {
      client.off(BACK[topology], ready);
      for (const channel of channels) await client.unsubscribe(channel, heard).catch(() => {});
    },
  };
}
