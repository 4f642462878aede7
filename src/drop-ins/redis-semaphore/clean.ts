/** The clean layout: a lock is a lease of the user's `Locks`, a permit of a semaphore one of `limit` leases. */
import { performance } from "node:perf_hooks";
import { LockLostError, LockTimeoutError } from "../../contract/errors.ts";
import type { Lease, Locks } from "../../core/api.ts";
import { withoutReentry } from "../../core/inside.ts";
import type { AcquireOptions } from "./options.ts";
import { type Grant, type Place, tryRepeatedly, type Wish } from "./place.ts";

export interface CleanTerms {
  readonly name: string;
  readonly limit: number;
  readonly permits: number;
  readonly ttlMs: number;
}

export class Clean implements Place {
  readonly #locks: Locks;
  readonly #terms: CleanTerms;
  #leases: readonly Lease[] = [];

  constructor(locks: Locks, terms: CleanTerms) {
    this.#locks = locks;
    this.#terms = terms;
  }

  async acquire(options: AcquireOptions, { signal }: Wish): Promise<Grant | undefined> {
    const { permits, ttlMs } = this.#terms;
    if (!(options.acquireTimeout > 0) || options.acquireAttemptsLimit < 1) return undefined;
    const leases =
      permits === 1
        ? await this.#queue(options, signal)
        : await tryRepeatedly(options, signal, () => this.#takeAll(options.identifier));
    if (leases === undefined) return undefined;
    // As in redis-semaphore, one object has its permits once.
    await this.release();
    this.#leases = leases;
    const leftMs = Math.min(...leases.map((lease) => lease.remaining()));
    const signals = leases.map((lease) => lease.signal);
    const fence = permits === 1 ? leases[0]?.fence : undefined;
    return { sentMs: performance.now() - (ttlMs - leftMs), fence, signal: AbortSignal.any(signals) };
  }

  async refresh(): Promise<boolean> {
    if (this.#leases.length === 0) return false;
    try {
      await Promise.all(this.#leases.map((lease) => lease.extend(this.#terms.ttlMs)));
      return true;
    } catch (error) {
      if (!(error instanceof LockLostError)) throw error;
      await this.release();
      return false;
    }
  }

  async release(): Promise<void> {
    const leases = this.#leases;
    this.#leases = [];
    await Promise.all(leases.map((lease) => lease.release()));
  }

  /** Waits in the store's queue for as long as redis-semaphore would go on trying. */
  async #queue(options: AcquireOptions, signal: AbortSignal | undefined): Promise<Lease[] | undefined> {
    const { identifier, acquireTimeout, acquireAttemptsLimit: tries, retryInterval } = options;
    const wait = Math.round(
      tries === Infinity ? acquireTimeout : Math.min(acquireTimeout, (tries - 1) * retryInterval),
    );
    try {
      const asked = { ...this.#lease(identifier), wait, signal };
      return [await this.#withoutReentry((name) => this.#locks.acquire(name, asked))];
    } catch (error) {
      if (error instanceof LockTimeoutError) return undefined;
      throw error;
    }
  }

  /** All permits, or none: who held some and waited for more could wait for one who does the same. */
  async #takeAll(identifier: string): Promise<Lease[] | undefined> {
    const leases: Lease[] = [];
    while (leases.length < this.#terms.permits) {
      const lease = await this.#withoutReentry((name) => this.#locks.tryAcquire(name, this.#lease(identifier))).catch(
        async (error: unknown) => {
          await Promise.all(leases.map((one) => one.release()));
          throw error;
        },
      );
      if (lease === null) {
        await Promise.all(leases.map((one) => one.release()));
        return undefined;
      }
      leases.push(lease);
    }
    return leases;
  }

  /** As in redis-semaphore, also inside a run() of these locks. */
  #withoutReentry<T>(take: (name: string) => T): T {
    const { name } = this.#terms;
    return withoutReentry(this.#locks, name, () => take(name));
  }

  /** Refreshes renew it, so that stopRefresh() can end that. */
  #lease(identifier: string): { ttl: number; limit: number; renew: false; meta: Record<string, string> } {
    const { ttlMs, limit } = this.#terms;
    return { ttl: ttlMs, limit, renew: false, meta: { identifier } };
  }
}
