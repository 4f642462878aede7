/** Whether the leases of this process are still its own: what renewals and hints tell, and how one that is gone is ended. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Claims, Mine } from "./local-claim.ts";
import type { ForcedRecords } from "./force-release.ts";
import type { Lock } from "./lock.ts";
import type { Moment } from "./clock.ts";
import type { Owner } from "./lease-file.ts";
import type { Owners } from "./lease-files.ts";
import type { Place } from "./directory.ts";
import { leaseOf } from "./resume.ts";
import { retime } from "./retime.ts";

export interface RenewalsOptions {
  readonly place: Place;
  readonly owners: Owners;
  readonly claims: Claims;
  readonly forced: ForcedRecords;
  readonly moment: Moment;
  lock(name: string): Lock;
}

export class Renewals {
  readonly #options: RenewalsOptions;

  constructor(options: RenewalsOptions) {
    this.#options = options;
  }

  /** Renews one lease. `round`: the shared owner files that were renewed in this call already. */
  renew(claim: Claim, round: Set<Owner>, fence?: bigint): Renewal {
    const { owners, claims } = this.#options;
    const lock = this.#options.lock(claim.name);
    const mine = claims.known(claim.id) ?? claims.adopt(claim, leaseOf(this.#options.place, lock.log, claim.id));
    const owner = mine?.owner;
    if (mine?.held === undefined || owner === undefined)
      return { held: false, reason: "the store does not know the lease" };
    if (fence !== undefined && fence !== BigInt(mine.held.fence))
      return { held: false, reason: "it was over, and the same claim has taken the lock again" };
    const { facts, leases } = owner;
    const renewed = (round.has(owner) && claim.ttlMs <= facts.ttlMs) || owners.renew(owner, claim.ttlMs);
    if (renewed && leases !== undefined) round.add(owner);
    if (renewed && leases === undefined && claim.ttlMs !== facts.ttlMs)
      mine.owner = retime(lock.log, this.#options.place, owner, claim.ttlMs) ?? owner;
    if (renewed && lock.find(facts.id) !== undefined) {
      mine.fromMs = owner.fromMs;
      return { held: true, fromMs: owner.fromMs };
    }
    // What is over may still be in its lock, where nobody else wanted it: for release() to end.
    if (renewed) this.#forget(mine);
    return { held: false, reason: this.#whyLost(mine, renewed) };
  }

  /** Somebody says that there is news of this owner file: which of its leases are gone? */
  lost(ownerId: string): { readonly id: string; readonly reason: string }[] {
    const lost: Mine[] = [];
    for (const mine of this.#options.claims.all()) {
      if (mine.owner?.facts.id === ownerId && mine.held !== undefined && this.#isGone(mine, ownerId)) lost.push(mine);
    }
    for (const mine of lost) this.#forget(mine);
    return lost.map((mine) => ({ id: mine.claim.id, reason: this.#whyLost(mine, true) }));
  }

  /** Ends a lease that nobody renewed for a whole ttl, though others with the same owner file were renewed. */
  end(mine: Mine): void {
    const { claims, moment } = this.#options;
    // Renewed since: it was asked for late, but it was never over.
    if (mine.fromMs + mine.claim.ttlMs > moment.localMs()) return;
    try {
      this.#options.lock(mine.claim.name).release(mine);
      claims.forget(mine.claim.id);
    } catch {
      // A full disk, perhaps. It is found again at the next renewal.
    }
  }

  #isGone({ claim }: Mine, ownerId: string): boolean {
    try {
      return this.#options.lock(claim.name).find(ownerId) === undefined;
    } catch {
      // A hint, no more: the next renewal will tell.
      return false;
    }
  }

  /** Its lock knows it no longer: nothing refers to its owner file any more, unless it is shared. */
  #forget(mine: Mine): void {
    const { claims, owners } = this.#options;
    claims.forget(mine.claim.id);
    if (mine.owner?.leases !== undefined) owners.giveBack(mine.owner, mine);
    else if (mine.owner !== undefined) owners.discard(mine.owner, mine);
  }

  #whyLost({ claim, held }: Mine, inTime: boolean): string {
    const forced = held && this.#options.forced.whyEnded(claim.name, held.fence);
    if (forced !== undefined) return forced;
    return inTime
      ? "its entry in the lock directory is gone"
      : "it was not renewed in time, or its owner file was removed";
  }
}
