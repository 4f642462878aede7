/** A directory under the driver: no server and no network, but processes that are stopped and killed. */
import { makeScratch, removeScratch } from "../../servers/scratch.ts";
import { castProcesses } from "../cast-processes.ts";
import type { Holdfast } from "../library.ts";
import type { OpenedStore } from "./opened.ts";

export async function driveFile(
  { createLocks, file, lingers }: Holdfast,
  dist: string | undefined,
): Promise<OpenedStore> {
  const dir = makeScratch();
  const observer = createLocks(file({ dir }), { holder: "observer" });
  const stop = async (): Promise<void> => {
    await observer.close().catch(() => undefined);
    removeScratch(dir);
  };
  const clients = 3;
  return {
    name: "file",
    possible: {
      clients,
      servers: 0,
      serverActs: [],
      processActs: ["stop", "stop", "kill"],
      network: false,
      limits: true,
      ttls: [400, 1000],
      linger: lingers,
    },
    cast: (_, report, terms) => castProcesses(dir, dist, clients, report, terms),
    client: () => Promise.reject(new TypeError("clients of a directory are processes")),
    look: (prefix) => observer.query(prefix),
    strike: async () => undefined,
    calm: async () => undefined,
    leaks: async () => [],
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
