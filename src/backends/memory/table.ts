/**
 * The table of all locks of a store, and the steps of which its operations are made: a lease begins, is renewed, ends; the next
 * waiters are granted what has become free. Nothing here runs by itself except one timer per lock that has waiters.
 */
import type { Claim, Forced } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import { ForcedRecords } from "./force-release.ts";
import {
  type Client,
  fits,
  inTheWay,
  isAlive,
  type Lease,
  type Lock,
  newLock,
  type StoreChange,
  sweep,
  toGranted,
} from "./lock.ts";

export class LockTable {
  readonly clock: Clock;
  readonly #run: number;
  readonly #log: ((change: StoreChange) => void) | undefined;
  readonly #locks = new Map<string, Lock>();
  readonly #forced = new ForcedRecords();
  /** The greatest fence of any forgotten lock: an idle lock needs no memory of its own, and its fences still rise. */
  #floor = 0n;
  #queued = 0;

  /** `run`: how many fences a grant reserves where one holds at a time. */
  constructor(clock: Clock, run: number, log: ((change: StoreChange) => void) | undefined) {
    this.clock = clock;
    this.#run = run;
    this.#log = log;
  }

  /** The locks that are held or waited for, as they are: what has ended may still be among them. */
  get all(): ReadonlyMap<string, Lock> {
    return this.#locks;
  }

  forced(prefix: string, nowMs: number): readonly Forced[] {
    return this.#forced.list(prefix, nowMs);
  }

  /** The lock, up to date. Made if there is none. */
  open(name: string, nowMs: number): Lock {
    const known = this.find(name, nowMs);
    if (known !== undefined) return known;
    const lock = newLock(name, this.#floor);
    this.#locks.set(name, lock);
    return lock;
  }

  /** The lock, up to date, if it is held or waited for. */
  find(name: string, nowMs: number): Lock | undefined {
    const lock = this.#locks.get(name);
    if (lock !== undefined) this.settle(lock, nowMs);
    return this.#locks.get(name);
  }

  /** Drops what has ended, grants to the next waiters, and forgets the lock if nothing is left of it. */
  settle(lock: Lock, nowMs: number): void {
    if (nowMs >= lock.soonestMs) {
      for (const lease of sweep(lock, nowMs)) this.drop(lock, lease, "ran-out", lease.untilMs);
    }
    for (const [id, waiter] of lock.queue) {
      const alive = isAlive(waiter, nowMs);
      if (alive && !fits(lock, waiter.claim)) break;
      lock.queue.delete(id);
      if (!alive) {
        this.#report("left", lock, waiter.claim, nowMs);
        continue;
      }
      const { claim, client, wake } = waiter;
      const lease = this.grantNext(lock, claim, client, nowMs);
      wake?.(toGranted(lock, lease));
    }
    if (lock.queue.size > 0) return this.setTimer(lock, nowMs);
    if (lock.leases.size + lock.kept.length > 0) return;
    this.clock.clearTimer(lock.timer);
    if (lock.lastFence > this.#floor) this.#floor = lock.lastFence;
    if (this.#locks.get(lock.name) === lock) this.#locks.delete(lock.name);
  }

  /** Only where one holds at a time a run is reserved: else a later holder of this run would be below an earlier one of the next. */
  grantNext(lock: Lock, claim: Claim, client: Client, nowMs: number): Lease {
    const run = claim.mode === "exclusive" && claim.limit === 1 ? this.#run : 1;
    return this.grant(lock, claim, client, lock.lastFence + 1n, run, nowMs);
  }

  grant(lock: Lock, claim: Claim, client: Client, fence: bigint, run: number, nowMs: number): Lease {
    const untilMs = nowMs + claim.ttlMs + claim.lockDelayMs;
    const lease: Lease = { claim, client, fence, run, sinceMs: nowMs, untilMs };
    lock.leases.set(claim.id, lease);
    lock.lastClaim = claim.id;
    lock.fenceBefore = lock.lastFence;
    lock.lastFence = fence + BigInt(run) - 1n;
    lock.soonestMs = Math.min(lock.soonestMs, untilMs);
    const { id, mode, limit, holder } = claim;
    this.#log?.({ kind: "granted", fence, run, mode, limit, atMs: nowMs, lock: lock.name, claim: id, holder });
    return lease;
  }

  drop(lock: Lock, lease: Lease, how: "released" | "ran-out" | "forced", atMs: number): void {
    const { claim, fence, untilMs } = lease;
    lock.leases.delete(claim.id);
    const dropped = { kind: "dropped", fence, how, ...(how === "forced" && { keptUntilMs: untilMs }) } as const;
    this.#log?.({ ...dropped, atMs, lock: lock.name, claim: claim.id, holder: claim.holder });
  }

  /** The claim waits no longer, if it did. Who watches it learns that there is news. */
  leave(lock: Lock, claim: Claim, nowMs: number): boolean {
    const waiter = lock.queue.get(claim.id);
    if (waiter === undefined) return false;
    lock.queue.delete(claim.id);
    this.#report("left", lock, claim, nowMs);
    waiter.wake?.(undefined);
    return true;
  }

  /** The claim waits from now on. Those whom it waits for learn of it if it is the first. */
  queue(lock: Lock, claim: Claim, client: Client, nowMs: number): void {
    lock.queue.set(claim.id, {
      claim,
      client,
      sinceMs: nowMs,
      number: ++this.#queued,
      askedMs: nowMs,
      wake: undefined,
    });
    this.#report("queued", lock, claim, nowMs);
    if (lock.queue.size === 1) for (const lease of inTheWay(lock)) lease.client.wanted(lease.claim.id);
  }

  #report(kind: "queued" | "left", lock: Lock, { id, holder }: Claim, atMs: number): void {
    this.#log?.({ kind, atMs, lock: lock.name, claim: id, holder });
  }

  /** A claim that holds and asks again (its reply was lost) gets the same fence, for a full ttl from now; never for less than it had. */
  extend(lock: Lock, lease: Lease, claim: Claim, client: Client, nowMs: number): void {
    lease.claim = claim;
    lease.client = client;
    lease.untilMs = Math.max(lease.untilMs, nowMs + claim.ttlMs + claim.lockDelayMs);
    lock.soonestMs = Math.min(lock.soonestMs, lease.untilMs);
  }

  /** Sets a timer for when the next lease ends or the first waiter expires. If it fires early, nothing changes. */
  setTimer(lock: Lock, nowMs: number): void {
    const [head] = lock.queue.values();
    if (head === undefined) return;
    const dueMs = head.wake === undefined ? Math.min(lock.soonestMs, head.askedMs + head.claim.ttlMs) : lock.soonestMs;
    if (lock.timer !== undefined && lock.timerMs <= dueMs) return;
    this.clock.clearTimer(lock.timer);
    lock.timerMs = dueMs;
    lock.timer = this.clock.setTimer(
      () => {
        lock.timer = undefined;
        this.settle(lock, this.clock.now());
      },
      Math.max(0, Math.ceil(dueMs - nowMs)),
    );
  }

  /** Ends a lease, or what is left of one. Its holder learns of it before the next is woken, so that two in one process never believe. */
  force(lock: Lock, ended: Lease, by: string, reason: string, nowMs: number): void {
    const { claim, fence, client } = ended;
    const isHeld = lock.leases.get(claim.id) === ended;
    if (isHeld) this.drop(lock, ended, "forced", nowMs);
    lock.kept = lock.kept.filter((lease) => lease !== ended);
    this.#forced.add({ name: lock.name, fence, by, reason, atMs: nowMs });
    if (isHeld) client.lost(claim.id, { kind: "forced", by, reason });
  }
}
