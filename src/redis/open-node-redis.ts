/** Makes a node-redis client for an endpoint, with settings that suit locks. */
import type { Opened } from "./open-ioredis.ts";
import type { Endpoint } from "./url.ts";

interface Client {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): unknown;
  on(event: string, listener: (error: Error) => void): void;
}

interface Library {
  createClient(options: object): Client;
  createSentinel(options: object): Client;
  createCluster(options: object): Client;
}

const CONNECT_MS = 5000;
const ROOT_SILENT_MS = 2000;

export function openNodeRedis(library: Library, endpoint: Endpoint): Opened {
  const client = make(library, endpoint);
  const tells: ((error: Error, final: boolean) => void)[] = [];
  const final = endpoint.addresses.length <= 1;
  // Without a listener an error would end the process; they show in the commands that fail. It tells of each host.
  client.on("error", (error) =>
    tells.forEach((tell) => tell(error instanceof Error ? error : new Error(String(error)), final)),
  );
  return {
    client,
    connect: async () => void (await client.connect()),
    onError: (tell) => void tells.push(tell),
    close: async () => {
      // Closing a connection that is not open throws, and there is nothing to close then.
      if (client.isOpen) await Promise.resolve(client.destroy()).catch(() => {});
    },
  };
}

function make(library: Library, endpoint: Endpoint): Client {
  const { addresses, path, service, db, login, sentinelLogin, tls, topology } = endpoint;
  const secure = tls ? { tls: true, ...tls } : {};
  const socket = {
    connectTimeout: CONNECT_MS,
    reconnectStrategy: (retries: number) => Math.min(50 * 2 ** Math.min(retries, 6), 1000),
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
      nodeClientOptions: { ...own, socket },
      sentinelClientOptions: { ...sentinelLogin, socket },
      RESP: 2,
    });
  }
  const where = path === undefined ? addresses[0] : { path };
  return library.createClient({ ...own, socket: { ...socket, ...where } });
}
