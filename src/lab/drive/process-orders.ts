/** What the driver says to a client in a process of its own, and what comes back. */
import type { HistoryEvent } from "../../testing/history/events.ts";
import type { OwnAct } from "./actor.ts";
import type { Finding } from "./report.ts";

/** In which the process finds its setup. */
export const SETUP_VARIABLE = "HOLDFAST_DRIVE_ACTOR";

export interface ProcessSetup {
  readonly name: string;
  readonly prefix: string;
  readonly dir: string;
  readonly dist: string | undefined;
}

export type ToActor =
  | { readonly do: "perform"; readonly step: number; readonly act: OwnAct }
  /** Answered when every call has settled. */
  | { readonly do: "settle"; readonly id: number }
  /** Answered when all is closed; the process must end by itself then. */
  | { readonly do: "finish"; readonly id: number };

export type FromActor =
  | { readonly type: "ready" }
  | { readonly type: "event"; readonly event: HistoryEvent }
  | { readonly type: "finding"; readonly finding: Finding }
  | { readonly type: "count"; readonly what: string }
  | { readonly type: "closed"; readonly holder: string; readonly step: number; readonly clean: boolean }
  | { readonly type: "done"; readonly id: number };
