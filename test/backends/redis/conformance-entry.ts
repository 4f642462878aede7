/** One line of the Redis part of the conformance matrix: a client library and a topology. */
import type { EventEmitter } from "node:events";
import type { ClusterLab } from "../../../src/lab/servers/cluster.ts";
import type { RedisServer } from "../../../src/lab/servers/redis.ts";
import type { SentinelLab } from "../../../src/lab/servers/sentinels.ts";
import type { RedisOptions } from "../../../src/backends/redis/index.ts";
import { redis } from "../../../src/backends/redis/index.ts";
import type { ConformanceEntry } from "../../conformance/conformance-tests.ts";
import { Asked } from "./asked.ts";
import type { Library, Opened } from "./clients.ts";

/** Connecting is slow where it takes many connections, so the suite's backends share a few clients. */
const CLIENTS = 4;

/** The servers that may have something of a lock. */
function primariesOf(lab: RedisServer | SentinelLab | ClusterLab): readonly RedisServer[] {
  if ("sentinels" in lab) return [lab.primary];
  return "nodes" in lab ? lab.nodes.slice(0, 3) : [lab];
}

export function redisEntry<Lab extends RedisServer | SentinelLab | ClusterLab>(
  library: Library,
  topology: string,
  lab: () => Promise<Lab>,
  connect: (library: Library, lab: Lab) => Promise<Opened>,
  options: RedisOptions = {},
): ConformanceEntry {
  const opened: Promise<Opened>[] = [];
  let next = 0;
  let running: Lab | undefined;
  let asked: Asked | undefined;
  return {
    name: `redis: ${library.name}, ${topology}`,
    member: topology === "standalone",
    start: async () => {
      const started = await lab();
      running = started;
      asked = new Asked(primariesOf(started));
      for (let i = 0; i < CLIENTS; i++) opened.push(connect(library, started));
      await Promise.all(opened);
      return {
        open: async () => {
          const { client } = await (opened[next++ % CLIENTS] as Promise<Opened>);
          const backend = redis(client, options);
          // A quorum tells its members whether they may have lost leases; here the member has not.
          if (topology === "standalone") await backend.join({ quarantineMs: 0, allowEviction: false });
          return backend;
        },
        left: async (prefix) => ((await asked?.left(prefix)) ?? []).flat(),
      };
    },
    left: async () => ((await asked?.left()) ?? []).flat(),
    emitters: async () => {
      const clients = await Promise.all(opened);
      return Object.fromEntries(clients.map(({ client }, i) => [`client ${i + 1}`, client as unknown as EventEmitter]));
    },
    stop: async () => {
      asked?.close();
      await Promise.all(opened.map(async (one) => (await one).close()));
      await running?.stop();
    },
  };
}
