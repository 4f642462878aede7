/** Makes a node-redis client for an endpoint, with settings that suit locks. */
import { systemClock } from "../../../contract/clock.ts";
import { within } from "../../../contract/time-limit.ts";
import { toBackendError } from "../errors.ts";
import type { Opened } from "./open-ioredis.ts";
import type { Endpoint } from "../url.ts";

interface Client {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): unknown;
  on(event: string, listener: (error: unknown) => void): void;
}

interface Library {
  createClient(options: object): Client;
  createSentinel(options: object): Client;
  createCluster(options: object): Client;
}

const CONNECT_MS = 5000;
const ROOT_SILENT_MS = 2000;
/** Behind sentinels: a server that is silent for this long is dead, even if the kernel considers it alive; pings are sent in time. */
const SILENT_MS = 10_000;
const SENTINEL_SILENT_MS = 2000;
const PINGS = 3;
/** The library's close() waits for its connect(). */
const CLOSE_MS = 1000;

export function openNodeRedis(library: Library, endpoint: Endpoint): Opened {
  const life = { over: false };
  const client = make(library, endpoint, life);
  const tells: ((error: Error, final: boolean) => void)[] = [];
  const final = endpoint.addresses.length <= 1;
  // Without a listener an error would end the process; errors appear in the commands that fail. It reports each host's error.
  client.on("error", (reported) => {
    const refusal = refusalOf(reported);
    const error = refusal ?? (reported instanceof Error ? reported : new Error(String(reported)));
    tells.forEach((tell) => tell(error, final || refusal !== undefined));
  });
  return {
    client,
    connect: async () => void (await client.connect()),
    onError: (tell) => void tells.push(tell),
    close: async () => {
      life.over = true;
      // Closing a connection that is not open throws, and there is nothing to close then.
      if (!client.isOpen) return;
      const destroyed = Promise.resolve(client.destroy()).catch(() => {});
      await within(systemClock, destroyed, CLOSE_MS);
    },
  };
}

/** An error of the primary behind sentinels that stays, whichever sentinel is asked; otherwise `undefined`. */
function refusalOf(reported: unknown): Error | undefined {
  if (
    !(reported instanceof Error) ||
    !reported.message.startsWith("Master Client") ||
    !(reported.cause instanceof Error)
  )
    return undefined;
  return toBackendError(reported.cause, "").fatal ? reported.cause : undefined;
}

/** `life`: once it is over nothing is retried, so connections that are being opened end. */
function make(library: Library, endpoint: Endpoint, life: { readonly over: boolean }): Client {
  const { addresses, path, service, db, login, sentinelLogin, tls, topology } = endpoint;
  const secure = tls ? { tls: true, ...tls } : {};
  const socket = {
    connectTimeout: CONNECT_MS,
    reconnectStrategy: (retries: number) => !life.over && Math.min(50 * 2 ** Math.min(retries, 6), 1000),
    ...secure,
  };
  const own = { ...login, database: db, name: "holdfast", RESP: 2 };
  if (topology === "cluster") {
    return library.createCluster({
      // Only for the question which nodes there are: one that hangs must not keep the next from being asked.
      rootNodes: addresses.map((address) => ({ socket: { ...address, ...secure, socketTimeout: ROOT_SILENT_MS } })),
      defaults: { ...login, RESP: 2, socket },
      // A node that hangs must not keep the others from being used.
      minimizeConnections: true,
      RESP: 2,
    });
  }
  if (topology === "sentinel") {
    return library.createSentinel({
      name: service,
      sentinelRootNodes: addresses,
      nodeClientOptions: { ...own, ...lively(socket, SILENT_MS) },
      sentinelClientOptions: { ...sentinelLogin, ...lively(socket, SENTINEL_SILENT_MS) },
      passthroughClientErrorEvents: true,
      RESP: 2,
    });
  }
  const where = path === undefined ? addresses[0] : { path };
  return library.createClient({ ...own, socket: { ...socket, ...where } });
}

/** A server that hangs accepts connections too: it must not delay the next one, nor keep a process from ending. */
function lively(socket: object, silentMs: number): object {
  return { socket: { ...socket, socketTimeout: silentMs }, pingInterval: Math.floor(silentMs / PINGS) };
}
