/** Makes an ioredis client for an endpoint, with settings that suit locks. */
import { NO_PRIMARY, wordsOf } from "../errors.ts";
import type { Endpoint } from "../url.ts";

/** A client that we opened ourselves. */
export interface Opened {
  readonly client: unknown;
  connect(): Promise<void>;
  /** Reports every error of the client, from now on; `final` if it has no other host to try. */
  onError(tell: (error: Error, final: boolean) => void): void;
  close(): Promise<void>;
}

interface Client {
  connect(): Promise<void>;
  disconnect(): void;
  duplicate?(...args: unknown[]): Client;
  on(event: "close" | "error" | "ready" | "end" | "+node", listener: (what: never) => void): void;
  readonly connector?: Connector;
  /** Of `socketTimeout`: its own. */
  socketTimeoutTimer?: NodeJS.Timeout | undefined;
}

interface Library {
  readonly Redis: new (options: object) => Client;
  readonly Cluster: new (nodes: readonly object[], options: object) => Client;
}

const CONNECT_MS = 5000;
/** A connection without an answer for this long is dead, even if the kernel considers it alive. */
const SILENT_MS = 10_000;
/** A sentinel that hangs accepts connections too, and must not delay the next. */
const SENTINEL_MS = 2000;

export function openIoredis(library: Library, endpoint: Endpoint): Opened {
  const client = endpoint.topology === "cluster" ? cluster(library, endpoint) : single(library, endpoint);
  const tells: ((error: Error, final: boolean) => void)[] = [];
  /** What happened to connections that ioredis made to ask sentinels and nodes: it says of them only that they are closed. */
  let aside: Error | undefined;
  const onAside = (error: Error): void => void (aside = error);
  mend(client, onAside);
  const odd = (error: Error): void => tells.forEach((tell) => tell(error, false));
  const sentinels = endpoint.topology === "sentinel" ? sentinelsOf(client, onAside, odd) : undefined;
  // Without a listener ioredis prints every error; they appear in the commands that fail. ioredis reports only when all hosts failed.
  client.on("error", (error: Error) => {
    const why = aside !== undefined && /Connection is closed/u.test(wordsOf(error)) ? aside : error;
    tells.forEach((tell) => tell(why, true));
  });
  return {
    client,
    connect: () => (sentinels === undefined ? client.connect() : connected(client, sentinels)),
    onError: (tell) => void tells.push(tell),
    close: () => {
      sentinels?.close();
      client.disconnect();
      return Promise.resolve();
    },
  };
}

/** Also where the first sentinel was wrong: ioredis asks the next, but its connect() has failed with "Connection is closed" by then. */
function connected(client: Client, sentinels: Sentinels): Promise<void> {
  return new Promise((resolve, reject) => {
    client.on("ready", () => resolve());
    client.connect().then(resolve, (error: Error) => {
      if (sentinels.misled) void sentinels.closed.then(() => reject(error));
      else reject(error);
    });
  });
}

/**
 * Clears the timer of `socketTimeout` when its connection ends, which ioredis forgets: it would reset the next, healthy connection
 * once, or keep the process alive after a connect() that failed. And it waits two seconds for the end of a connection that has
 * ended. The nodes of a Cluster, and the clients that ask them, have it too.
 */
function mend(client: Client, onAside: (error: Error) => void): Client {
  const { connector } = client;
  if (connector !== undefined) {
    const disconnect = connector.disconnect.bind(connector);
    connector.disconnect = () => {
      if (connector.stream?.closed === true) connector.stream = undefined;
      disconnect();
    };
  }
  client.on("close", () => {
    clearTimeout(client.socketTimeoutTimer);
    client.socketTimeoutTimer = undefined;
  });
  client.on("+node", (node: Client) => {
    const duplicate = mend(node, onAside).duplicate?.bind(node);
    if (duplicate === undefined) return;
    node.duplicate = (...args) => {
      const asking = mend(duplicate(...args), onAside);
      asking.on("error", onAside);
      return asking;
    };
  });
  return client;
}

