/** Ends claims: their keys go for certain, though an answer may be lost; or later, because of a `minHold`. */
import type { Claim, Released } from "../../contract/backend.ts";
import type { Attempts } from "./attempts.ts";
import type { EtcdClient } from "./client/client.ts";
import type { FoundClaim } from "./find-claim.ts";
import type { LocalClaim, Place } from "./local-claim.ts";
import { agoMs, writeClaim } from "./record.ts";
import { removeCreated, removeOurs } from "./transactions.ts";
import type { Upkeep } from "./upkeep.ts";

export class Releases {
  readonly #client: EtcdClient;
  readonly #attempts: Attempts;
  readonly #upkeep: Upkeep;
  /** Released, and kept for their minHold: what removes them when that is over. */
  readonly #delayed = new Map<LocalClaim, NodeJS.Timeout>();
  /** The ids of claims that were given up, though their keys may still be there. */
  readonly #abandoned = new Set<string>();

  constructor(client: EtcdClient, attempts: Attempts, upkeep: Upkeep) {
    this.#client = client;
    this.#attempts = attempts;
    this.#upkeep = upkeep;
  }

  /** Removes the claim's key. Rejects where that is unknown: then it must be asked again, and nothing was forgotten. */
  async remove(local: LocalClaim, was: Exclude<Released, "absent">): Promise<Released> {
    const { place } = local;
    if (place === undefined) return "absent";
    const existed = await this.#removeKey(place);
    this.#upkeep.remove(local);
    const { lease } = place;
    this.#attempts.forget(local);
    // Its creation may still be on its way: until its lease ends, the key is looked for.
    if (lease.ghosts.size > 0 && !lease.isGone) this.#upkeep.haunt(lease);
    return existed ? was : "absent";
  }

  /** Never rejects: what could not be removed ends with its lease, which is given up. */
  async removeQuietly(local: LocalClaim): Promise<void> {
    try {
      await this.remove(local, "queued");
    } catch {
      const { place } = local;
      if (place === undefined) return;
      this.#abandoned.add(local.claim.id);
      place.mayAppear = true;
      place.lease.isTainted = true;
      this.#upkeep.remove(local);
      this.#attempts.forget(local);
      this.#upkeep.haunt(place.lease);
    }
  }

  /**
   * Keeps the lock taken for `restMs`, though no claim holds it. The key stays where it is in the queue, and moves to a lease
   * of its own, which is not kept alive: so it outlives this process. `false`: it was gone.
   */
  async keep(local: LocalClaim, place: Place, fence: bigint, restMs: number): Promise<boolean> {
    if (
      !(await this.#moveKey({ ...local.claim, key: place.key, created: place.createRevision ?? 0n, fence }, restMs))
    ) {
      this.#attempts.forget(local);
      return false;
    }
    const timer = setTimeout(() => {
      this.#delayed.delete(local);
      void this.removeQuietly(local);
    }, Math.ceil(restMs));
    // The process may exit before.
    this.#delayed.set(local, timer.unref());
    return true;
  }

  /** The claim was given up here, and its key may still be there until it is removed. */
  hasAbandoned(claimId: string): boolean {
    return this.#abandoned.has(claimId);
  }

  /** Ends a claim that this process does not know. Its own record says how long it must be kept. */
  async removeFound(claim: Claim, { contender, record, holds }: FoundClaim): Promise<Released> {
    const { key, createRevision } = contender;
    const restMs = holds && claim.resumes === true ? record.minHoldMs - agoMs(record.sinceMs) : 0;
    const { holder, meta } = record;
    const moved = { ...claim, holder, meta, key, created: createRevision, fence: contender.modRevision };
    const existed = await (restMs > 0
      ? this.#moveKey(moved, restMs)
      : removeCreated(this.#client, key, createRevision));
    if (!existed) return "absent";
    return holds ? "held" : "queued";
  }

  stop(): void {
    for (const timer of this.#delayed.values()) clearTimeout(timer);
    this.#delayed.clear();
  }

  async #removeKey(place: Place): Promise<boolean> {
    if (place.createRevision !== undefined) return removeCreated(this.#client, place.key, place.createRevision);
    if (!place.mayAppear) return false;
    const [existed] = await removeOurs(this.#client, [place.key]);
    return existed === true;
  }

  async #moveKey(
    claim: Claim & { readonly key: Buffer; readonly created: bigint; readonly fence: bigint },
    restMs: number,
  ): Promise<boolean> {
    const { key, created, fence } = claim;
    const lease = await this.#client.grantLease(Math.ceil(restMs / 1000));
    const value = writeClaim(claim, fence);
    const { succeeded } = await this.#client.txn({
      when: [{ key, createRevision: created }],
      success: [{ put: { key, value, lease: lease.id } }],
    });
    if (!succeeded) void this.#client.revokeLease(lease.id).catch(() => undefined);
    return succeeded;
  }
}
