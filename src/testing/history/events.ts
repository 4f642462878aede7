/** What happened to locks, as events on one monotonic clock, and what a judgement on them says. */
import type { Mode } from "../../contract/backend.ts";
import type { ReleaseResult } from "../../core/api.ts";

interface Happened {
  readonly atMs: number;
  readonly lock: string;
}

/** `who` is one line of work: it does one thing at a time. */
interface Claimant extends Happened {
  readonly who: string;
}

export type ClaimantEvent =
  /** Calls acquire(), or its like. */
  | (Claimant & { readonly kind: "asked"; readonly mode?: Mode; readonly limit?: number })
  /** Gets the lease, and believes from here on: until `trustedUntilMs` at most, if it says so. */
  | (Claimant & { readonly kind: "held"; readonly fence: bigint; readonly trustedUntilMs?: number })
  /** Learns that it may believe longer: a renewal. */
  | (Claimant & { readonly kind: "trusted"; readonly fence: bigint; readonly trustedUntilMs: number })
  /** Gets a no, or gives up. */
  | (Claimant & { readonly kind: "refused" })
  /** Enters again what it holds, and leaves that again. */
  | (Claimant & { readonly kind: "entered" | "exited"; readonly fence: bigint })
  /** Calls release(): believes no longer. */
  | (Claimant & { readonly kind: "releasing"; readonly fence: bigint })
  /** release() is done, with this result. */
  | (Claimant & { readonly kind: "released"; readonly fence: bigint; readonly result: ReleaseResult })
  /** Learns that the lease is lost: believes no longer. */
  | (Claimant & { readonly kind: "lost"; readonly fence: bigint })
  /** Does the work of once() under this lease. */
  | (Claimant & { readonly kind: "worked"; readonly fence: bigint })
  /** Gets what the work of another came to, after it asked at `sinceMs`. */
  | (Claimant & {
      readonly kind: "replayed";
      readonly fence: bigint;
      readonly value: string;
      readonly sinceMs: number;
    })
  /** Wrote to what the lock protects; a guard let it in, or not. */
  | (Claimant & { readonly kind: "wrote"; readonly fence: bigint; readonly accepted: boolean });

/** The truth, where the store can be watched. */
export type StoreEvent = Happened & { readonly claim: string } & (
    | { readonly kind: "queued" | "left" }
    | {
        readonly kind: "granted";
        readonly fence: bigint;
        readonly run: number;
        readonly mode: Mode;
        readonly limit: number;
      }
    | {
        readonly kind: "dropped";
        readonly fence: bigint;
        readonly how: "released" | "ran-out" | "forced";
        /** Until when it would have been kept, where it was ended by force. Absent: the store does not say. */
        readonly keptUntilMs?: number | undefined;
      }
    | { readonly kind: "kept-outcome"; readonly fence: bigint; readonly value: string; readonly untilMs: number }
    | { readonly kind: "forgot-outcome"; readonly fence: bigint }
  );

export type HistoryEvent = ClaimantEvent | StoreEvent;

/** Which promise was broken; see docs/testing.md. */
export type Oracle =
  | "O1 exclusion"
  | "O2 fenced store"
  | "O3 no foreign release"
  | "O4 early signal"
  | "O5 liveness"
  | "O6 no leak"
  | "O7 order"
  | "O8 truthfulness"
  | "O9 once"
  | "fences";

export interface Violation {
  readonly oracle: Oracle;
  readonly atMs: number;
  readonly lock: string;
  readonly message: string;
}

export interface HistoryOptions {
  /** How long before the store's end belief must have ended. @default 0 */
  readonly marginMs?: number | undefined;
  /** False for stores that do not promise an order. @default true */
  readonly fair?: boolean | undefined;
}
