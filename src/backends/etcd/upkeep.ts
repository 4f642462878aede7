/** Keeps the places of waiting claims: their leases live on, and a claim whose key is gone learns it before its turn would come. */
import type { EtcdClient } from "./client/client.ts";
import type { Lease } from "./lease.ts";
import type { LeasePool } from "./lease-pool.ts";
import type { LocalClaim, Place } from "./local-claim.ts";
import { removeOurs } from "./transactions.ts";

const PER_TTL = 3;
const AGAIN_PER_TTL = 10;
const AGAIN_MIN_MS = 100;
/** etcd takes at most 128 operations in a transaction, unless it was set up otherwise. */
const CHUNK = 100;

export class Upkeep {
  readonly #client: EtcdClient;
  readonly #pool: LeasePool;
  readonly #waiting = new Map<Lease, Set<LocalClaim>>();
  readonly #timers = new Map<Lease, NodeJS.Timeout>();

  constructor(client: EtcdClient, pool: LeasePool) {
    this.#client = client;
    this.#pool = pool;
  }

  /** The claim waits: its lease is kept alive until remove(). */
  add(local: LocalClaim): void {
    const lease = local.place?.lease;
    if (lease === undefined) return;
    const claims = this.#waiting.get(lease) ?? new Set();
    this.#waiting.set(lease, claims.add(local));
    if (!this.#timers.has(lease)) this.#schedule(lease, lease.provenMs + lease.ttlMs / PER_TTL - performance.now());
  }

  /** It holds the lock now, or has left. */
  remove(local: LocalClaim, lease: Lease | undefined = local.place?.lease): void {
    if (lease === undefined) return;
    const claims = this.#waiting.get(lease);
    claims?.delete(local);
    if (claims?.size === 0) this.#waiting.delete(lease);
    if (claims?.size === 0 && lease.ghosts.size === 0) this.#stop(lease);
  }

  /** A key may appear that no claim wants any more: it is removed as long as its lease lives. */
  haunt(lease: Lease): void {
    if (!this.#timers.has(lease)) this.#schedule(lease, lease.ttlMs / AGAIN_PER_TTL);
  }

  stop(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#waiting.clear();
  }

  #stop(lease: Lease): void {
    clearTimeout(this.#timers.get(lease));
    this.#timers.delete(lease);
  }

  #schedule(lease: Lease, afterMs: number): void {
    // The caller that waits keeps the process alive; this does not.
    this.#timers.set(lease, setTimeout(() => void this.#keep(lease), Math.max(0, afterMs)).unref());
  }

  async #keep(lease: Lease): Promise<void> {
    const claims = this.#waiting.get(lease) ?? new Set();
    let nextMs = lease.ttlMs / PER_TTL;
    try {
      if (claims.size > 0) await this.#pool.keepAlive(lease);
      await this.#removeGhosts(lease);
      await this.#look(lease, [...claims]);
    } catch {
      nextMs = Math.max(AGAIN_MIN_MS, lease.ttlMs / AGAIN_PER_TTL);
    }
    if (!this.#timers.has(lease)) return;
    const isNeeded = this.#waiting.has(lease) || (lease.ghosts.size > 0 && lease.names.size > 0);
    if (isNeeded && !lease.isGone) this.#schedule(lease, nextMs);
    else this.#stop(lease);
  }

  async #removeGhosts(lease: Lease): Promise<void> {
    const ghosts = [...lease.ghosts.values()];
    for (let at = 0; at < ghosts.length; at += CHUNK) await removeOurs(this.#client, ghosts.slice(at, at + CHUNK));
  }

  /** The cluster's word on the keys also shows what the keep-alive was worth. */
  async #look(lease: Lease, claims: readonly LocalClaim[]): Promise<void> {
    for (let at = 0; at < claims.length; at += CHUNK) {
      const chunk = claims.slice(at, at + CHUNK).flatMap((local) => {
        const place = local.place;
        return place?.lease === lease && place.createRevision !== undefined ? [{ local, place }] : [];
      });
      if (chunk.length === 0) continue;
      const askedMs = performance.now();
      const { header, kvs } = await this.#client.txn({
        when: [],
        success: chunk.map(({ place }) => ({ range: { key: place.key, keysOnly: true } })),
        rank: "keep",
      });
      lease.confirmed(header.term, askedMs);
      for (const [i, { local, place }] of chunk.entries()) if (isLost(local, place, kvs[i]?.[0])) local.upset?.();
    }
  }
}

function isLost(local: LocalClaim, place: Place, kv: { readonly createRevision: bigint } | undefined): boolean {
  return local.place === place && kv?.createRevision !== place.createRevision;
}
