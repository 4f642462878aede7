/** Renews the leases of this process, and finds those that are lost. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import type { LossReason } from "../../contract/loss.ts";
import type { LocalClaims, LocalClaim } from "./local-claim.ts";
import type { ForcedRecords } from "./force-release.ts";
import type { Lock } from "./lock.ts";
import type { LeaseFile } from "./lease-file.ts";
import type { LeaseFiles } from "./lease-files.ts";
import type { OpenDirectory } from "./directory-checks.ts";
import { changeTtl } from "./lease-changes.ts";

/** Renewing many leases is cut into slices, so the event loop can run in between. */
const SLICE = 100;

export interface RenewalsOptions {
  readonly leaseFiles: LeaseFiles;
  readonly claims: LocalClaims;
  readonly forced: ForcedRecords;
  readonly clock: Clock;
  readonly directory: OpenDirectory;
  lock(name: string): Lock;
}

export class Renewals {
  readonly #options: RenewalsOptions;

  constructor(options: RenewalsOptions) {
    this.#options = options;
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    const renewals: Renewal[] = [];
    const round = new Set<LeaseFile>();
    for (const [at, claim] of claims.entries()) {
      if (renewals.length % SLICE === SLICE - 1) await new Promise((resolve) => setImmediate(resolve));
      try {
        renewals.push(this.#options.directory.use(claim.name, () => this.#renew(claim, round, fences?.[at])));
      } catch (cause) {
        renewals.push({ held: "unknown", cause });
      }
    }
    return renewals;
  }

  /** Renews one lease. `round`: the shared lease files that this call has already renewed. */
  #renew(claim: Claim, round: Set<LeaseFile>, fence?: bigint): Renewal {
    const { leaseFiles, claims } = this.#options;
    const lock = this.#options.lock(claim.name);
    const local = claims.known(claim.id) ?? claims.adopt(claim, leaseFiles.leaseOf(claim, lock.log));
    const file = local?.file;
    if (local?.held === undefined || file === undefined) return { held: false, reason: { kind: "gone" } };
    if (fence !== undefined && fence !== BigInt(local.held.fence)) return { held: false, reason: { kind: "retaken" } };
    const { facts, leases } = file;
    const renewed = (round.has(file) && claim.ttlMs <= facts.ttlMs) || leaseFiles.renew(file, claim.ttlMs);
    if (renewed && leases !== undefined) round.add(file);
    if (renewed && leases === undefined && claim.ttlMs !== facts.ttlMs)
      local.file = changeTtl(lock.log, file, claim.ttlMs) ?? file;
    if (renewed && lock.holderBy(facts.id) !== undefined) {
      local.fromMs = file.fromMs;
      return { held: true, fromMs: file.fromMs };
    }
    // An expired lease may still be in its lock, if no other claim wanted it: release() ends it.
    if (renewed) this.#forget(local);
    return { held: false, reason: this.#whyLost(local, renewed) };
  }

  /** The leases of this lease file that are gone: called after a wake-up for it. */
  lost(fileId: string): { readonly id: string; readonly reason: LossReason }[] {
    const lost: LocalClaim[] = [];
    for (const local of this.#options.claims.all()) {
      if (local.file?.facts.id === fileId && local.held !== undefined && this.#isGone(local, fileId)) lost.push(local);
    }
    for (const local of lost) this.#forget(local);
    return lost.map((local) => ({ id: local.claim.id, reason: this.#whyLost(local, true) }));
  }

  /** Ends a lease that was not renewed for a whole ttl, although others with the same lease file were. */
  end(claimId: string): void {
    const { claims, clock } = this.#options;
    const local = claims.known(claimId);
    // Renewed since: the renewal was late, but the lease was never over.
    if (local === undefined || local.fromMs + local.claim.ttlMs > clock.now()) return;
    try {
      this.#options.lock(local.claim.name).release(local, true);
      claims.forget(claimId);
    } catch {
      // A full disk, perhaps. It is found again at the next renewal.
    }
  }

  #isGone({ claim }: LocalClaim, fileId: string): boolean {
    try {
      return this.#options.lock(claim.name).holderBy(fileId) === undefined;
    } catch {
      // The wake-up was only a hint: the next renewal decides.
      return false;
    }
  }

  /** Its lock does not know it any more, so nothing refers to its lease file, unless it is shared. */
  #forget(local: LocalClaim): void {
    const { claims, leaseFiles } = this.#options;
    claims.forget(local.claim.id);
    if (local.file?.leases !== undefined) leaseFiles.giveBack(local.file, local);
    else if (local.file !== undefined) leaseFiles.discard(local.file, local);
  }

  #whyLost({ claim, held }: LocalClaim, inTime: boolean): LossReason {
    const forced = held && this.#options.forced.whyEnded(claim.name, held.fence);
    if (forced !== undefined) return forced;
    return { kind: inTime ? "removed" : "gone" };
  }
}
