/** Asks servers for what is left in them over connections that stay: starting redis-cli for every look would cost more than the checks. */
import { Redis } from "ioredis";
import { leftInRedis, type RedisToAsk } from "../../../src/lab/leftovers.ts";
import { PASSWORD } from "../../login.ts";

export class Asked {
  readonly #clients: readonly Redis[];

  constructor(servers: readonly { readonly host: string; readonly port: number }[]) {
    this.#clients = servers.map(({ host, port }) => new Redis({ host, port, password: PASSWORD, lazyConnect: true }));
    for (const client of this.#clients) client.on("error", () => undefined);
  }

  /** One list for each server. */
  left(prefix?: string): Promise<readonly (readonly string[])[]> {
    return Promise.all(this.#clients.map((client) => leftInRedis(toAsk(client), prefix)));
  }

  close(): void {
    for (const client of this.#clients) client.disconnect();
  }
}

function toAsk(client: Redis): RedisToAsk {
  return {
    cli: async (command, ...args) => ((await client.call(command as string, ...args)) as readonly string[]).join("\n"),
  };
}
