/** The leases of this process: shared by claims on different locks, kept alive together, and given back for the next claims. */
import { systemClock } from "../../contract/clock.ts";
import { within } from "../../contract/time-limit.ts";
import type { EtcdClient } from "./client/client.ts";
import { Lease } from "./lease.ts";

/** At the end of a lease the cluster removes its keys one by one. */
const NAMES_MAX = 1000;
/** A lease whose proven time is older is kept alive before it is used for another claim. */
const FRESH = 1 / 3;
/** Up to here without waiting for it. */
const USABLE = 1 / 2;
/** A claim that has a lease of its own may not be renewed at all: what is gone of its time is gone for good. */
const WHOLE = 1 / 100;
const LIMIT_MIN_MS = 250;
const LIMIT_MAX_MS = 3000;
const CLOSE_MS = 1000;

/** How long one question may take, so that another member can be asked well before trust ends. */
export function limitMsOf(ttlMs: number): number {
  return Math.min(LIMIT_MAX_MS, Math.max(LIMIT_MIN_MS, ttlMs / 4));
}

export class LeasePool {
  readonly #client: EtcdClient;
  /** By the seconds that were asked for. */
  readonly #leases = new Map<number, Set<Lease>>();
  readonly #granting = new Map<number, Promise<void>>();
  readonly #asking = new Map<Lease, Promise<number>>();
  readonly #revoking = new Set<Promise<unknown>>();

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  /** A lease that no other claim on the lock uses. `alone`: and no other claim at all. Ends with giveBack(). */
  async take(name: string, seconds: number, alone: boolean): Promise<Lease> {
    for (;;) {
      const lease = this.#find(name, seconds, alone);
      if (lease === undefined) {
        await this.#grant(seconds);
        continue;
      }
      // Before anything is awaited: no other claim on this lock may get it too.
      lease.names.add(name);
      lease.isAlone = alone;
      try {
        await this.freshen(lease);
        return lease;
      } catch (error) {
        this.giveBack(lease, name);
        throw error;
      }
    }
  }

  /** The claim's key is certainly gone, or the lease is tainted and will be revoked. */
  giveBack(lease: Lease, name: string): void {
    lease.names.delete(name);
    if (lease.names.size > 0) return;
    lease.isAlone = false;
    if (lease.isGone) this.#leases.get(lease.seconds)?.delete(lease);
    else if (lease.isTainted) this.#revoke(lease);
  }

  /** The cluster no longer knows the lease, so all its keys are gone. */
  drop(lease: Lease): void {
    lease.isGone = true;
    this.#leases.get(lease.seconds)?.delete(lease);
  }

  /**
   * Asks to keep it alive. What the answer is worth, the next answer of the cluster shows: see {@link Lease}. Resolves to when it
   * was sent: those who ask at the same time share it.
   */
  keepAlive(lease: Lease): Promise<number> {
    const asking = this.#asking.get(lease) ?? this.#ask(lease);
    this.#asking.set(lease, asking);
    return asking;
  }

  /** Before a claim is granted with it: so that enough of its time is left. The transaction that grants it confirms this. */
  async freshen(lease: Lease): Promise<void> {
    const age = lease.ageAt(performance.now());
    if (age < (lease.isAlone ? WHOLE : FRESH)) return;
    const asked = this.keepAlive(lease);
    if (lease.isAlone || age >= USABLE) {
      await asked;
      return;
    }
    // It is good enough without; and what fails is asked again with the next claim.
    asked.catch(() => undefined);
  }

  /** A lease that another process took, for a claim that is found again by its id. */
  adopt(id: bigint, ttl: number, name: string): Lease {
    // Nothing is proven yet.
    const header = { clusterId: 0n, memberId: 0n, revision: 0n, term: 0n };
    const lease = new Lease({ header, id, ttl }, ttl, -Infinity);
    lease.names.add(name);
    lease.isAlone = true;
    return lease;
  }

  /** Ends the leases that are not in use. Those in use end with their time. Never takes much longer than a second. */
  async close(): Promise<void> {
    for (const lease of [...this.#leases.values()].flatMap((leases) => [...leases])) {
      if (lease.names.size === 0) this.#revoke(lease);
    }
    await within(systemClock, Promise.allSettled(this.#revoking), CLOSE_MS);
  }

  #find(name: string, seconds: number, alone: boolean): Lease | undefined {
    const nowMs = performance.now();
    const leases = this.#leases.get(seconds) ?? [];
    for (const lease of leases) {
      const isIdle = lease.names.size === 0;
      // Its time may be over: it was not kept alive.
      if (isIdle && lease.ageAt(nowMs) >= 1) this.drop(lease);
      const isFree = isIdle || (!alone && !lease.isAlone && !lease.names.has(name) && lease.names.size < NAMES_MAX);
      if (isFree && !lease.isGone && !lease.isTainted) return lease;
    }
    return undefined;
  }

  /** One at a time for each length: those who need one take turns, and often the first that comes serves all. */
  #grant(seconds: number): Promise<void> {
    const known = this.#granting.get(seconds);
    if (known !== undefined) return known;
    const granting = this.#grantNew(seconds).finally(() => this.#granting.delete(seconds));
    this.#granting.set(seconds, granting);
    return granting;
  }

  async #grantNew(seconds: number): Promise<void> {
    const sentMs = performance.now();
    const lease = new Lease(await this.#client.grantLease(seconds), seconds, sentMs);
    const leases = this.#leases.get(seconds) ?? new Set();
    this.#leases.set(seconds, leases.add(lease));
  }

  async #ask(lease: Lease): Promise<number> {
    const sentMs = performance.now();
    try {
      lease.answered(await this.#client.keepAlive(lease.id, limitMsOf(lease.ttlMs)), sentMs);
      return sentMs;
    } finally {
      this.#asking.delete(lease);
    }
  }

  #revoke(lease: Lease): void {
    this.drop(lease);
    // What cannot be revoked ends by itself: it is not kept alive any more.
    const revoking = this.#client.revokeLease(lease.id).catch(() => undefined);
    this.#revoking.add(revoking);
    void revoking.then(() => this.#revoking.delete(revoking));
  }
}
