/** A network of its own for every client: one proxy in front of each server. */
import { startProxy } from "../proxy.ts";
import type { Proxy } from "../proxy.ts";
import type { ProxyTarget } from "../proxy-types.ts";
import type { StageLink } from "../stage.ts";

export interface Links {
  link(client: string): Promise<StageLink>;
  stop(): Promise<void>;
}

/** `toUrl` makes the store's URL out of the proxies' ports. */
export function makeLinks(
  targets: readonly (number | ProxyTarget)[],
  toUrl: (hosts: readonly string[]) => string,
): Links {
  const all: Proxy[] = [];
  return {
    link: async () => {
      const started = targets.map((one) => startProxy(typeof one === "number" ? { port: one } : one));
      const proxies = await Promise.all(started);
      all.push(...proxies);
      const hosts = proxies.map(({ host, port }) => `${host}:${port}`);
      return { url: toUrl(hosts), ports: proxies.map(({ port }) => port), proxies };
    },
    stop: async () => {
      await Promise.all(all.map((proxy) => proxy.stop()));
    },
  };
}
