/** The memory backend: a store inside one client process. Other processes cannot see it. */
import type { Stage } from "../stage.ts";

export async function openMemoryStage(): Promise<Stage> {
  const stop = async (): Promise<void> => undefined;
  return {
    backend: "memory",
    servers: [],
    link: async () => ({ url: "memory:", ports: [], proxies: [] }),
    observe: async () => [],
    leaks: async () => [],
    left: async () => [],
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