function common({ login, tls }: Endpoint): object {
  return {
    username: login.username,
    password: login.password,
    ...(tls ? { tls } : {}),
    connectTimeout: CONNECT_MS,
    socketTimeout: SILENT_MS,
    keepAlive: 10_000,
    connectionName: "holdfast",
    // The caller decides how long to wait for an answer, not a number of reconnects.
    maxRetriesPerRequest: null,
    retryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 6), 1000),
    // A fail-over behind one address: the next connection reaches the new primary.
    reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
  };
}

function single({ Redis }: Library, endpoint: Endpoint): Client {
  const { addresses, path, service, db, sentinelLogin, tls } = endpoint;
  const options = { ...common(endpoint), db, lazyConnect: true };
  if (service !== undefined) {
    return new Redis({
      ...options,
      sentinels: addresses,
      name: service,
      sentinelUsername: sentinelLogin.username,
      sentinelPassword: sentinelLogin.password,
      ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: tls } : {}),
      // A planned fail-over leaves the old primary writable for some ten seconds: what it grants then is lost. The sentinels report it.
      failoverDetector: true,
      sentinelCommandTimeout: SENTINEL_MS,
    });
  }
  return new Redis(path === undefined ? { ...options, ...addresses[0] } : { ...options, path });
}

interface Connector {
  stream?: { readonly closed?: boolean } | undefined;
  disconnect(): void;
}

interface SentinelConnector extends Connector {
  connect(...args: unknown[]): Promise<unknown>;
  connectToSentinel(...args: unknown[]): Client;
  check(info: { readonly role?: string }): boolean;
}

interface Sentinels {
  readonly closed: Promise<void>;
  /** One of them has named a primary that is not a primary. */
  readonly misled: boolean;
  close(): void;
}

/**
 * Fixes how ioredis queries the sentinels and listens to them. Its clients for that have no listener for errors, so it would print an error
 * for each sentinel that is down; and when it is closed during a query it does not close that client, which keeps the process alive.
 * A fail-over that is announced while it looks for the primary would end the client for good, though it would find the new primary. And if
 * the sentinels name a server that is not a primary, it asks repeatedly, without an error.
 */
function sentinelsOf(client: Client, onAside: (error: Error) => void, odd: (error: Error) => void): Sentinels {
  const connector = client.connector as SentinelConnector | undefined;
  const open: Set<Client> = new Set();
  let closed = false;
  let tellClosed!: () => void;
  let misled = false;
  let looking = 0;
  if (typeof connector?.connectToSentinel === "function") {
    const [connect, disconnect] = [connector.connect.bind(connector), connector.disconnect.bind(connector)];
    const connectToSentinel = connector.connectToSentinel.bind(connector);
    const check = connector.check.bind(connector);
    connector.check = (info) => {
      const fits = check(info);
      if (fits) return true;
      misled = true;
      odd(new Error(NO_PRIMARY));
      return false;
    };
    connector.connect = async (...args) => {
      looking++;
      return connect(...args).finally(() => looking--);
    };
    connector.disconnect = () => {
      if (looking === 0 || closed) disconnect();
    };
    connector.connectToSentinel = (...args) => {
      const sentinel = mend(connectToSentinel(...args), onAside);
      open.add(sentinel);
      sentinel.on("error", onAside);
      sentinel.on("end", () => open.delete(sentinel));
      if (closed) sentinel.disconnect();
      return sentinel;
    };
  }
  return {
    closed: new Promise((resolve) => (tellClosed = resolve)),
    get misled() {
      return misled;
    },
    close: () => {
      closed = true;
      tellClosed();
      for (const sentinel of open) sentinel.disconnect();
    },
  };
}

function cluster({ Cluster }: Library, endpoint: Endpoint): Client {
  return new Cluster(endpoint.addresses, {
    lazyConnect: true,
    clusterRetryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 5), 1000),
    retryDelayOnFailover: 50,
    retryDelayOnClusterDown: 100,
    retryDelayOnTryAgain: 50,
    slotsRefreshTimeout: 2000,
    // It would ask a random node for the cluster's state, and wait for ever if that one hangs.
    enableReadyCheck: false,
    redisOptions: common(endpoint),
  });
}
