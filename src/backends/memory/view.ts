/** The store as it is, for tests: looking at it changes nothing, where a query would let go of what has ended. */
import type { Claim } from "../../contract/backend.ts";
import { type Lease, type Lock, isAlive } from "./lock.ts";

export interface LeaseView {
  readonly claim: Claim;
  readonly fence: bigint;
  readonly run: number;
  readonly untilMs: number;
}

/** One lock that somebody holds or waits for. What has ended is not shown. */
export interface LockView {
  readonly name: string;
  readonly held: readonly LeaseView[];
  /** Released before their `minHold`: nobody's, but not free. */
  readonly kept: readonly LeaseView[];
  readonly queued: readonly Claim[];
}

export function viewOf(locks: Iterable<Lock>, nowMs: number): readonly LockView[] {
  const alive = ({ untilMs }: Lease): boolean => untilMs > nowMs;
  return Array.from(locks, ({ name, leases, kept, queue }) => ({
    name,
    held: [...leases.values()].filter(alive),
    kept: kept.filter(alive),
    queued: [...queue.values()].filter((ticket) => isAlive(ticket, nowMs)).map(({ claim }) => claim),
  }));
}
