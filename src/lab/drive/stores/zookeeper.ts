/** A ZooKeeper ensemble of three under the driver. A client's connection is its session's, for questions and news alike. */
import { setTimeout as sleep } from "node:timers/promises";
import { startProxy } from "../../proxy.ts";
import { until } from "../../servers/sentinels.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../servers/zookeeper.ts";
import type { Holdfast } from "../library.ts";
import type { DrivenStore } from "../store.ts";

/** A lease lasts for three quarters of it. */
const SESSION_MS = 2000;

export async function driveZooKeeper(holdfast: Holdfast): Promise<DrivenStore> {
  const lab = await startZooKeeper({ servers: 3 });
  const { createLocks, zookeeper } = holdfast;
  const addresses = (ports: readonly number[]): string => ports.map((port) => `127.0.0.1:${port}`).join(",");
  const direct = addresses(lab.servers.map(({ port }) => port));
  const observer = createLocks(zookeeper({ servers: direct, session: 10_000 }), { holder: "observer" });
  const stop = async (): Promise<void> => {
    await observer.close().catch(() => undefined);
    await lab.stop();
  };
  return {
    name: "zookeeper",
    possible: {
      clients: 3,
      servers: 3,
      serverActs: ["pause", "restart"],
      processActs: [],
      network: true,
      limits: true,
      ttls: [(SESSION_MS * 3) / 4],
    },
    client: async () => {
      const proxies = await Promise.all(lab.servers.map(({ port }) => startProxy({ port })));
      const servers = addresses(proxies.map(({ port }) => port));
      return {
        proxies,
        open: (holder) => createLocks(zookeeper({ servers, session: SESSION_MS }), { holder }),
        listeners: () => 0,
        close: async () => {
          await Promise.all(proxies.map((proxy) => proxy.stop()));
        },
      };
    },
    look: (prefix) => observer.query(prefix),
    strike: async (what, at, forMs) => {
      const server = lab.servers[at % 3] as ZooKeeperServer;
      if (what === "pause") {
        server.pause();
        await sleep(forMs);
        server.resume();
      } else {
        await server.kill();
        await server.restart();
      }
    },
    calm: async () => {
      for (const server of lab.servers) server.resume();
      await until("every server serves clients", async () => {
        const roles = await Promise.all(lab.servers.map((server) => server.role()));
        return roles.every((role) => role !== undefined) ? true : undefined;
      });
    },
    // Containers and ephemerals go by themselves; what is left of locks shows in the query.
    leaks: async () => [],
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
