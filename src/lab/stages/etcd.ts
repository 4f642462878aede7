/** An etcd cluster of three. */
import { EtcdClient } from "../../backends/etcd/index.ts";
import { leftInEtcd } from "../leftovers.ts";
import { openObserver } from "../observers.ts";
import { startEtcd } from "../servers/etcd.ts";
import type { Stage } from "../stage.ts";
import { makeLinks } from "./proxied-links.ts";

export async function openEtcdStage(): Promise<Stage> {
  const lab = await startEtcd({ members: 3 });
  const links = makeLinks(
    lab.servers.map(({ port }) => port),
    (hosts) => `etcd://${hosts.join(",")}`,
  );
  const stop = async (): Promise<void> => {
    await links.stop();
    await lab.stop();
  };
  return {
    backend: "etcd",
    servers: lab.servers.map((server) => ({
      name: `member ${server.id}`,
      pause: () => server.pause(),
      resume: () => server.resume(),
      kill: () => server.kill(),
      restart: () => server.restart(),
    })),
    link: (client) => links.link(client),
    observe: async () => [await openObserver("cluster", lab.url)],
    // Every key lives with a lease; what is left of locks shows in the query.
    leaks: async () => [],
    left: async () => {
      const client = new EtcdClient({ endpoints: lab.endpoints });
      try {
        return await leftInEtcd(client);
      } finally {
        await client.close();
      }
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
