/** An etcd cluster of three under the driver. Questions, keep-alives and watches of a client share one connection. */
import { setTimeout as sleep } from "node:timers/promises";
import { EtcdClient } from "../../../backends/etcd/index.ts";
import { endlessInEtcd } from "../../leftovers.ts";
import { startProxy } from "../../proxy.ts";
import { type EtcdServer, startEtcd } from "../../servers/etcd.ts";
import { until } from "../../servers/sentinels.ts";
import type { Holdfast } from "../library.ts";
import type { DrivenStore } from "../store.ts";

/** Short, so that leases can be: none is shorter than one and a half times that. */
const ELECTION_MS = 600;
const TTL_MS = 1000;

export async function driveEtcd({ createLocks, etcd }: Holdfast): Promise<DrivenStore> {
  const lab = await startEtcd({ members: 3, electionMs: ELECTION_MS });
  const observer = createLocks(etcd({ endpoints: lab.endpoints }), { holder: "observer" });
  const client = new EtcdClient({ endpoints: lab.endpoints });
  const stop = async (): Promise<void> => {
    await observer.close().catch(() => undefined);
    await client.close();
    await lab.stop();
  };
  return {
    name: "etcd",
    possible: {
      clients: 3,
      servers: 3,
      serverActs: ["pause", "restart"],
      processActs: [],
      network: true,
      limits: true,
      ttls: [TTL_MS],
    },
    client: async () => {
      const proxies = await Promise.all(lab.servers.map(({ port }) => startProxy({ port })));
      const endpoints = proxies.map(({ port }) => `127.0.0.1:${port}`).join(",");
      return {
        proxies,
        open: (holder) => createLocks(etcd({ endpoints }), { holder }),
        listeners: () => 0,
        close: async () => {
          await Promise.all(proxies.map((proxy) => proxy.stop()));
        },
      };
    },
    // Members that were just started, on a busy machine, may be too late for one answer.
    look: (prefix) => until("the cluster says what it has", () => observer.query(prefix).catch(() => undefined)),
    strike: async (what, at, forMs) => {
      const server = lab.servers[at % 3] as EtcdServer;
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
      await until("all members follow one leader", async () => {
        const all = await Promise.all(lab.servers.map((server) => server.status()));
        const [leader = 0n] = all.map((one) => one?.leaderId);
        return leader !== 0n && all.every((one) => one?.leaderId === leader) ? true : undefined;
      });
    },
    leaks: () => until("the cluster says what has no end", () => endlessInEtcd(client).catch(() => undefined)),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
