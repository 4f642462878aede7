/** A store under the driver: real servers, and a network of its own for every client. */
import type { Locks } from "../../core/api.ts";
import type { Snapshot } from "../../contract/backend.ts";
import type { Proxy } from "../proxy.ts";
import type { Possibilities, ServerAct } from "./schedule.ts";

export const STORES = ["redis", "sentinel", "cluster", "quorum", "zookeeper", "postgres", "etcd", "file"] as const;
export type StoreName = (typeof STORES)[number];

/** The road of connections that listen for messages. */
export const MESSAGES = "messages";

export interface StoreClient {
  /** One for each server; empty where the store has no network. */
  readonly proxies: readonly Proxy[];
  /** Opens the store anew over the same connections, where the store lets its user bring them. */
  open(holder: string, run: number): Locks;
  /** Listeners on what the user brought. */
  listeners(): number;
  close(): Promise<void>;
}

export interface DrivenStore extends AsyncDisposable {
  readonly name: StoreName;
  readonly possible: Possibilities;
  /** A client with a network of its own. */
  client(): Promise<StoreClient>;
  /** What the store has, asked past all faults. */
  look(prefix: string): Promise<Snapshot>;
  /** Does it, waits, and undoes it. */
  strike(what: ServerAct, server: number, forMs: number): Promise<void>;
  /** Resolves when all servers serve again. */
  calm(): Promise<void>;
  /** Keys that would stay for ever. */
  leaks(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

/** How a Redis connection shows what it is for. */
export function redisRoad(request: Buffer): string | undefined {
  return /\bsubscribe\r\n/iu.test(request.toString("latin1")) ? MESSAGES : undefined;
}
