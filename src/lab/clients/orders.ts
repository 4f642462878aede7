/** What the lab says to a client process, and what comes back. */
import type { Library, Link, Terms } from "../libraries/library.ts";
import type { ClaimantEvent } from "../../testing/history/events.ts";
import type { Happening } from "../events.ts";

/** In which a client process finds its setup. */
export const SETUP_VARIABLE = "HOLDFAST_LAB_CLIENT";

export interface ClientSetup {
  readonly client: string;
  readonly lock: string;
  readonly library: Library;
  readonly link: Link;
  readonly counterUrl: string;
}

export type Order =
  | { readonly do: "acquire"; readonly terms: Terms }
  /** Reads both registers, for the next write. */
  | { readonly do: "read" }
  /** Writes to both registers what was read, plus one. */
  | { readonly do: "write" }
  | { readonly do: "check" }
  /** The same, without a note in the history. */
  | { readonly do: "peek" }
  | { readonly do: "release" }
  /** Blocks the event loop. */
  | { readonly do: "block"; readonly ms: number }
  /** Begins the soak's loops; ends at the order to stop, and then reports how many sections were done. */
  | { readonly do: "sections"; readonly plan: SectionPlan }
  | { readonly do: "stop sections" }
  /** Closes the locks; `thorough`: waits for, and reports, what they leave open in the process. */
  | { readonly do: "close"; readonly thorough: boolean };

/** Loops of whole sections, for the soak: acquire, work, write, release. */
export interface SectionPlan {
  readonly seed: number;
  readonly loops: number;
  readonly ttlMs: number;
  /** How many locks there are at a time. */
  readonly locks: number;
  /** All locks get new names after this long, so histories can be judged and forgotten. */
  readonly epochMs: number;
}

/** What comes of closing the locks. */
export interface Closed {
  /** What was still open in the process some time later. */
  readonly left: readonly string[];
  /** What close() rejected with: the store did not confirm all releases. */
  readonly unconfirmed?: string | undefined;
}

export type ToClient = { readonly id: number; readonly order: Order };

export type FromClient =
  | { readonly type: "ready" }
  | { readonly type: "event"; readonly atMs: number; readonly happening: Happening }
  | { readonly type: "claimant"; readonly event: ClaimantEvent }
  /** A write to the protected thing. */
  | { readonly type: "write"; readonly lock: string; readonly who: string; readonly fence: bigint }
  | { readonly type: "done"; readonly id: number; readonly value: unknown }
  | { readonly type: "failed"; readonly id: number; readonly message: string };
