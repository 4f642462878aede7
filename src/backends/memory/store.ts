/**
 * The state of all locks, and the rules by which it changes: the reference for every other store.
 *
 * Every operation is one synchronous step, hence atomic. Nothing here runs by itself except one timer per lock that has
 * waiters; leases end lazily, when somebody looks. Several backends may share a store, as processes share a server.
 */
import type { Claim, Granted, Refused, Released, Snapshot, Vote } from "../../contract/backend.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { ForcedRecords } from "./force-release.ts";
import { Freed } from "./release-hints.ts";
import {
  checkLimit,
  type Client,
  contains,
  fits,
  holdings,
  isAlive,
  type Lease,
  type Lock,
  newLock,
  positionOf,
  type StoreChange,
  sweep,
  toGranted,
  waitings,
} from "./lock.ts";
import { type LockView, viewOf } from "./view.ts";

/** A waiter asks again at least this often, so that a dead one is noticed. */
const RETRY_MOST_MS = 5000;

export interface MemoryStoreOptions {
  /** @default the system's clock */
  readonly clock?: Clock | undefined;
  /** How many fences a grant reserves where one holds at a time. @default 64 */
  readonly run?: number | undefined;
  /** Told of every change as it happens: for tests and timelines. @default nobody */
  readonly log?: ((change: StoreChange) => void) | undefined;
}

/** Makes a store that several `memory({ store })` backends can share. */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  return new MemoryStore(options.clock ?? systemClock, options.run ?? 64, options.log);
}

export class MemoryStore {
  readonly clock: Clock;
  readonly freed: Freed = new Freed();
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
    const ticket = lock.queue.get(claim.id);
    if (ticket === undefined && lock.queue.size === 0 && fits(lock, claim)) {
      const fence = lock.lastFence + 1n;
      return toGranted(this.#grant(lock, claim, client, fence, this.#runOf(claim), nowMs));
    }
    if (!claim.queues) {
      if (ticket !== undefined) this.release(claim);
      return { granted: false, heldBy: holdings(lock, nowMs) };
    }
    if (ticket === undefined) {
      lock.queue.set(claim.id, { claim, client, sinceMs: nowMs, askedMs: nowMs, news: undefined });
      this.#tell("queued", lock, claim, nowMs);
    } else {
      Object.assign(ticket, { claim, client, askedMs: nowMs });
    }
    this.#arm(lock, nowMs);
    return {
      granted: false,
      heldBy: holdings(lock, nowMs),
      position: positionOf(lock, claim.id),
      retryMs: Math.max(1, Math.min(Math.floor(claim.ttlMs / 3), RETRY_MOST_MS)),
    };
  }

  /** Tells `news` the grant, or `undefined` for "attempt again". Returns how to stop listening. */
  watch(claim: Claim, news: (granted: Granted | undefined) => void): () => void {
    const lock = this.#locks.get(claim.name);
    const ticket = lock?.queue.get(claim.id);
    if (lock === undefined || ticket === undefined) {
      // Granted since the last attempt, or unknown: another attempt tells which, and renews what was granted.
      news(undefined);
      return () => undefined;
    }
    ticket.news?.(undefined);
    ticket.news = news;
    return () => {
      if (ticket.news !== news) return;
      ticket.news = undefined;
      this.#arm(lock, this.clock.now());
    };
  }

  /** Renews the lease for its own ttl. `false`: there is no such lease, or it has another fence. */
  renew(claim: Claim, fence?: bigint): boolean {
    const nowMs = this.clock.now();
    const lock = this.#look(claim.name, nowMs);
    const lease = lock?.leases.get(claim.id);
    if (lock === undefined || lease === undefined || (fence ?? lease.fence) !== lease.fence) return false;
    this.#extend(lock, lease, claim, lease.client, nowMs);
    return true;
  }

  /** Ends the claim, held or queued, and hands over to the next in the same step. `unsaid`: nobody has seen its fence. */
  release(claim: Claim, unsaid = false): Released {
    const nowMs = this.clock.now();
    const lock = this.#look(claim.name, nowMs);
    if (lock === undefined) return "absent";
    const lease = lock.leases.get(claim.id);
    const ticket = lock.queue.get(claim.id);
    if (lease !== undefined) {
      const keptMs = lease.sinceMs + claim.minHoldMs;
      if (keptMs > nowMs) {
        lock.kept.push({ ...lease, untilMs: keptMs });
        lock.soonestMs = Math.min(lock.soonestMs, keptMs);
      }
      this.#drop(lock, lease, "released", nowMs);
      if (unsaid && lock.lastFence === lease.fence) lock.lastFence = lease.before;
    }
    if (lock.queue.delete(claim.id)) this.#tell("left", lock, claim, nowMs);
    ticket?.news?.(undefined);
    this.#settle(lock, nowMs);
    if (lease !== undefined) return "held";
    return ticket === undefined ? "absent" : "queued";
  }

