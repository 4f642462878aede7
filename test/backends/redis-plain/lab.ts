/** A server with keyspace events, clients of it, and other libraries' locks made by hand. */
import { Redis } from "ioredis";
import { redisPlain, type RedisPlainBackend, type RedisPlainOptions } from "../../../src/backends/redis-plain/index.ts";
import { type RedisServer, startRedis } from "../../../src/lab/servers/redis.ts";
import { PASSWORD } from "../../login.ts";

export interface Lab extends AsyncDisposable {
  readonly server: RedisServer;
  /** As another library uses it. */
  readonly raw: Redis;
  client(port?: number, options?: object): Redis;
  backend(options?: RedisPlainOptions, port?: number): RedisPlainBackend;
}

export async function startLab(events = "Kgx"): Promise<Lab> {
  const server = await startRedis({ args: ["--notify-keyspace-events", events] });
  const clients: Redis[] = [];
  const backends: RedisPlainBackend[] = [];
  const client = (port = server.port, options: object = {}): Redis => {
    const made = new Redis({ host: server.host, port, password: PASSWORD, maxRetriesPerRequest: null, ...options });
    made.on("error", () => undefined);
    clients.push(made);
    return made;
  };
  return {
    server,
    raw: client(),
    client,
    backend: (options, port) => {
      const made = redisPlain(client(port), { gap: 0, ...options });
      backends.push(made);
      return made;
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.allSettled(backends.map((one) => one.close()));
      for (const one of clients) one.disconnect();
      await server.stop();
    },
  };
}
