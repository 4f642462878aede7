/** One line of the Redis part of the conformance matrix: a client library and a topology. */
import type { RedisOptions } from "../../src/redis/index.ts";
import { redis } from "../../src/redis/index.ts";
import type { ConformanceEntry } from "../conformance/conformance-tests.ts";
import type { Library, Opened } from "./clients.ts";

/** Connecting is slow where it takes many connections, so the suite's backends share a few clients. */
const CLIENTS = 4;

export function redisEntry<Lab extends { stop(): Promise<void> }>(
  library: Library,
  topology: string,
  lab: () => Promise<Lab>,
  connect: (library: Library, lab: Lab) => Promise<Opened>,
  options: RedisOptions = {},
): ConformanceEntry {
  const opened: Promise<Opened>[] = [];
  let next = 0;
  let running: Lab | undefined;
  return {
    name: `redis: ${library.name}, ${topology}`,
    member: topology === "standalone",
    start: async () => {
      const started = await lab();
      running = started;
      for (let i = 0; i < CLIENTS; i++) opened.push(connect(library, started));
      await Promise.all(opened);
      return {
        open: async () => {
          const { client } = await (opened[next++ % CLIENTS] as Promise<Opened>);
          const backend = redis(client, options);
          // A member is told by its quorum whether it must fear to have forgotten leases; here it need not.
          if (topology === "standalone") await backend.join({ quarantineMs: 0, allowEviction: false });
          return backend;
        },
      };
    },
    stop: async () => {
      await Promise.all(opened.map(async (one) => (await one).close()));
      await running?.stop();
    },
  };
}
