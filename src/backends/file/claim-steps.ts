/** What the core asks about one claim: attempt, release, swap, steal. Each finds what this process knows of the claim, and does it to the lock. */
import type { Claim, Granted, Outcome, Refused, Released } from "../../contract/backend.ts";
import type { ForcedRecords } from "./force-release.ts";
import { grantedTo, type LocalClaim, type LocalClaims } from "./local-claim.ts";
import type { LeaseFiles } from "./lease-files.ts";
import type { Lock } from "./lock.ts";
import type { Notes } from "./notes.ts";
import type { BlockedBy } from "./query.ts";
import type { WaitingClaims } from "./waiting.ts";

export interface ClaimStepsOptions {
  readonly claims: LocalClaims;
  readonly leaseFiles: LeaseFiles;
  readonly waiting: WaitingClaims;
  readonly notes: Notes;
  readonly forced: ForcedRecords;
  lock(name: string): Lock;
}

export class ClaimSteps {
  readonly #options: ClaimStepsOptions;

  constructor(options: ClaimStepsOptions) {
    this.#options = options;
  }

  attempt(claim: Claim): Granted | Refused {
    const local = this.#options.claims.of(claim);
    const blockedBy = this.#take(local, (lock) => lock.take(local, claim.queues));
    if (blockedBy === undefined) return grantedTo(local);
    const { heldBy, ahead, outcome } = blockedBy;
    const retryMs = this.#options.waiting.expect(local, blockedBy);
    if (outcome !== undefined) return { granted: false, heldBy, outcome };
    return ahead === undefined ? { granted: false, heldBy } : { granted: false, heldBy, position: ahead + 1, retryMs };
  }

  steal(claim: Claim, reason: string): Granted | Refused {
    const local = this.#options.claims.of(claim);
    const blockedBy = this.#take(local, (lock) => this.#options.forced.steal(lock, local, reason));
    return blockedBy === undefined ? grantedTo(local) : { granted: false, heldBy: blockedBy.heldBy };
  }

  release(claim: Claim, outcome?: Outcome): Released {
    const { claims, leaseFiles, waiting } = this.#options;
    const lock = this.#options.lock(claim.name);
    const local = claims.known(claim.id) ?? claims.adopt(claim, leaseFiles.leaseOf(claim, lock.log));
    if (local?.file !== undefined) waiting.forget(local.file.facts.id);
    else if (outcome !== undefined && lock.hasOutcomeOf(claim, outcome)) return "held";
    if (local === undefined) return "absent";
    // Who resumes another process's lease need not know its minHold, but the record does.
    const released = lock.release(local, claim.minHoldMs > 0 || claim.resumes === true, outcome);
    this.#forget(local);
    return released;
  }

  /** Both in one entry. `undefined`: it takes two. */
  swap(held: Claim, next: Claim): Granted | undefined {
    const { claims } = this.#options;
    const [local, following] = [claims.known(held.id), claims.of(next)];
    if (local?.held === undefined || held.name !== next.name) return undefined;
    if (!this.#options.lock(held.name).swap(local, following)) return undefined;
    this.#forget(local);
    this.#options.notes.write(following, this.#options.lock(next.name).log.seen, false);
    return grantedTo(following);
  }

  /** The claim is no longer wanted, and this process is closing. */
  leave(local: LocalClaim): void {
    this.#options.lock(local.claim.name).release(local, false);
    this.#options.notes.remove(local);
  }

  /** `undefined`: it was granted. */
  #take(local: LocalClaim, step: (lock: Lock) => BlockedBy | undefined): BlockedBy | undefined {
    const waited = local.ticket !== undefined;
    const lock = this.#options.lock(local.claim.name);
    let blockedBy: BlockedBy | undefined;
    try {
      blockedBy = step(lock);
    } catch (error) {
      if (local.file === undefined) this.#forget(local);
      throw error;
    }
    this.#options.notes.write(local, lock.log.seen, waited && local.held === undefined);
    if (blockedBy !== undefined && local.file === undefined) this.#forget(local);
    return blockedBy;
  }

  #forget(local: LocalClaim): void {
    this.#options.notes.remove(local);
    this.#options.claims.forget(local.claim.id);
  }
}
