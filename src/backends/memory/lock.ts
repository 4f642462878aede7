/** One lock's state, and the rules about it that need no clock and no store: which claims may hold together, what has ended. */
import type { Claim, Granted, Mode } from "../../contract/backend.ts";
import type { Timer } from "../../contract/clock.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { LossReason } from "../../contract/loss.ts";

/** The store's side of one backend. */
export interface Client {
  lost(claimId: string, reason: LossReason): void;
  wanted(claimId: string): void;
}

export interface Lease {
  claim: Claim;
  client: Client;
  fence: bigint;
  readonly run: number;
  readonly sinceMs: number;
  /** When the store lets go by itself: ttl and lock delay after the last renewal. */
  untilMs: number;
}

export interface Waiter {
  claim: Claim;
  client: Client;
  readonly sinceMs: number;
  /** Among all that were ever queued in the store, in their order. */
  readonly number: number;
  askedMs: number;
  /** Set while the claim is watched. */
  wake: ((granted: Granted | undefined) => void) | undefined;
}

export interface Lock {
  readonly name: string;
  readonly leases: Map<string, Lease>;
  /** Released before their `minHold`: not held any more, but each takes a place until its time. */
  kept: Lease[];
  /** In order of arrival. */
  readonly queue: Map<string, Waiter>;
  /** The greatest fence given so far. */
  lastFence: bigint;
  /** To which claim it was given, and the greatest before it: what is known of one grant only, as in Redis. */
  lastClaim: string;
  fenceBefore: bigint;
  /** No lease ends before this, so until then there is nothing to sweep. */
  soonestMs: number;
  timer: Timer;
  timerMs: number;
}

/** What the store did, with the instant at which it took effect. */
export type StoreChange = {
  readonly atMs: number;
  readonly lock: string;
  readonly claim: string;
  readonly holder: string;
} & (
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
      /** Until when it would have been kept, where it was ended by force. */
      readonly keptUntilMs?: number;
    }
  | { readonly kind: "kept-outcome"; readonly fence: bigint; readonly value: string; readonly untilMs: number }
  | { readonly kind: "forgot-outcome"; readonly fence: bigint }
);

export function newLock(name: string, lastFence: bigint): Lock {
  return {
    name,
    leases: new Map(),
    kept: [],
    queue: new Map(),
    lastFence,
    lastClaim: "",
    fenceBefore: lastFence,
    soonestMs: Infinity,
    timer: undefined,
    timerMs: Infinity,
  };
}

/** True if the claim may hold now, together with the others. The order of arrival is the caller's part. */
export function fits(lock: Lock, claim: Claim): boolean {
  const taken = lock.leases.size + lock.kept.length;
  if (taken === 0) return true;
  const [first] = lock.leases.size > 0 ? lock.leases.values() : lock.kept;
  if (first?.claim.mode !== claim.mode) return false;
  return claim.mode === "shared" || taken < claim.limit;
}

/** Forgets places that were kept long enough, finds when the next lease ends, and returns the leases that have ended. */
export function sweep(lock: Lock, nowMs: number): readonly Lease[] {
  lock.kept = lock.kept.filter((lease) => lease.untilMs > nowMs);
  const leases = [...lock.leases.values()];
  const alive = leases.filter((lease) => lease.untilMs > nowMs);
  lock.soonestMs = [...alive, ...lock.kept].reduce((soonest, { untilMs }) => Math.min(soonest, untilMs), Infinity);
  return leases.filter((lease) => lease.untilMs <= nowMs);
}

/** A waiter is alive while it is watched, and for a ttl after its last attempt. */
export function isAlive(waiter: Waiter, nowMs: number): boolean {
  return waiter.wake !== undefined || nowMs < waiter.askedMs + waiter.claim.ttlMs;
}

/** Throws when the others of this lock use another limit. */
export function checkLimit(lock: Lock, claim: Claim, nowMs: number, ignoresHolders = false): void {
  if (claim.mode === "shared") return;
  const known = (ignoresHolders ? undefined : heldLimit(lock)) ?? awaitedLimit(lock, claim.id, nowMs);
  if (known === undefined || known === claim.limit) return;
  throw new LockBackendError(
    "memory",
    claim.name,
    `Lock ${quote(claim.name)} is in use with limit ${known}, but this claim asks for limit ${claim.limit}. All claimants of a lock must agree on its limit.`,
    { fatal: true },
  );
}

function heldLimit(lock: Lock): number | undefined {
  // All holders have one mode, so the first one shows it.
  const [holder] = lock.leases.size > 0 ? lock.leases.values() : lock.kept;
  return holder?.claim.mode === "exclusive" ? holder.claim.limit : undefined;
}

function awaitedLimit(lock: Lock, exceptId: string, nowMs: number): number | undefined {
  for (const waiter of lock.queue.values()) {
    const { claim } = waiter;
    if (claim.mode === "exclusive" && claim.id !== exceptId && isAlive(waiter, nowMs)) return claim.limit;
  }
  return undefined;
}

export function contains(lease: Lease, fence: bigint): boolean {
  return fence >= lease.fence && fence < lease.fence + BigInt(lease.run);
}

/** Whom a waiting claim waits for: all who share the lock, or, where a limit lets several hold, the oldest. */
export function inTheWay(lock: Lock): readonly Lease[] {
  const leases = [...lock.leases.values()];
  return leases[0]?.claim.mode === "shared" ? leases : leases.slice(0, 1);
}

export function isWanted(lock: Lock, lease: Lease): boolean {
  return lock.queue.size > 0 && inTheWay(lock).includes(lease);
}

export function toGranted(lock: Lock, lease: Lease): Granted {
  const { fence, run } = lease;
  return { granted: true, fence, run, mayLinger: true, ...(isWanted(lock, lease) && { wanted: true }) };
}

export function positionOf(lock: Lock, id: string): number {
  let position = 1;
  for (const queued of lock.queue.keys()) {
    if (queued === id) return position;
    position++;
  }
  return position;
}
