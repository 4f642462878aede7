/** A directory: no server, no network. Only the clients can go wrong. */
import { leftInQueues } from "../leftovers.ts";
import { openObserver } from "../observers.ts";
import { makeScratch, removeScratch } from "../servers/scratch.ts";
import type { Stage } from "../stage.ts";

export async function openFileStage(): Promise<Stage> {
  const place = makeScratch();
  const url = `file://${place}`;
  const stop = async (): Promise<void> => removeScratch(place);
  return {
    backend: "file",
    servers: [],
    link: async () => ({ url, ports: [], proxies: [] }),
    observe: async () => [await openObserver("files", url)],
    leaks: async () => [],
    left: async () => leftInQueues(place),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
