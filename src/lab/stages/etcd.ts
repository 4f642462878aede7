/** An etcd cluster of three. */
import { EtcdClient } from "../../backends/etcd/index.ts";
import { endlessInEtcd, leftInEtcd } from "../leftovers.ts";
import { openObserver } from "../observers.ts";
import { startEtcd } from "../servers/etcd.ts";
import type { Stage } from "../stage.ts";
import { makeLinks } from "./proxied-links.ts";

const SPARES =
  "its leader is never stopped: when it wakes up, after it was replaced, etcd may revoke leases that are kept alive";

export async function openEtcdStage(): Promise<Stage> {
  const lab = await startEtcd({ members: 3 });
  const links = makeLinks(
    lab.servers.map(({ port }) => port),
    (hosts) => `etcd://${hosts.join(",")}`,
  );
  const asked = async (look: (client: EtcdClient) => Promise<readonly string[]>): Promise<readonly string[]> => {
    const client = new EtcdClient({ endpoints: lab.endpoints });
    try {
      return await look(client);
    } finally {
      await client.close();
    }
  };
  const stop = async (): Promise<void> => {
    await links.stop();
    await lab.stop();
  };
  return {
    backend: "etcd",
    servers: lab.servers.map((server) => ({
      name: `member ${server.id}`,
      isSpared: async () => {
        const status = await server.status();
        return status === undefined || status.leaderId === 0n || status.leaderId === status.memberId;
      },
      pause: () => server.pause(),
      resume: () => server.resume(),
      kill: () => server.kill(),
      restart: () => server.restart(),
    })),
    spares: SPARES,
    link: (client) => links.link(client),
    observe: async () => [await openObserver("cluster", lab.url)],
    leaks: () => asked((client) => endlessInEtcd(client)),
    left: () => asked((client) => leftInEtcd(client)),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
