/** What the backend needs of a client library. The adapters are in clients/. */

export type Topology = "standalone" | "sentinel" | "cluster";

/** One primary, for what must be asked of each. */
export interface Primary {
  /** `host:port` in a cluster, else "". */
  readonly address: string;
  command(args: readonly string[]): Promise<unknown>;
}

/** Where a connection of our own leads: to the node of a cluster, or with "" to the primary, and in a cluster to any node. */
export type Destination = string;

/**
 * A connection of our own to one server, beside the client's. It keeps to one socket: what is sent is never sent again by itself, and
 * when the socket ends it is over. Whoever needs another opens another.
 */
export interface Wire {
  readonly isOpen: boolean;
  /** Sends all at once and in order. Answers in that order, with an `Error` where the server refused. Rejects when the socket ended first. */
  send(commands: readonly (readonly string[])[]): Promise<readonly unknown[]>;
  /** Resolves when the server has confirmed. */
  subscribe(channels: readonly string[]): Promise<void>;
  unsubscribe(channel: string): Promise<void>;
  close(): void;
}

export interface WireEvents {
  message(channel: string, text: string): void;
  /** The socket ended, for whatever reason. */
  ended(): void;
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
  primaries(): Promise<readonly Primary[]>;
  /** The node of a cluster that has the key, as far as the client knows; "" without a cluster, or when it does not know. */
  nodeOf(key: string): Destination;
  /** How often the client lost a connection so far: a command that was under way then may have been carried out twice. */
  breaks(): number;
  /** True: it was there when last asked, and is not now. Where the library cannot tell: false. */
  isDown(): boolean;
  /** Calls `back` whenever the connection is there again after it was not. Returns what stops it. */
  onReconnect(back: () => void): () => void;
  /** Opens a connection of our own. Rejects when it cannot be opened; it may also take for ever. */
  wire(to: Destination, events: WireEvents): Promise<Wire>;
}
