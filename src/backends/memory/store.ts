/**
 * The state of all locks, and the rules by which it changes: the reference for every other store.
 *
 * Every operation is one synchronous step, hence atomic. Leases end lazily, at the next operation. Several backends may share a store, as processes share a server.
 */
import type { Claim, Granted, LockState, Outcome, Refused, Released, Snapshot, Vote } from "../../contract/backend.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import {
  checkLimit,
  type Client,
  contains,
  fits,
  inTheWay,
  isWanted,
  type Lease,
  type Lock,
  positionOf,
  type StoreChange,
  toGranted,
} from "./lock.ts";
import { Outcomes } from "./outcomes.ts";
import { ReleaseHints } from "./release-hints.ts";
import { holdings, type LockView, viewOf, waitings } from "./show.ts";
import { LockTable } from "./table.ts";

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
  readonly #log: ((change: StoreChange) => void) | undefined;
  readonly #table: LockTable;
  readonly #outcomes = new Outcomes();

  /** @internal Use {@link memoryStore}. */
  constructor(clock: Clock, run: number, log?: (change: StoreChange) => void) {
    this.clock = clock;
    this.#log = log;
    this.#table = new LockTable(clock, run, log);
  }

  attempt(claim: Claim, client: Client): Granted | Refused {
    const nowMs = this.clock.now();
    const lock = this.#table.open(claim.name, nowMs);
    const held = lock.leases.get(claim.id);
    if (held !== undefined) {
      this.#table.extend(lock, held, claim, client, nowMs);
      return toGranted(lock, held);
    }
    const outcome = claim.wantsOutcome === true ? this.#outcomes.get(claim.name, nowMs) : undefined;
    if (outcome !== undefined) {
      this.release(claim);
      return { granted: false, heldBy: [], outcome };
    }
    checkLimit(lock, claim, nowMs);
    const waiter = lock.queue.get(claim.id);
    if (waiter === undefined && lock.queue.size === 0 && fits(lock, claim)) {
      return toGranted(lock, this.#table.grantNext(lock, claim, client, nowMs));
    }
    if (!claim.queues) {
      if (waiter !== undefined) this.release(claim);
      return { granted: false, heldBy: holdings(lock, nowMs) };
    }
    if (waiter === undefined) {
      this.#table.queue(lock, claim, client, nowMs);
    } else {
      Object.assign(waiter, { claim, client, askedMs: nowMs });
    }
    this.#table.setTimer(lock, nowMs);
    return {
      granted: false,
      heldBy: holdings(lock, nowMs),
      position: positionOf(lock, claim.id),
      retryMs: Math.max(1, Math.min(Math.floor(claim.ttlMs / 3), RETRY_MAX_MS)),
    };
  }

  /** Calls `wake` with the grant, or with `undefined` for "attempt again". Returns how to stop watching. */
  watch(claim: Claim, wake: (granted: Granted | undefined) => void): () => void {
    const lock = this.#table.all.get(claim.name);
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
      this.#table.setTimer(lock, this.clock.now());
    };
  }

  /** Renews the lease for its own ttl. `false`: there is no such lease, or it has another fence. */
  renew(claim: Claim, fence?: bigint): "wanted" | boolean {
    const nowMs = this.clock.now();
    const lock = this.#table.find(claim.name, nowMs);
    const lease = lock?.leases.get(claim.id);
    if (lock === undefined || lease === undefined || (fence ?? lease.fence) !== lease.fence) return false;
    const { meta, local } = lease.claim;
    // What is for people is written where it has changed, as in a store where that costs something.
    const renewed = claim === lease.claim || claim.changed === true ? claim : { ...claim, meta, local };
    this.#table.extend(lock, lease, renewed, lease.client, nowMs);
    return isWanted(lock, lease) ? "wanted" : true;
  }

  /**
   * Ends the claim, held or queued, and hands over to the next in the same step. `unseen`: its fence was not reported yet.
   * An outcome is kept if the claim held.
   */
  release(claim: Claim, unseen = false, outcome?: Outcome): Released {
    const nowMs = this.clock.now();
    const lock = this.#table.find(claim.name, nowMs);
    const lease = lock?.leases.get(claim.id);
    const isKept = outcome !== undefined && this.#outcomes.isOf(claim, outcome, nowMs);
    if (lock === undefined) return isKept ? "held" : "absent";
    // What the claim holds now may be another lease than that of the work.
    const isOther = outcome !== undefined && lease !== undefined && lease.fence !== outcome.fence;
    if (lease !== undefined) {
      if (outcome !== undefined && !isOther) this.#keep(lock, lease, outcome, nowMs);
      const keptMs = lease.sinceMs + claim.minHoldMs;
      if (keptMs > nowMs) {
        lock.kept.push({ ...lease, untilMs: keptMs });
        lock.soonestMs = Math.min(lock.soonestMs, keptMs);
      }
      this.#table.drop(lock, lease, "released", nowMs);
      if (unseen && lock.lastClaim === claim.id && lock.lastFence === lease.fence) lock.lastFence = lock.fenceBefore;
    }
    const wasQueued = this.#table.leave(lock, claim, nowMs);
    this.#table.settle(lock, nowMs);
    if (isKept || (lease !== undefined && !isOther)) return "held";
    return wasQueued ? "queued" : "absent";
  }

  /** Keeps the outcome of a lease that ends now. Those who wait for one have it: they need the lock no longer. */
  #keep(lock: Lock, { claim }: Lease, outcome: Outcome, nowMs: number): void {
    this.#outcomes.put(claim, outcome, nowMs);
    const { id, holder } = claim;
    const { value, keepMs, fence } = outcome;
    const kept = { kind: "kept-outcome", fence, value, untilMs: nowMs + keepMs } as const;
    this.#log?.({ ...kept, atMs: nowMs, lock: lock.name, claim: id, holder });
    for (const waiter of lock.queue.values()) {
      if (waiter.claim.wantsOutcome === true) this.#table.leave(lock, waiter.claim, nowMs);
    }
  }

  forget(name: string, fence: bigint): boolean {
    const nowMs = this.clock.now();
    const was = this.#outcomes.remove(name, fence, nowMs);
    if (was) this.#log?.({ kind: "forgot-outcome", atMs: nowMs, lock: name, claim: "", holder: "", fence });
    return was;
  }

  query(prefix: string): Snapshot {
    const nowMs = this.clock.now();
    const locks = [...this.#table.all.keys()]
      .filter((name) => name.startsWith(prefix))
      .flatMap((name) => this.#table.find(name, nowMs) ?? []);
    return {
      held: locks.flatMap((lock) => holdings(lock, nowMs)),
      pending: locks.flatMap((lock) => waitings(lock, nowMs)),
      forced: this.#table.forced(prefix, nowMs),
    };
  }

  inspect(name: string): LockState {
    const nowMs = this.clock.now();
    const lock = this.#table.all.get(name);
    const outcome = this.#outcomes.get(name, nowMs);
    return {
      held: lock === undefined ? [] : holdings(lock, nowMs),
      pending: lock === undefined ? [] : waitings(lock, nowMs),
      forced: this.#table.forced(name, nowMs).filter((forced) => forced.name === name),
      ...(outcome && { outcome }),
    };
  }

  /** As {@link query}, but nothing is dropped and nothing is granted: for tests. */
  view(): readonly LockView[] {
    return viewOf(this.#table.all.values(), this.clock.now());
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): boolean {
    const nowMs = this.clock.now();
    const lock = this.#table.find(name, nowMs);
    if (lock === undefined) return false;
    const hit = [...lock.leases.values()].find((lease) => contains(lease, fence));
    const kept = lock.kept.find((lease) => contains(lease, fence));
    const ended = hit ?? kept;
    if (ended === undefined) return false;
    this.#table.force(lock, ended, by, reason, nowMs);
    this.#table.settle(lock, nowMs);
    return true;
  }

  steal(claim: Claim, client: Client, reason: string): Granted {
    const nowMs = this.clock.now();
    const lock = this.#table.open(claim.name, nowMs);
    const held = lock.leases.get(claim.id);
    if (held !== undefined) {
      this.#table.extend(lock, held, claim, client, nowMs);
      return toGranted(lock, held);
    }
    checkLimit(lock, claim, nowMs, true);
    for (const lease of [...lock.leases.values(), ...lock.kept])
      this.#table.force(lock, lease, claim.holder, reason, nowMs);
    this.#table.leave(lock, claim, nowMs);
    const lease = this.#table.grantNext(lock, claim, client, nowMs);
    // Who waits may hold beside the thief: readers beside a reader, or others up to the limit.
    this.#table.settle(lock, nowMs);
    return toGranted(lock, lease);
  }

  /** A claim waits for the lock, in no queue of this store. */
  want(name: string): void {
    const lock = this.#table.find(name, this.clock.now());
    for (const { client, claim } of lock === undefined ? [] : inTheWay(lock)) client.wanted(claim.id);
  }

  vote(claim: Claim, ballot: bigint, client: Client): Vote {
    const nowMs = this.clock.now();
    const wallMs = this.clock.wall();
    const waiters = this.freed.count(claim.name);
    const lock = this.#table.open(claim.name, nowMs);
    const held = lock.leases.get(claim.id);
    if (held !== undefined && held.fence === ballot) {
      this.#table.extend(lock, held, claim, client, nowMs);
      return { vote: "granted", waiters, wallMs };
    }
    checkLimit(lock, claim, nowMs);
    // Its own early release counts too, while minHold keeps the lock taken.
    const [first] = holdings(lock, nowMs);
    if (held === undefined && first !== undefined && !(lock.queue.size === 0 && fits(lock, claim))) {
      const { holder: by, fence, heldMs, remainingMs, lingerMs } = first;
      return { vote: "held", by, fence, heldMs, remainingMs, lingerMs, waiters, wallMs };
    }
    if (ballot <= lock.lastFence) {
      this.#table.settle(lock, nowMs);
      return { vote: "low", fence: lock.lastFence, wallMs };
    }
    this.#table.grant(lock, claim, client, ballot, 1, nowMs);
    return { vote: "granted", waiters, wallMs };
  }
}
