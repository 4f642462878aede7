/** A ZooKeeper ensemble of three. */
import { ZooKeeperClient } from "../../backends/zookeeper/index.ts";
import { leftInZooKeeper } from "../leftovers.ts";
import { openObserver } from "../observers.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";
import type { Stage } from "../stage.ts";
import { makeLinks } from "./proxied-links.ts";

/** A session lives as long as the play's leases: in ZooKeeper the one is the other. */
export async function openZooKeeperStage(sessionMs: number): Promise<Stage> {
  const lab = await startZooKeeper({ servers: 3 });
  const links = makeLinks(
    lab.servers.map(({ port }) => port),
    (hosts) => `zk://${hosts.join(",")}?session=${sessionMs}ms`,
  );
  const stop = async (): Promise<void> => {
    await links.stop();
    await lab.stop();
  };
  return {
    backend: "zookeeper",
    servers: lab.servers.map((server) => ({
      name: `server ${server.id}`,
      pause: () => server.pause(),
      resume: () => server.resume(),
      kill: () => server.kill(),
      restart: () => server.restart(),
    })),
    link: (client) => links.link(client),
    observe: async () => [await openObserver("ensemble", lab.url)],
    // Containers and ephemerals go by themselves; what is left of locks shows in the query.
    leaks: async () => [],
    left: async () => {
      const client = new ZooKeeperClient({ servers: lab.url.slice("zk://".length) });
      try {
        return await leftInZooKeeper(client);
      } finally {
        await client.close();
      }
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
