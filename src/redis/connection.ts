/** What the backend needs of a client library, whichever it is. One small adapter each: ioredis.ts, node-redis.ts. */
import { adaptIoredis, isIoredis } from "./ioredis.ts";
import { adaptNodeRedis, isNodeRedis } from "./node-redis.ts";

export type Topology = "standalone" | "sentinel" | "cluster";

/** Where messages come in. It reconnects by itself and then subscribes again. */
export interface Subscriber {
  /** Resolves when the server has confirmed. */
  add(channel: string): Promise<void>;
  remove(channel: string): Promise<void>;
  close(): Promise<void>;
}

/** One primary, for what must be asked of each. */
export interface Primary {
  command(args: readonly string[]): Promise<unknown>;
}

export interface Connection {
  readonly topology: Topology;
  /** What the client library puts before every key by itself. */
  readonly keyPrefix: string;
  /** Runs a script by its SHA1 on the server that has the keys, which share a slot. */
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** The same for one or two keys and one or two arguments, without a detour: the hot path. */
  evalshaOn(
    sha: string,
    key: string,
    other: string | undefined,
    first: string,
    second: string | undefined,
  ): Promise<unknown>;
  eval(source: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** The same, and then WAIT on the same connection. */
  evalshaAndWait(
    sha: string,
    keys: readonly string[],
    args: readonly string[],
    replicas: number,
    waitMs: number,
  ): Promise<{ reply: unknown; replicas: number }>;
  /** Sends one command to the server that has `key`; without a key, to any primary. Keys inside are sent as they are. */
  command(key: string | undefined, args: readonly string[]): Promise<unknown>;
  primaries(): Promise<readonly Primary[]>;
  /** True: it was there when last asked, and is not now. Where the library cannot tell: false. */
  isDown(): boolean;
  /** Calls `back` whenever the connection is there again after it was not. Returns what stops it. */
  onReconnect(back: () => void): () => void;
  /** Opens the one place where messages come in. `ready` is called whenever what was added before is subscribed again. */
  subscriber(message: (channel: string, text: string) => void, ready: () => void): Subscriber;
}

/** Recognises a client by what it can do, never by its class: two copies of a library in one program are common. */
export function connectionOf(client: unknown): Connection {
  if (isIoredis(client)) return adaptIoredis(client);
  if (isNodeRedis(client)) return adaptNodeRedis(client);
  throw new TypeError(
    "Expected `client` to be a client of ioredis (5 or 6) or node-redis (5 or 6): standalone, Sentinel or Cluster",
  );
}
