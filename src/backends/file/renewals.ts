/** Renews the leases of this process, and finds those that are lost. */
import type { Claim, Renewal } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import { disk } from "./disk.ts";
import type { LossReason } from "../../contract/loss.ts";
import type { LocalClaims, LocalClaim } from "./local-claim.ts";
import type { ForcedRecords } from "./force-release.ts";
import type { Lock } from "./lock.ts";
import type { Notes } from "./notes.ts";
import type { LeaseFile } from "./lease-file.ts";
import type { LeaseFiles } from "./lease-files.ts";
import type { DirectoryPaths } from "./directory.ts";
import type { OpenDirectory } from "./directory-checks.ts";
import { outlast, separate, writeTtl } from "./lease-changes.ts";

/** Renewing many leases is cut into slices, so the event loop can run in between. */
const SLICE = 100;
/** For more leases than this, the queues are listed once, instead of looking for each of them. */
const LOOKS_MAX = 8;

export interface RenewalsOptions {
  readonly paths: DirectoryPaths;
  readonly leaseFiles: LeaseFiles;
  readonly claims: LocalClaims;
  readonly forced: ForcedRecords;
  readonly clock: Clock;
  readonly notes: Notes;
  readonly directory: OpenDirectory;
  lock(name: string): Lock;
}

/** What one call knows already. */
interface Round {
  /** The shared lease files that it has renewed. */
  readonly files: Set<LeaseFile>;
  /** The directories of all queues, where they were listed. */
  queues: ReadonlySet<string> | undefined;
}

export class Renewals {
  readonly #options: RenewalsOptions;

  constructor(options: RenewalsOptions) {
    this.#options = options;
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    const renewals: Renewal[] = [];
    const round: Round = { files: new Set(), queues: undefined };
    if (claims.length > LOOKS_MAX) round.queues = new Set(disk.list(this.#options.paths.queues));
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

  /** Renews one lease. */
  #renew(claim: Claim, round: Round, fence?: bigint): Renewal {
    const { claims, leaseFiles } = this.#options;
    const lock = this.#options.lock(claim.name);
    const local = claims.known(claim.id) ?? claims.adopt(claim, leaseFiles.leaseOf(claim, lock.log));
    const file = local?.file;
    if (local?.held === undefined || file === undefined) return { held: false, reason: { kind: "gone" } };
    if (fence !== undefined && fence !== BigInt(local.held.fence)) return { held: false, reason: { kind: "retaken" } };
    // What is for people is written where it has changed.
    if (claim.changed === true) local.claim = claim;
    else if (claim !== local.claim) local.claim = { ...claim, meta: local.claim.meta, local: local.claim.local };
    const renewed = this.#extend(lock, local, file, round.files);
    const held = renewed ? lock.holderBy(local.file!.facts.id) : undefined;
    if (held !== undefined) {
      if (leaseFiles.resumable) outlast(leaseFiles, local, held);
      this.#options.notes.write(local, lock.log.seen, true);
      const mayBeWanted = round.queues === undefined || round.queues.has(lock.log.directory);
      const { fromMs } = local;
      return mayBeWanted && lock.isWanted(local) ? { held: true, fromMs, wanted: true } : { held: true, fromMs };
    }
    // An expired lease may still be in its lock, if no other claim wanted it: release() ends it.
    if (renewed) this.#forget(local);
    return { held: false, reason: this.#whyLost(local, renewed) };
  }

  /** `false`: its time was over. */
  #extend(lock: Lock, local: LocalClaim, file: LeaseFile, round: Set<LeaseFile>): boolean {
    const { leaseFiles } = this.#options;
    const { ttlMs } = local.claim;
    // The others that share its file keep their ttl.
    if (file.leases !== undefined && ttlMs !== file.facts.ttlMs && separate(lock.log, this.#options, local))
      return true;
    if (!round.has(file) && !leaseFiles.renew(file, file.leases === undefined ? ttlMs : file.facts.ttlMs)) return false;
    local.fromMs = file.fromMs;
    if (file.leases === undefined) writeTtl(lock.log, this.#options, local);
    else round.add(file);
    return true;
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
      this.#options.notes.remove(local);
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
    const { claims, leaseFiles, notes } = this.#options;
    claims.forget(local.claim.id);
    notes.remove(local);
    if (local.file?.leases !== undefined) leaseFiles.giveBack(local.file, local);
    else if (local.file !== undefined) leaseFiles.discard(local.file, local);
  }

  #whyLost({ claim, held }: LocalClaim, inTime: boolean): LossReason {
    const forced = held && this.#options.forced.whyEnded(claim.name, held.fence);
    if (forced !== undefined) return forced;
    return { kind: inTime ? "removed" : "gone" };
  }
}
