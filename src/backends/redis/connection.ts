/** What the backend needs of a client library. The adapters are in clients/. */

export type Topology = "standalone" | "sentinel" | "cluster";

/** One primary, for what must be asked of each. */
export interface Primary {
  /** `host:port` in a cluster, otherwise "". */
  readonly address: string;
  command(args: readonly string[]): Promise<unknown>;
}

/** Where a connection of our own leads: to a node of a cluster; with "" to the primary, and in a cluster to any node. */
export type Destination = string;

/**
 * A connection of our own to one server, beside the client's. It has one socket for its whole life: nothing is sent again automatically,
 * and when the socket ends the connection is over. A new one must be opened then.
 */
export interface OwnConnection {
  readonly isOpen: boolean;
  /** Sends all at once and in order. Answers in that order, with an `Error` where the server refused. Rejects if the socket ended first. */
  send(commands: readonly (readonly string[])[]): Promise<readonly unknown[]>;
  /** Resolves when the server has confirmed. */
  subscribe(channels: readonly string[]): Promise<void>;
  /** As SSUBSCRIBE does: the server must have the slot of the channel. */
  subscribeSharded(channel: string): Promise<void>;
  /** `sharded`: of both kinds. */
  unsubscribe(channel: string, sharded?: boolean): Promise<void>;
  close(): void;
}

export interface OwnConnectionEvents {
  message(channel: string, text: string): void;
  /** The socket ended, for any reason. */
  ended(): void;
}

export interface Connection {
  readonly topology: Topology;
  /** What the client library puts before every key by itself. */
  readonly keyPrefix: string;
  /** Runs a script by its SHA1 on the server that has the keys, which share a slot. */
  evalsha(sha: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** The same for one or two keys and one or two arguments, without arrays: the hot path. */
  evalshaOn(
    sha: string,
    key: string,
    other: string | undefined,
    first: string,
    second: string | undefined,
  ): Promise<unknown>;
  eval(source: string, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  primaries(): Promise<readonly Primary[]>;
  /** The node of a cluster that has the key, as far as the client knows; "" without a cluster, or if it does not know. */
  nodeOf(key: string): Destination;
  /** How often the client has lost a connection: a command that was under way at that time may have been carried out twice. */
  breaks(): number;
  /** True: it was connected when last asked, and is not now. False if the library does not say. */
  isDown(): boolean;
  /** Calls `back` whenever the connection is restored. Returns a function that stops it. */
  onReconnect(back: () => void): () => void;
  /** Opens a connection of our own. Rejects if that fails; may also never settle: see {@link openOwn}. */
  openOwn(to: Destination, events: OwnConnectionEvents): Promise<OwnConnection>;
}

const OPEN_MS = 5000;

/** Opens a connection of our own within a time limit, because a server that hangs accepts connections too. One that opens later is closed. */
export async function openOwn(
  connection: Connection,
  to: Destination,
  events: OwnConnectionEvents,
): Promise<OwnConnection> {
  let late = false;
  const opening = connection.openOwn(to, events);
  opening.then(
    (own) => late && own.close(),
    () => {},
  );
  return withinOpenTime(opening, "was not open", () => (late = true));
}

/** The same time limit for anything that a connection of our own needs before it can be used. */
export async function withinOpenTime<T>(asked: Promise<T>, not: string, expire: () => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      expire();
      reject(new Error(`a connection of our own ${not} within ${OPEN_MS / 1000} s`));
    }, OPEN_MS).unref();
  });
  try {
    return await Promise.race([asked, expired]);
  } finally {
    clearTimeout(timer);
  }
}
