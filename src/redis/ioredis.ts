/** ioredis 5 and 6: standalone, Sentinel and Cluster. */
import type { Connection, Primary, Subscriber } from "./connection.ts";

/** What is used of ioredis, by structure. */
interface IoredisClient {
  readonly status: string;
  readonly isCluster: boolean;
  /** What was sent and not answered yet. Its own, and a Cluster has none: used where it is there. */
  readonly commandQueue?: { readonly length: number };
  readonly stream?: { readonly writableCorked?: number; cork?(): void; uncork(): void };
  evalsha(sha: string, keyCount: number | string, ...rest: string[]): Promise<unknown>;
  eval(source: string, keyCount: number, ...rest: string[]): Promise<unknown>;
  call(command: string, ...args: string[]): Promise<unknown>;
  pipeline(commands?: unknown[][]): { exec(): Promise<[Error | null, unknown][] | null> };
  duplicate(...args: never[]): unknown;
  subscribe(...channels: string[]): Promise<unknown>;
  unsubscribe(...channels: string[]): Promise<unknown>;
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
}

interface Duplicable extends IoredisClient {
  duplicate(override: object): IoredisClient & { disconnect(): void; stream?: { unref?(): void } };
}

interface ClusterClient extends IoredisClient {
  nodes(role: "master"): IoredisClient[];
}

export function isIoredis(client: unknown): client is IoredisClient {
  if (typeof client !== "object" || client === null) return false;
  const c = client as Record<string, unknown>;
  return typeof c["status"] === "string" && typeof c["evalsha"] === "function" && typeof c["pipeline"] === "function";
}

export function adaptIoredis(client: IoredisClient): Connection {
  const options = (client as unknown as { options: object }).options as {
    keyPrefix?: string;
    sentinels?: unknown[];
    redisOptions?: { keyPrefix?: string };
  };
  const sentinels = options.sentinels?.length ?? 0;
  let wasReady = false;
  return {
    topology: client.isCluster ? "cluster" : sentinels > 0 ? "sentinel" : "standalone",
    keyPrefix: options.keyPrefix ?? options.redisOptions?.keyPrefix ?? "",
    evalsha: (sha, keys, args) => {
      gather(client);
      return client.evalsha(sha, keys.length, ...keys, ...args);
    },
    evalshaOn: (sha, key, other, first, second) => {
      gather(client);
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
    evalshaAndWait: async (sha, keys, args, replicas, waitMs) => {
      // One pipeline: in a cluster, too, it goes to the one node that has the keys.
      const answers = await client
        .pipeline([
          ["evalsha", sha, keys.length, ...keys, ...args],
          ["wait", replicas, waitMs],
        ])
        .exec();
      const [ran, waited] = answers ?? [];
      const error = ran?.[0] ?? waited?.[0];
      if (error !== null && error !== undefined) throw error;
      return { reply: ran?.[1], replicas: Number(waited?.[1]) };
    },
    command: (key, args) => sendTo(client, key, args),
    primaries: () => Promise.resolve(primariesOf(client)),
    isDown: () => {
      // One that connects for the first time is not down.
      const isReady = client.status === "ready";
      wasReady ||= isReady;
      return wasReady && !isReady;
    },
    onReconnect: (back) =>
      client.isCluster ? watchCluster(client as ClusterClient, back) : watch(client, "ready", back),
    subscriber: (message, ready) =>
      client.isCluster
        ? clusterSubscriber(client, message, ready)
        : ownSubscriber(client as Duplicable, message, ready),
  };
}

/**
 * Lets all that is sent in this turn of the event loop leave in one system call, which is most of what a command costs. Only
 * when something is under way already: who is alone would gain nothing and wait for the end of the turn.
 */
function gather({ stream, commandQueue }: IoredisClient): void {
  if (stream?.cork === undefined || !commandQueue?.length || stream.writableCorked) return;
  stream.cork();
  process.nextTick(uncork, stream);
}

function uncork(stream: { uncork(): void }): void {
  stream.uncork();
}

async function sendTo(client: IoredisClient, key: string | undefined, args: readonly string[]): Promise<unknown> {
  const [command, ...rest] = args as [string, ...string[]];
  if (!client.isCluster || key === undefined) return client.call(command, ...rest);
  // `call` cannot be routed by a key that is not among its arguments; a pipeline with such a command can.
  const answers = await client
    .pipeline([
      ["exists", key],
      ["call", command, ...rest],
    ])
    .exec();
  const [error, reply] = answers?.[1] ?? [null, undefined];
  if (error) throw error;
  return reply;
}

function primariesOf(client: IoredisClient): readonly Primary[] {
  const nodes = client.isCluster ? (client as ClusterClient).nodes("master") : [client];
  return nodes.map((node) => ({ command: ([name, ...rest]) => node.call(name as string, ...rest) }));
}

function watch(client: IoredisClient, event: string, back: () => void): () => void {
  // The first "ready" of a client that is still connecting is no reconnect.
  let seen = client.status === "ready";
  const listener = (): void => {
    if (seen) back();
    seen = true;
  };
  client.on(event, listener);
  return () => client.off(event, listener);
}

function watchCluster(client: ClusterClient, back: () => void): () => void {
  const stops: (() => void)[] = [];
  const follow = (node: IoredisClient): void => void stops.push(watch(node, "ready", back));
  client.nodes("master").forEach(follow);
  const added = (node: IoredisClient): void => {
    follow(node);
    back();
  };
  client.on("+node", added);
  stops.push(() => client.off("+node", added));
  return () => stops.forEach((stop) => stop());
}

/** A connection of our own: one that is subscribed can do nothing else. */
function ownSubscriber(
  client: Duplicable,
  message: (channel: string, text: string) => void,
  ready: () => void,
): Subscriber {
  const own = client.duplicate({
    keyPrefix: "",
    lazyConnect: true,
    enableOfflineQueue: true,
    autoResubscribe: true,
    maxRetriesPerRequest: null,
    commandTimeout: undefined,
  });
  const channels = new Set<string>();
  // Errors show where they matter, in commands; without a listener they would be printed.
  own.on("error", () => {});
  own.on("message", message as (...args: never[]) => void);
  own.on("ready", () => {
    // Listening alone must not keep a process alive.
    own.stream?.unref?.();
    if (channels.size === 0) return;
    // The library subscribes again by itself; the answer to this tells when it has.
    own.subscribe(...channels).then(ready, () => {});
  });
  return {
    add: async (channel) => {
      channels.add(channel);
      await own.subscribe(channel);
    },
    remove: async (channel) => {
      if (channels.delete(channel)) await own.unsubscribe(channel);
    },
    close: async () => {
      own.disconnect();
      await Promise.resolve();
    },
  };
}

/** A Cluster client keeps a connection for messages itself, and moves it when its node goes. */
function clusterSubscriber(
  client: IoredisClient,
  message: (channel: string, text: string) => void,
  ready: () => void,
): Subscriber {
  const channels = new Set<string>();
  const heard = (channel: string, text: string): void => {
    if (channels.has(channel)) message(channel, text);
  };
  client.on("message", heard as (...args: never[]) => void);
  client.on("+node", ready);
  client.on("-node", ready);
  return {
    add: async (channel) => {
      channels.add(channel);
      await client.subscribe(channel);
    },
    remove: async (channel) => {
      if (channels.delete(channel)) await client.unsubscribe(channel);
    },
    close: async () => {
      client.off("message", heard as (...args: never[]) => void);
      client.off("+node", ready);
      client.off("-node", ready);
      if (channels.size > 0) await client.unsubscribe(...channels).catch(() => {});
    },
  };
}
