/** The one table of backends. connect(), the command line, the lab and the tests read it: a new backend is a new row. */
import type { Backend } from "../contract/backend.ts";

/** Its folder here, and its page in docs/backends. */
export type BackendName =
  | "memory"
  | "file"
  | "redis"
  | "redis-plain"
  | "redisson"
  | "quorum"
  | "zookeeper"
  | "postgres"
  | "shedlock"
  | "etcd";

export interface BackendEntry {
  /** What its URLs start with, without the colon. The first is the usual one. */
  readonly schemes: readonly string[];
  /** Present: it serves only URLs with this `layout` in their query, of schemes that another backend serves without. */
  readonly layout?: string | undefined;
  /** npm packages, of which one must be installed beside Holdfast. */
  readonly clients: readonly string[];
  /** Imports it. Called only when a URL asks for it. */
  readonly load: () => Promise<{ openBackend(url: string): Promise<Backend> }>;
}

const REDIS_CLIENTS = ["ioredis", "redis"];
const REDIS_SCHEMES = [
  "redis",
  "rediss",
  "redis+sentinel",
  "rediss+sentinel",
  "redis-sentinel",
  "redis+cluster",
  "rediss+cluster",
  "redis+unix",
];

export const BACKENDS: Readonly<Record<BackendName, BackendEntry>> = {
  memory: { schemes: ["memory"], clients: [], load: () => import("./memory/open.ts") },
  file: { schemes: ["file"], clients: [], load: () => import("./file/open.ts") },
  redis: { schemes: REDIS_SCHEMES, clients: REDIS_CLIENTS, load: () => import("./redis/open.ts") },
  "redis-plain": {
    schemes: REDIS_SCHEMES,
    layout: "plain",
    clients: REDIS_CLIENTS,
    load: () => import("./redis-plain/open.ts"),
  },
  redisson: {
    schemes: REDIS_SCHEMES,
    layout: "redisson",
    clients: REDIS_CLIENTS,
    load: () => import("./redisson/open.ts"),
  },
  quorum: { schemes: ["redlock"], clients: REDIS_CLIENTS, load: () => import("./quorum/open.ts") },
  zookeeper: { schemes: ["zk", "zookeeper"], clients: [], load: () => import("./zookeeper/open.ts") },
  postgres: {
    schemes: ["postgres", "postgresql"],
    clients: ["pg", "postgres"],
    load: () => import("./postgres/open.ts"),
  },
  shedlock: {
    schemes: ["postgres+shedlock"],
    clients: ["pg", "postgres"],
    load: () => import("./shedlock/open.ts"),
  },
  etcd: { schemes: ["etcd", "etcds"], clients: [], load: () => import("./etcd/open.ts") },
};

export const BACKEND_NAMES: readonly BackendName[] = Object.keys(BACKENDS) as BackendName[];

/** Every scheme, in the order of the table. */
export const SCHEMES: readonly string[] = [...new Set(BACKEND_NAMES.flatMap((name) => BACKENDS[name].schemes))];

/** The backend that serves a URL; undefined when its scheme is not known, or not with that layout. */
export function backendOf(url: string): BackendName | undefined {
  const served = servedBy(url);
  const hasLayouts = served.some((name) => BACKENDS[name].layout !== undefined);
  return hasLayouts ? served.find((name) => BACKENDS[name].layout === layoutOf(url)) : served[0];
}

/** The layouts that a URL may ask for. */
export function layoutsFor(url: string): readonly string[] {
  return servedBy(url).flatMap((name) => BACKENDS[name].layout ?? []);
}

function servedBy(url: string): readonly BackendName[] {
  const scheme = schemeOf(url);
  return BACKEND_NAMES.filter((name) => scheme !== undefined && BACKENDS[name].schemes.includes(scheme));
}

function layoutOf(url: string): string | undefined {
  const at = url.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : url.slice(at + 1)).get("layout") ?? undefined;
}

export function schemeOf(url: string): string | undefined {
  return /^([a-z][a-z0-9+-]{0,30}):/i.exec(url)?.[1]?.toLowerCase();
}
