/** A scenario is data: who does what, what goes wrong when, and what must come of it on which backend. */
import type { Terms } from "../libraries/library.ts";
import type { StageName } from "../stage.ts";

export type Who = string;

export type NetworkFault = "cut" | "hang" | "hang replies" | "hang requests" | "lose next reply" | "refuse" | "heal";

export type ServerFault = "pause" | "resume" | "kill" | "restart" | "flush" | { readonly jumpMs: number };

export type Step =
  /** `granted`: the result that it must have. `later`: goes on with the next step; `{ do: "settle" }` waits for it. */
  | ({
      readonly do: "acquire";
      readonly who: Who;
      readonly granted?: boolean;
      readonly later?: boolean;
    } & Partial<Terms>)
  | { readonly do: "settle"; readonly who: Who }
  /** Acquires, reads, writes and releases; it must be granted. */
  | { readonly do: "section"; readonly who: Who; readonly waitMs: number; readonly later?: boolean }
  | { readonly do: "read"; readonly who: Who }
  | { readonly do: "write"; readonly who: Who; readonly later?: boolean }
  /** Asks the library whether the lock is still held. */
  | { readonly do: "check"; readonly who: Who; readonly held: boolean }
  | { readonly do: "release"; readonly who: Who; readonly result?: string }
  | { readonly do: "pause"; readonly who: Who }
  | { readonly do: "resume"; readonly who: Who }
  | { readonly do: "kill"; readonly who: Who }
  | { readonly do: "block"; readonly who: Who; readonly ms: number; readonly later?: boolean }
  | { readonly do: "sleep"; readonly ms: number }
  /** Waits until the client learns that its lease is lost. */
  | { readonly do: "until lost"; readonly who: Who }
  /** `of`: indexes of servers; absent: all. */
  | { readonly do: "network"; readonly who: Who; readonly fault: NetworkFault; readonly of?: readonly number[] }
  | { readonly do: "server"; readonly fault: ServerFault; readonly of?: readonly number[] }
  /** Moves the client's own wall clock. */
  | { readonly do: "client clock"; readonly who: Who; readonly jumpMs: number }
  /** Holds this client's writes to the protected thing back; `deliver`: lets them arrive. */
  | { readonly do: "hold writes"; readonly who: Who }
  | { readonly do: "deliver writes"; readonly who: Who }
  /** Waits until its writes hang in the network; until they have been answered. */
  | { readonly do: "until writes hang"; readonly who: Who }
  | { readonly do: "until written"; readonly who: Who }
  | { readonly do: "cut replication" };

/** What must come of a scenario on one backend. */
export interface Outcome {
  /** Whether two clients may have believed at the same time that they hold the lock. */
  readonly exclusion: "kept" | "broken";
  /** Whether a stale write reaches the protected thing, which only a guard refuses. */
  readonly harm: "none" | "stale write";
  /** Why, where the outcome is not what users would wish. */
  readonly because?: string | undefined;
}

export interface Scenario {
  readonly id: string;
  readonly title: string;
  /** One or two sentences for a reader who has never heard of it. */
  readonly story: string;
  /** Who raised it. */
  readonly source: string;
  /** Ids of the fault catalogue that it plays. */
  readonly plays: readonly string[];
  readonly outcomes: Readonly<Partial<Record<StageName, Outcome>>>;
  readonly steps: readonly Step[];
  /** @default 2000 */
  readonly ttlMs?: number | undefined;
  /** Members of the quorum. @default 3 */
  readonly members?: number | undefined;
  /** One Redis that loses nothing at a crash. @default false */
  readonly durable?: boolean | undefined;
  /** Postgres with an asynchronous standby, and what is appended to its URL, such as `failover=quarantine`. */
  readonly standby?: { readonly query?: string } | undefined;
  /** Options of the Sentinel stage. */
  readonly sentinel?: { readonly query?: string; readonly args?: readonly string[] } | undefined;
  /** True: other lock libraries can play it, too. @default false */
  readonly compares?: boolean | undefined;
}

export const TTL_MS = 2000;

export const KEPT: Outcome = { exclusion: "kept", harm: "none" };
/** Exclusion by belief was kept: the stale holder knew, or could have known by asking; it wrote anyway. */
export const STALE_WRITE: Outcome = { exclusion: "kept", harm: "stale write" };
