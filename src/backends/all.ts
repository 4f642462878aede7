/** The one table of backends. connect(), the command line, the lab and the tests read it: a new backend is a new row. */
import type { Backend } from "../contract/backend.ts";

export interface BackendEntry {
  /** Its folder here, its page in docs/backends, and its module of `holdfast doctor`. */
  readonly name: string;
  /** What its URLs start with, without the colon. The first is the usual one. */
  readonly schemes: readonly string[];
  /** The npm packages of which one must be installed beside Holdfast. */
  readonly clients: readonly string[];
  /** Imported only when a URL asks for it. */
  readonly load: () => Promise<{ openBackend(url: string): Promise<Backend> }>;
}

export const BACKENDS: readonly BackendEntry[] = [
  { name: "memory", schemes: ["memory"], clients: [], load: () => import("./memory/open.ts") },
  { name: "file", schemes: ["file"], clients: [], load: () => import("./file/open.ts") },
  {
    name: "redis",
    schemes: [
      "redis",
      "rediss",
      "redis+sentinel",
      "rediss+sentinel",
      "redis-sentinel",
      "redis+cluster",
      "rediss+cluster",
      "redis+unix",
    ],
    clients: ["ioredis", "redis"],
    load: () => import("./redis/open.ts"),
  },
  { name: "quorum", schemes: ["redlock"], clients: ["ioredis", "redis"], load: () => import("./quorum/open.ts") },
  { name: "zookeeper", schemes: ["zk", "zookeeper"], clients: [], load: () => import("./zookeeper/open.ts") },
];

/** Every scheme, in the order of the table. */
export const SCHEMES: readonly string[] = BACKENDS.flatMap(({ schemes }) => schemes);

export function backendOf(scheme: string): BackendEntry | undefined {
  return BACKENDS.find(({ schemes }) => schemes.includes(scheme));
}
