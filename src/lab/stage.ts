/** A stage: a store with its servers, on which plays are put on. */
import type { BackendName } from "../backends/all.ts";
import type { Snapshot } from "../contract/backend.ts";
import type { Link } from "./libraries/library.ts";
import type { Proxy } from "./proxy.ts";

/** A store as scenarios name it: a backend, or Redis behind Sentinel. */
export type StageName = BackendName | "sentinel";

/** What a play may do to a server. What a store cannot do is absent, and no scenario asks for it. */
export interface StageServer {
  readonly name: string;
  /** Resolves to true while the soak must not stop it: see `spares` of its stage. */
  isSpared?(): Promise<boolean>;
  pause?(): void;
  resume?(): void;
  kill?(): Promise<void>;
  restart?(): Promise<void>;
  /** Forgets all its data and keeps running. */
  flush?(): Promise<void>;
  /** Moves its wall clock. */
  jump?(ms: number): void;
}

/** One client's own way to each server. */
export interface StageLink extends Link {
  /** In the order of the stage's servers. Empty where the store has no network. */
  readonly proxies: readonly Proxy[];
}

/** A connection that reads the store itself, past every fault. */
export interface Observer {
  /** The lane of the picture. */
  readonly lane: string;
  /** Rejects when the store cannot be asked. */
  look(prefix: string): Promise<Snapshot>;
  close(): Promise<void>;
}

export interface Stage extends AsyncDisposable {
  readonly backend: StageName;
  readonly servers: readonly StageServer[];
  /** What the soak does not do here, and why: the store does not survive it, by a fault of its own. */
  readonly spares?: string | undefined;
  link(client: string): Promise<StageLink>;
  /** One per store whose truth counts: a quorum has one per member. */
  observe(): Promise<readonly Observer[]>;
  /** Whatever a store keeps, for the leak oracle: names of keys without an end. */
  leaks(): Promise<readonly string[]>;
  /** What is in the store, beyond what it shows, and should not be there once all have left: see leftovers.ts. */
  left(): Promise<readonly string[]>;
  /** Cuts the link between primary and replicas, where there is one. */
  cutReplication?(): void | Promise<void>;
  stop(): Promise<void>;
}
