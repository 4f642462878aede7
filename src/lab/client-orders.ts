/** What the lab says to a client process, and what comes back. */
import type { Library, Link, Terms } from "./contenders/contender.ts";
import type { Happening } from "./history.ts";

export interface ClientSetup {
  readonly client: string;
  readonly lock: string;
  readonly library: Library;
  readonly link: Link;
  readonly ledgerUrl: string;
}

export type Order =
  | { readonly do: "acquire"; readonly terms: Terms }
  /** Reads both registers, for the next write. */
  | { readonly do: "read" }
  /** Writes to both registers what was read, plus one. */
  | { readonly do: "write" }
  | { readonly do: "check" }
  | { readonly do: "release" }
  /** Blocks the event loop. */
  | { readonly do: "block"; readonly ms: number }
  | { readonly do: "sections"; readonly plan: SectionPlan }
  | { readonly do: "close" };

/** A loop of whole sections, for the soak: acquire, read, work, write, release. */
export interface SectionPlan {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly holdMs: number;
  readonly pauseMs: number;
  readonly names: readonly string[];
  readonly seed: number;
  readonly untilMs: number;
}

export type ToClient = { readonly id: number; readonly order: Order };

export type FromClient =
  | { readonly type: "ready" }
  | { readonly type: "event"; readonly atMs: number; readonly happening: Happening }
  | { readonly type: "done"; readonly id: number; readonly value: unknown }
  | { readonly type: "failed"; readonly id: number; readonly message: string };