  query(prefix: string): Snapshot {
    const nowMs = this.clock.now();
    const locks = [...this.#locks.keys()]
      .filter((name) => name.startsWith(prefix))
      .flatMap((name) => this.#look(name, nowMs) ?? []);
    return {
      held: locks.flatMap((lock) => holdings(lock, nowMs)),
      pending: locks.flatMap((lock) => waitings(lock, nowMs)),
      forced: this.#forced.list(prefix, nowMs),
    };
  }

  /** As {@link query}, but nothing is swept and nothing is granted: for tests. */
  view(): readonly LockView[] {
    return viewOf(this.#locks.values(), this.clock.now());
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): boolean {
    const nowMs = this.clock.now();
    const lock = this.#look(name, nowMs);
    if (lock === undefined) return false;
    const hit = [...lock.leases.values()].find((lease) => contains(lease, fence));
    const kept = lock.kept.find((lease) => contains(lease, fence));
    const ended = hit ?? kept;
    if (ended === undefined) return false;
    if (hit !== undefined) this.#drop(lock, hit, "forced", nowMs);
    lock.kept = lock.kept.filter((lease) => lease !== kept);
    this.#forced.add({ name, fence: ended.fence, by, reason, atMs: nowMs });
    // Told before the next holder is, so that two in one process never believe at once.
    hit?.client.lost(hit.claim.id, `broken by force by ${by}: ${reason}`);
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

  /** The lock, up to date; made if there is none. */
  #open(name: string, nowMs: number): Lock {
    const known = this.#look(name, nowMs);
    if (known !== undefined) return known;
    const lock = newLock(name, this.#floor);
    this.#locks.set(name, lock);
    return lock;
  }

  /** The lock, up to date, if anybody holds it or waits for it. */
  #look(name: string, nowMs: number): Lock | undefined {
    const lock = this.#locks.get(name);
    if (lock !== undefined) this.#settle(lock, nowMs);
    return this.#locks.get(name);
  }

  /** Lets go of what has ended, grants to whoever is next, and forgets the lock if nothing is left of it. */
  #settle(lock: Lock, nowMs: number): void {
    if (nowMs >= lock.soonestMs) {
      for (const lease of sweep(lock, nowMs)) this.#drop(lock, lease, "ran-out", lease.untilMs);
    }
    for (const [id, ticket] of lock.queue) {
      const alive = isAlive(ticket, nowMs);
      if (alive && !fits(lock, ticket.claim)) break;
      lock.queue.delete(id);
      if (!alive) {
        this.#tell("left", lock, ticket.claim, nowMs);
        continue;
      }
      const { claim, client, news } = ticket;
      const lease = this.#grant(lock, claim, client, lock.lastFence + 1n, this.#runOf(claim), nowMs);
      news?.(toGranted(lease));
    }
    if (lock.queue.size > 0) return this.#arm(lock, nowMs);
    if (lock.leases.size + lock.kept.length > 0) return;
    this.clock.clearTimer(lock.timer);
    if (lock.lastFence > this.#floor) this.#floor = lock.lastFence;
    if (this.#locks.get(lock.name) === lock) this.#locks.delete(lock.name);
  }

  #grant(lock: Lock, claim: Claim, client: Client, fence: bigint, run: number, nowMs: number): Lease {
    const untilMs = nowMs + claim.ttlMs + claim.lockDelayMs;
    const lease: Lease = { claim, client, fence, run, before: lock.lastFence, sinceMs: nowMs, untilMs };
    lock.leases.set(claim.id, lease);
    lock.lastFence = fence + BigInt(run) - 1n;
    lock.soonestMs = Math.min(lock.soonestMs, untilMs);
    const { id, mode, limit, holder } = claim;
    this.#log?.({ kind: "granted", atMs: nowMs, lock: lock.name, claim: id, holder, fence, run, mode, limit });
    return lease;
  }

  #drop(lock: Lock, { claim, fence }: Lease, how: "released" | "ran-out" | "forced", atMs: number): void {
    lock.leases.delete(claim.id);
    this.#log?.({ kind: "dropped", atMs, lock: lock.name, claim: claim.id, holder: claim.holder, fence, how });
  }

  #tell(kind: "queued" | "left", lock: Lock, { id, holder }: Claim, atMs: number): void {
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

  /** Looks again when the next lease ends or the first waiter's ticket lapses. A timer that fires early only looks. */
  #arm(lock: Lock, nowMs: number): void {
    const [head] = lock.queue.values();
    if (head === undefined) return;
    const dueMs = head.news === undefined ? Math.min(lock.soonestMs, head.askedMs + head.claim.ttlMs) : lock.soonestMs;
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
