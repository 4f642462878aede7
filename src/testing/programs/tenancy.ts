/** What a program asked for, and what it was given: calls, and leases as their user sees them. */
import type { GroupLease } from "../../core/api.ts";
import type { Mode } from "../../contract/backend.ts";
import type { Client } from "./stage.ts";

export type Verb = "run" | "acquire" | "try" | "elect" | "extend" | "release" | "close";

/** One call of the public API, from its start to its end. */
export interface Call {
  readonly client: Client;
  readonly verb: Verb;
  readonly names: readonly string[];
  readonly mode: Mode;
  readonly ttlMs: number;
  /** How long it is willing to wait. */
  readonly waitMs: number;
  /** Its lease is renewed until it is released. */
  readonly endless: boolean;
  readonly signal: AbortSignal | undefined;
  /** When it began, in the order of all that happened. */
  readonly at: number;
  readonly turn: number;
  readonly nowMs: number;
  /** Its own signal had been aborted when it began. */
  readonly hopeless: boolean;
  /** The lease of the function that it was called from. */
  readonly inside: Tenancy | undefined;
  endedAt: number | undefined;
  gotLease: boolean;
}

/** A lease in the hands of a program. */
export interface Tenancy {
  readonly call: Call;
  readonly client: Client;
  readonly lease: GroupLease;
  readonly mode: Mode;
  /** The lease of the function around it. */
  readonly inside: Tenancy | undefined;
  /** A candidate campaigns alone: its lease is never a part of another. */
  readonly alone: boolean;
  /** A function runs under it. */
  working: boolean;
  /** The user ended it, or its function has settled. */
  ended: boolean;
  /** The user called release(), or its like. */
  released: boolean;
  /** Its signal, when it has been read, and the lease of the function in which that was first: its listeners are in there. */
  signal: AbortSignal | undefined;
  listensIn: Tenancy | undefined;
  /** Its function settled when the lease was known to be lost, or surely held. */
  verdict: "lost" | "held" | "unsure" | undefined;
  /** When it settled. */
  settled: { readonly turn: number; readonly nowMs: number } | undefined;
}

/** True when `outer` is the lease of a function inside of which `inner` was taken, by the same client. */
export function isInside(inner: Tenancy, outer: Tenancy): boolean {
  if (inner.alone) return false;
  for (let around = inner.inside; around !== undefined; around = around.inside) {
    if (around === outer) return inner.client === outer.client;
  }
  return false;
}
