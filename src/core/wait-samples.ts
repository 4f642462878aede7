/**
 * Who waits for whom, as far as looking at the store now and then can show it. Exact: how long one that is seen has waited, and how
 * long a holder that is seen has held. Not seen: what began and ended between two looks, and the last part of each wait, from the
 * look before its end. Those who wait in a process behind another count from when they are first seen.
 */
import type { LocksSnapshot, LockWaiter } from "./api.ts";
import { countWaiters, grouped } from "./read-snapshot.ts";
import { WaitShares } from "./wait-shares.ts";

/** One more, and only half as many are kept. */
const LOCKS_MAX = 512;

/** For whom it was waited at one lock, since the first look. */
export interface WaitRow {
  readonly name: string;
  readonly waiting: number;
  readonly waitMs: number;
  readonly holders: readonly WaitShare[];
  /** Of those who are not listed. */
  readonly otherMs: number;
  /** While no holder was known. */
  readonly unknownMs: number;
}

export interface WaitShare {
  readonly holder: string;
  readonly reason?: string | undefined;
  readonly waitMs: number;
}

interface Seen {
  readonly shares: WaitShares;
  readonly ids: Set<string>;
  /** Those who wait in their processes behind others. */
  behind: number;
}

export class WaitSamples {
  readonly #locks: Map<string, Seen> = new Map();
  #lastMs = 0;
  looks = 0;

  /** `nowMs`: when the store answered. */
  look(snapshot: Pick<LocksSnapshot, "held" | "pending">, nowMs: number): void {
    this.looks++;
    const [held, pending] = [grouped(snapshot.held), grouped(snapshot.pending)];
    const isWaitedFor = snapshot.held.filter(({ processWaiters }) => processWaiters > 0);
    const names = new Set([...pending.keys(), ...isWaitedFor.map(({ name }) => name)]);
    for (const [name, { shares }] of this.#locks) if (shares.waiting > 0) names.add(name);
    for (const name of names) {
      this.#lookAt(this.#seen(name), { held: held.get(name) ?? [], pending: pending.get(name) ?? [] }, nowMs);
    }
    if (this.#locks.size > LOCKS_MAX) this.#forget();
    this.#lastMs = nowMs;
  }

  #lookAt(seen: Seen, now: Pick<LocksSnapshot, "held" | "pending">, nowMs: number): void {
    const { shares, ids } = seen;
    const waiters = byId(now.pending);
    for (const id of ids) {
      if (waiters.has(id)) continue;
      ids.delete(id);
      shares.leave(this.#lastMs);
    }
    const behind = countWaiters(now) - now.pending.length;
    for (let gone = seen.behind - behind; gone > 0; gone--) shares.leave(this.#lastMs);
    for (const [id, { waitingMs }] of waiters) {
      if (ids.has(id)) continue;
      ids.add(id);
      shares.enter(nowMs - waitingMs, nowMs);
    }
    for (let more = behind - seen.behind; more > 0; more--) shares.enter(nowMs, nowMs);
    seen.behind = behind;
    shares.hear(now.held, nowMs, true);
    shares.settle(nowMs);
  }

  #seen(name: string): Seen {
    const known = this.#locks.get(name);
    if (known !== undefined) return known;
    const seen: Seen = { shares: new WaitShares(), ids: new Set(), behind: 0 };
    this.#locks.set(name, seen);
    return seen;
  }

  #forget(): void {
    const byWait = [...this.#locks].toSorted(([, a], [, b]) => b.shares.waitMs - a.shares.waitMs);
    // A single snapshot may bring any number of them.
    for (const [name] of byWait.slice(LOCKS_MAX / 2)) this.#locks.delete(name);
  }

  rows(): readonly WaitRow[] {
    const rows = [...this.#locks].map(([name, { shares }]): WaitRow => {
      const { holders, otherHolders, unknownMs } = shares.show();
      const { waiting, waitMs } = shares;
      return { name, waiting, waitMs, holders, otherMs: otherHolders.waitMs, unknownMs };
    });
    return rows.filter(({ waitMs, waiting }) => waitMs > 0 || waiting > 0).toSorted((a, b) => b.waitMs - a.waitMs);
  }
}

/** Where the ids of those who wait are not known, the order says which of a process is which. */
function byId(waiters: readonly LockWaiter[]): ReadonlyMap<string, LockWaiter> {
  const found = new Map<string, LockWaiter>();
  for (const waiter of waiters) {
    let id = waiter.id ?? `${waiter.holder} ${waiter.mode}`;
    while (found.has(id)) id += " +";
    found.set(id, waiter);
  }
  return found;
}
