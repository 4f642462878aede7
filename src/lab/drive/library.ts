/** The Holdfast that is driven: this one, or another build of it, to see what the driver would have found there. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { GroupLease, Locks, LocksOptions } from "../../core/api.ts";
import type { Backend, Member } from "../../contract/backend.ts";
import { etcd } from "../../backends/etcd/index.ts";
import { file } from "../../backends/file/index.ts";
import { createLocks } from "../../core/locks.ts";
import { initMembers, quorum, type QuorumOptions } from "../../backends/quorum/index.ts";
import { redis, type RedisClient, type RedisOptions } from "../../backends/redis/index.ts";
import { peek } from "../../testing/peek.ts";
import { postgres, type PostgresClient, type PostgresOptions } from "../../backends/postgres/index.ts";
import { zookeeper } from "../../backends/zookeeper/index.ts";

export interface Holdfast {
  readonly createLocks: (backend: Backend, options?: LocksOptions) => Locks;
  readonly redis: (client: RedisClient, options?: RedisOptions) => Member;
  readonly quorum: (members: readonly Member[], options?: QuorumOptions) => Backend;
  readonly initMembers: (members: readonly Member[], options?: QuorumOptions) => Promise<unknown>;
  readonly zookeeper: (options: { readonly servers: string; readonly session: number }) => Backend;
  readonly postgres: (client: PostgresClient, options?: PostgresOptions) => Backend;
  readonly etcd: (options: { readonly endpoints: string }) => Backend;
  readonly file: (options: { readonly dir: string }) => Backend;
  /** How long the lease is believed in from now on; 0: no longer. Changes nothing, where the build can do that. */
  readonly leftMs: (lease: GroupLease) => number;
  /** It knows the option `linger`. */
  readonly lingers: boolean;
}

/** `dist`: the directory of another build. */
export async function loadHoldfast(dist?: string): Promise<Holdfast> {
  if (dist === undefined)
    return { createLocks, redis, quorum, initMembers, zookeeper, postgres, etcd, file, leftMs, lingers: true };
  const load = (...parts: readonly string[]): Promise<never> =>
    import(pathToFileURL(join(dist, ...parts, "index.js")).href) as Promise<never>;
  // Backends had no folder of their own in builds before 0.2.
  const folder = existsSync(join(dist, "backends")) ? "backends" : "";
  const names = ["redis", "quorum", "zookeeper", "postgres", "etcd", "file"].filter((name) =>
    existsSync(join(dist, folder, name)),
  );
  const [main, testing, ...backends] = (await Promise.all([
    load(),
    load("testing"),
    ...names.map((name) => load(folder, name)),
  ])) as unknown as [Holdfast, Holdfast, ...Holdfast[]];
  const canPeek = typeof (testing as { peek?: unknown } | undefined)?.peek === "function";
  return {
    ...Object.assign({}, ...backends),
    createLocks: main.createLocks,
    leftMs: canPeek ? leftMs : (lease) => lease.remaining(),
    lingers: existsSync(join(dist, "core", "linger.js")),
  } as Holdfast;
}

function leftMs(lease: GroupLease): number {
  const parts = peek(lease);
  if (parts.some(({ state }) => state !== "held")) return 0;
  return Math.max(0, Math.min(...parts.map(({ trustedUntilMs }) => trustedUntilMs)) - performance.now());
}
