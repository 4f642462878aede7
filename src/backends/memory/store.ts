/**
 * The state of all locks, and the rules by which it changes: the reference for every other store.
 *
 * Every operation is one synchronous step, hence atomic. Nothing here runs by itself except one timer per lock that has
 * waiters. Leases end lazily, at the next operation. Several backends may share a store, as processes share a server.
 */
import type { Claim, Granted, Refused, Released, Snapshot, Vote } from "../../contract/backend.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { ForcedRecords } from "./force-release.ts";
import { ReleaseHints } from "./release-hints.ts";
import {
  checkLimit,
  type Client,
  contains,
  fits,
  holdings,
  isAlive,
  type Lease,
  type Lock,
  type LockView,
  newLock,
  positionOf,
  type StoreChange,
  sweep,
  toGranted,
  viewOf,
  waitings,
} from "./lock.ts";

/** A waiter asks again at least this often, so a dead one is noticed. */
const RETRY_MAX_MS = 5000;

export interface MemoryStoreOptions {
  /** @default the system's clock */
  readonly clock?: Clock | undefined;
  /** How many fences a grant reserves where one holds at a time. @default 64 */
  readonly run?: number | undefined;
  /** Called with every change as it happens: for tests and timelines. @default none */
  readonly log?: ((change: StoreChange) => void) | undefined;
}

