/**
 * Claims that this process gave up although their keys may still be there: they must not be found again by their ids. Each is
 * forgotten when the cluster no longer knows its lease, which is not kept alive: then its key is gone for certain.
 */
import type { EtcdClient } from "./client/client.ts";

const SWEEP_MIN = 100;

export class AbandonedClaims {
  readonly #client: EtcdClient;
  readonly #leaseOf = new Map<string, bigint>();
  #sweepAt = SWEEP_MIN;
  #sweeping: Promise<void> | undefined;

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  get size(): number {
    return this.#leaseOf.size;
  }

  has(claimId: string): boolean {
    return this.#leaseOf.has(claimId);
  }

  add(claimId: string, lease: bigint): void {
    this.#leaseOf.set(claimId, lease);
    if (this.#leaseOf.size < this.#sweepAt || this.#sweeping !== undefined) return;
    this.#sweeping = this.#sweep().finally(() => {
      this.#sweeping = undefined;
      this.#sweepAt = Math.max(SWEEP_MIN, 2 * this.#leaseOf.size);
    });
  }

  async #sweep(): Promise<void> {
    for (const lease of new Set(this.#leaseOf.values())) {
      const times = await this.#client.timeToLive(lease).catch(() => undefined);
      // The cluster cannot be asked: the next sweep does.
      if (times === undefined) return;
      if (times.grantedTtl > 0) continue;
      for (const [id, its] of this.#leaseOf) if (its === lease) this.#leaseOf.delete(id);
    }
  }
}