/** Makes a store that several `memory({ store })` backends can share. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  return new MemoryStore(options.clock ?? systemClock, options.run ?? 64, options.log);
}

export class MemoryStore {
  readonly clock: Clock;
  readonly freed: ReleaseHints = new ReleaseHints();
  readonly #run: number;
  readonly #log: ((change: StoreChange) => void) | undefined;
  readonly #locks = new Map<string, Lock>();
  readonly #forced = new ForcedRecords();
  /** The greatest fence of any forgotten lock: an idle lock needs no memory of its own, and its fences still rise. */
  #floor = 0n;

  /** @internal Use {@link memoryStore}. */
  constructor(clock: Clock, run: number, log?: (change: StoreChange) => void) {
    this.clock = clock;
    this.#run = run;
    this.#log = log;
  }

  attempt(claim: Claim, client: Client): Granted | Refused {
    const nowMs = this.clock.now();
    const lock = this.#open(claim.name, nowMs);
    const held = lock.leases.get(claim.id);
    if (held !== undefined) {
      this.#extend(lock, held, claim, client, nowMs);
      return toGranted(held);
    }
    checkLimit(lock, claim, nowMs);
    const waiter = lock.queue.get(claim.id);
    if (waiter === undefined && lock.queue.size === 0 && fits(lock, claim)) {
      const fence = lock.lastFence + 1n;
      return toGranted(this.#grant(lock, claim, client, fence, this.#runOf(claim), nowMs));
    }
    if (!claim.queues) {
      if (waiter !== undefined) this.release(claim);
      return { granted: false, heldBy: holdings(lock, nowMs) };
    }
    if (waiter === undefined) {
      lock.queue.set(claim.id, { claim, client, sinceMs: nowMs, askedMs: nowMs, wake: undefined });
      this.#report("queued", lock, claim, nowMs);
    } else {
      Object.assign(waiter, { claim, client, askedMs: nowMs });
    }
    this.#setTimer(lock, nowMs);
    return {
      granted: false,
      heldBy: holdings(lock, nowMs),
      position: positionOf(lock, claim.id),
      retryMs: Math.max(1, Math.min(Math.floor(claim.ttlMs / 3), RETRY_MAX_MS)),
    };
  }

  /** Calls `wake` with the grant, or with `undefined` for "attempt again". Returns how to stop watching. */
  watch(claim: Claim, wake: (granted: Granted | undefined) => void): () => void {
    const lock = this.#locks.get(claim.name);
    const waiter = lock?.queue.get(claim.id);
    if (lock === undefined || waiter === undefined) {
      // Granted since the last attempt, or unknown: another attempt shows which, and renews what was granted.
      wake(undefined);
      return () => undefined;
    }
    waiter.wake?.(undefined);
    waiter.wake = wake;
    return () => {
      if (waiter.wake !== wake) return;
      waiter.wake = undefined;
      this.#setTimer(lock, this.clock.now());
    };
  }

  /** Renews the lease for its own ttl. `false`: there is no such lease, or it has another fence. */
  renew(claim: Claim, fence?: bigint): boolean {
    const nowMs = this.clock.now();
    const lock = this.#find(claim.name, nowMs);
    const lease = lock?.leases.get(claim.id);
    if (lock === undefined || lease === undefined || (fence ?? lease.fence) !== lease.fence) return false;
    this.#extend(lock, lease, claim, lease.client, nowMs);
    return true;
  }

  /** Ends the claim, held or queued, and hands over to the next in the same step. `unseen`: its fence was not reported yet. */
  release(claim: Claim, unseen = false): Released {
    const nowMs = this.clock.now();
    const lock = this.#find(claim.name, nowMs);
    if (lock === undefined) return "absent";
    const lease = lock.leases.get(claim.id);
    const waiter = lock.queue.get(claim.id);
    if (lease !== undefined) {
      const keptMs = lease.sinceMs + claim.minHoldMs;
      if (keptMs > nowMs) {
        lock.kept.push({ ...lease, untilMs: keptMs });
        lock.soonestMs = Math.min(lock.soonestMs, keptMs);
      }
      this.#drop(lock, lease, "released", nowMs);
      if (unseen && lock.lastClaim === claim.id && lock.lastFence === lease.fence) lock.lastFence = lock.fenceBefore;
    }
    if (lock.queue.delete(claim.id)) this.#report("left", lock, claim, nowMs);
    waiter?.wake?.(undefined);
    this.#settle(lock, nowMs);
    if (lease !== undefined) return "held";
    return waiter === undefined ? "absent" : "queued";
  }

  query(prefix: string): Snapshot {
    const nowMs = this.clock.now();
    const locks = [...this.#locks.keys()]
      .filter((name) => name.startsWith(prefix))
      .flatMap((name) => this.#find(name, nowMs) ?? []);
    return {
      held: locks.flatMap((lock) => holdings(lock, nowMs)),
      pending: locks.flatMap((lock) => waitings(lock, nowMs)),
      forced: this.#forced.list(prefix, nowMs),
    };
  }

  /** As {@link query}, but nothing is dropped and nothing is granted: for tests. */
  view(): readonly LockView[] {
    return viewOf(this.#locks.values(), this.clock.now());
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): boolean {
    const nowMs = this.clock.now();
    const lock = this.#find(name, nowMs);
    if (lock === undefined) return false;
    const hit = [...lock.leases.values()].find((lease) => contains(lease, fence));
    const kept = lock.kept.find((lease) => contains(lease, fence));
    const ended = hit ?? kept;
    if (ended === undefined) return false;
    if (hit !== undefined) this.#drop(lock, hit, "forced", nowMs);
    lock.kept = lock.kept.filter((lease) => lease !== kept);
    this.#forced.add({ name, fence: ended.fence, by, reason, atMs: nowMs });
    // Before the next holder is woken, so two in one process never believe that they hold it.
    hit?.client.lost(hit.claim.id, { kind: "forced", by, reason });
    this.#settle(lock, nowMs);
    return true;
  }

  vote(claim: Claim, ballot: bigint, client: Client): Vote {
    const nowMs = this.clock.now();
    const wallMs = this.clock.wall();
    const waiters = this.freed.count(claim.name);
    const lock = this.#open(claim.name, nowMs);
    const held = lock.leases.get(claim.id);
    if (held !== undefined && held.fence === ballot) {
      this.#extend(lock, held, claim, client, nowMs);
      return { vote: "granted", waiters, wallMs };
    }
    checkLimit(lock, claim, nowMs);
    // Its own early release counts too, while minHold keeps the lock taken.
    const [first] = holdings(lock, nowMs);
    if (held === undefined && first !== undefined && !(lock.queue.size === 0 && fits(lock, claim))) {
      const { holder: by, fence, heldMs, remainingMs } = first;
      return { vote: "held", by, fence, heldMs, remainingMs, waiters, wallMs };
    }
    if (ballot <= lock.lastFence) {
      this.#settle(lock, nowMs);
      return { vote: "low", fence: lock.lastFence, wallMs };
    }
    this.#grant(lock, claim, client, ballot, 1, nowMs);
    return { vote: "granted", waiters, wallMs };
  }

  /** The lock, up to date. Made if there is none. */
  #open(name: string, nowMs: number): Lock {
    const known = this.#find(name, nowMs);
    if (known !== undefined) return known;
    const lock = newLock(name, this.#floor);
    this.#locks.set(name, lock);
    return lock;
  }

  /** The lock, up to date, if it is held or waited for. */
  #find(name: string, nowMs: number): Lock | undefined {
    const lock = this.#locks.get(name);
    if (lock !== undefined) this.#settle(lock, nowMs);
    return this.#locks.get(name);
  }

  /** Drops what has ended, grants to the next waiters, and forgets the lock if nothing is left of it. */
  #settle(lock: Lock, nowMs: number): void {
    if (nowMs >= lock.soonestMs) {
      for (const lease of sweep(lock, nowMs)) this.#drop(lock, lease, "ran-out", lease.untilMs);
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
      const lease = this.#grant(lock, claim, client, lock.lastFence + 1n, this.#runOf(claim), nowMs);
      wake?.(toGranted(lease));
    }
    if (lock.queue.size > 0) return this.#setTimer(lock, nowMs);
    if (lock.leases.size + lock.kept.length > 0) return;
    this.clock.clearTimer(lock.timer);
    if (lock.lastFence > this.#floor) this.#floor = lock.lastFence;
    if (this.#locks.get(lock.name) === lock) this.#locks.delete(lock.name);
  }

  #grant(lock: Lock, claim: Claim, client: Client, fence: bigint, run: number, nowMs: number): Lease {
    const untilMs = nowMs + claim.ttlMs + claim.lockDelayMs;
    const lease: Lease = { claim, client, fence, run, sinceMs: nowMs, untilMs };
    lock.leases.set(claim.id, lease);
    lock.lastClaim = claim.id;
    lock.fenceBefore = lock.lastFence;
    lock.lastFence = fence + BigInt(run) - 1n;
    lock.soonestMs = Math.min(lock.soonestMs, untilMs);
    const { id, mode, limit, holder } = claim;
    this.#log?.({ kind: "granted", atMs: nowMs, lock: lock.name, claim: id, holder, fence, run, mode, limit });
    return lease;
  }

  #drop(lock: Lock, lease: Lease, how: "released" | "ran-out" | "forced", atMs: number): void {
    const { claim, fence, untilMs } = lease;
    lock.leases.delete(claim.id);
    const dropped = { kind: "dropped", fence, how, ...(how === "forced" && { keptUntilMs: untilMs }) } as const;
    this.#log?.({ ...dropped, atMs, lock: lock.name, claim: claim.id, holder: claim.holder });
  }

  #report(kind: "queued" | "left", lock: Lock, { id, holder }: Claim, atMs: number): void {
    this.#log?.({ kind, atMs, lock: lock.name, claim: id, holder });
  }

  /** A claim that holds and asks again (its reply was lost) gets the same fence, for a full ttl from now. */
  #extend(lock: Lock, lease: Lease, claim: Claim, client: Client, nowMs: number): void {
    lease.claim = claim;
    lease.client = client;
    lease.untilMs = nowMs + claim.ttlMs + claim.lockDelayMs;
    lock.soonestMs = Math.min(lock.soonestMs, lease.untilMs);
  }

  /** Only where one holds at a time: else a later holder of this run would be below an earlier one of the next. */
  #runOf(claim: Claim): number {
    return claim.mode === "exclusive" && claim.limit === 1 ? this.#run : 1;
  }

  /** Sets a timer for when the next lease ends or the first waiter expires. If it fires early, nothing changes. */
  #setTimer(lock: Lock, nowMs: number): void {
    const [head] = lock.queue.values();
    if (head === undefined) return;
    const dueMs = head.wake === undefined ? Math.min(lock.soonestMs, head.askedMs + head.claim.ttlMs) : lock.soonestMs;
    if (lock.timer !== undefined && lock.timerMs <= dueMs) return;
    this.clock.clearTimer(lock.timer);
    lock.timerMs = dueMs;
    lock.timer = this.clock.setTimer(
      () => {
        lock.timer = undefined;
        this.#settle(lock, this.clock.now());
      },
      Math.max(0, Math.ceil(dueMs - nowMs)),
    );
  }
}
