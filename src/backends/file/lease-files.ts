/**
 * Which lease file serves which claim. A claim that the core renews until it is released shares a file with all others of the
 * same share key, each on another lock: one utimes() renews them all. Every other claim has a file of its own, because it ends
 * at a time of its own (`renew: false`, `maxHold`), is renewed elsewhere (a thread, another process), waits in a queue,
 * or leaves a place behind that is known by the file's id (`minHold`, `lockDelay`).
 *
 * Leases that share a file have one ttl: one that is renewed for another leaves. They must still end one by one. A lease is ended
 * by an entry in its lock's log. If that failed, or if the core did not renew it for a whole ttl, the renewals of the others keep
 * it alive. So each of these reports it, to be ended. A shared file whose time was over while it held anything is never used
 * again: the next claim gets a new one.
 *
 * Making a file costs ten times a link, so a file whose claims have ended serves the next claim with the same share key. So it does
 * not say which claim it serves. Only a file that serves no other claim afterwards does.
 */
import type { Claim } from "../../contract/backend.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { holderIn, type LocalClaim } from "./local-claim.ts";
import { remove } from "./disk.ts";
import type { Head, LockLog } from "./log.ts";
import { type LeaseFile, type LeaseFileOptions, LeaseFileStore, type SharedLease } from "./lease-file.ts";
import type { Ticket } from "./queue.ts";
import type { Holder, LeaseFacts } from "./records.ts";
import { hasShareKeyOf, shareKeyOf } from "./share-key.ts";
import { checkSameMode, checkSameTerms, holdingIn, isSameFile, isWaitFor, leaseIn } from "./resume.ts";

/** How many files of each kind are kept for the next claim. */
const IDLE_MAX = 64;
/** A shared file that was renewed this part of its ttl ago is not renewed for a new claim, which trusts it that much shorter. */
const FRESH = 1 / 100;

export interface LeaseFilesOptions extends LeaseFileOptions {
  /** A lease that is not renewed any more still exists, because others that share its file are renewed. It is to be ended. */
  lapsed(lease: SharedLease): void;
}

export class LeaseFiles {
  readonly #options: LeaseFilesOptions;
  readonly #files: LeaseFileStore;
  /** Files of one claim each, whose claim has ended. By share key; the newest last. */
  readonly #idle = new Map<string, LeaseFile[]>();
  #idleCount = 0;
  /** The files that new claims may share, by share key. */
  readonly #shared = new Map<string, LeaseFile>();
  /** The one of them that was last used: mostly it is used again. */
  #recent: LeaseFile | undefined;
  /** Those of them that carry no lease, the longest unused first. */
  readonly #unused = new Map<string, LeaseFile>();
  /** True: every file of one claim has the claim's id, so another thread or process can find it. */
  #named: boolean;

  constructor(options: LeaseFilesOptions) {
    this.#options = options;
    this.#files = new LeaseFileStore(options);
    this.#named = options.detached;
  }

  /** True: another process may go on with any claim at any time, so its file is only removed when it is released, or over. */
  get resumable(): boolean {
    return this.#options.detached;
  }

  /** True if the claim holds by this entry, whichever process took it. */
  holds(local: LocalClaim, head: Head): boolean {
    if (!this.resumable) return holderIn(head.state, local) !== undefined;
    const held = holdingIn(this.#options.paths, head, local.claim.id);
    if (held === undefined) return false;
    checkSameMode(local.claim, held.facts);
    if (local.file?.facts.id === held.facts.id) return true;
    const file = this.#files.adopt(held.facts);
    if (file === undefined) return false;
    // Another process has it already for the same claim: the file that we waited by is useless now.
    if (local.file !== undefined) this.discard(local.file, local);
    local.file = file;
    return true;
  }

  /** The index of the claim among the waiters, whichever process queued it. -1: it does not wait. */
  indexIn(waiters: readonly Ticket[], local: LocalClaim): number {
    if (local.file !== undefined) return waiters.findIndex(({ facts }) => facts.id === local.file!.facts.id);
    if (!this.resumable || !local.claim.queues) return -1;
    const at = waiters.findIndex(({ facts }) => isWaitFor(local.claim.id, facts));
    const ticket = waiters[at];
    if (ticket === undefined) return -1;
    checkSameTerms(local.claim, ticket.facts);
    const file = this.#files.adopt(ticket.facts);
    if (file === undefined || !isSameFile(ticket.path, file.path)) return -1;
    [local.file, local.arrivalUs, local.ticket] = [file, ticket.arrivalUs, ticket.path];
    return at;
  }

  /** True if no other process can go on with the claim by this file. */
  isOurs(file: LeaseFile, claim: Claim): boolean {
    return !this.resumable || this.#isOwnWait(file, claim);
  }

  /** A file for a claim that waits. */
  forWaiting(claim: Claim): LeaseFile {
    return this.resumable ? this.#files.forWaiting(claim) : this.own(claim);
  }

  /** True if the claim can go on waiting by its file: its own, ending with this process, and not over yet. */
  mayWait({ file, claim }: LocalClaim): boolean {
    if (file === undefined || file.leases !== undefined) return false;
    return this.isOurs(file, claim) && this.renew(file);
  }

  /** True if the claim waited by its file, so what it holds ends with the process that made the file. */
  isProvisional({ file, claim }: LocalClaim): boolean {
    return this.resumable && file !== undefined && isWaitFor(claim.id, file.facts);
  }

  /** A lease is about to be bound to no process. */
  detaching({ fence, run, fromMs }: { fence: number; run: number; fromMs: number }): void {
    this.#options.beforeDetached?.({ granted: true, fence: BigInt(fence), run, fromMs });
  }

  /** The claim's lease, whichever process or thread took it. */
  leaseOf({ id }: Claim, log: LockLog): Holder | undefined {
    const head = log.read(false);
    return head && leaseIn(this.#options.paths, head, id);
  }

  /** The file by which another process may hold what this claim only waits for. */
  resumedFileOf(local: LocalClaim, log: LockLog): LeaseFile | undefined {
    const held = this.isProvisional(local) ? this.leaseOf(local.claim, log) : undefined;
    return held && this.#files.adopt(held.facts);
  }

  /** The file by which the claim has its lease, by this entry, whichever process made it. */
  leaseFileIn(head: Head, { id }: Claim): LeaseFile | undefined {
    const held = leaseIn(this.#options.paths, head, id);
    return held && this.#files.adopt(held.facts);
  }

  /** From now on every file that is not shared has its claim's id, and none of them is used twice. */
  nameAfterClaims(): void {
    this.#named = true;
  }

  /** A file for a claim that takes its lock now, with at least nearly its whole ttl left. */
  take(local: LocalClaim): LeaseFile {
    const { claim } = local;
    // Bound to this process first, so there is an instant before which the lease ends with it: see lease-changes.ts.
    if (this.resumable) return this.forWaiting(claim);
    if (claim.renewed !== true || claim.lockDelayMs + claim.minHoldMs > 0) return this.own(claim);
    let file = this.#recent;
    if (file === undefined || !hasShareKeyOf(file.facts, claim)) file = this.#shared.get(shareKeyOf(claim));
    // A lock identifies its holders by file id, so one file cannot hold it twice.
    if (file?.leases?.has(claim.name) === true) return this.own(claim);
    if (file === undefined || !this.freshen(file)) {
      file = this.#files.forMany(claim, shareKeyOf(claim));
      this.#shared.set(file.shareKey, file);
    }
    if (file.leases!.size === 0) this.#unused.delete(file.shareKey);
    file.leases!.set(claim.name, local);
    this.#recent = file;
    return file;
  }

  /** A file of the claim's own, with its whole ttl left. */
  own(claim: Claim): LeaseFile {
    const shareKey = this.#ownKeyOf(claim);
    const idle = this.#idle.get(shareKey)?.pop();
    if (idle === undefined) return this.#files.forOne(claim, shareKey, this.#named);
    this.#idleCount--;
    // It carries no claim, so no process can be taking over from it: no log has it as its newest entry, and none will
    // (a file by which a claim gave up waiting does not get here).
    return this.#files.extend(idle, claim.ttlMs) ? idle : this.#files.forOne(claim, shareKey, this.#named);
  }

  /** A file of the claim's own, in place of one that it shares: it lasts for the claim's ttl, and no shorter than that one. */
  apart(claim: Claim, shared: LeaseFile): LeaseFile {
    const file = this.own(claim);
    if (file.untilMs < shared.untilMs) this.#files.extend(file, claim.ttlMs, shared.untilMs);
    return file;
  }

  /** The claim has ended, and nothing refers to its file any more. */
  giveBack(file: LeaseFile, local: LocalClaim): void {
    if (file.leases !== undefined) return this.#leave(file, file.leases, local);
    if (this.resumable) return void remove(file.path);
    // Without a key it serves no other claim, or its text was changed, or another thread or process made it.
    if (file.shareKey === "" || this.#named || this.#idleCount >= IDLE_MAX) return this.discard(file, local);
    const same = this.#idle.get(file.shareKey);
    if (same === undefined) this.#idle.set(file.shareKey, [file]);
    else same.push(file);
    this.#idleCount++;
    if (this.#idle.size > IDLE_MAX) this.#forgetEmpty();
    return undefined;
  }

  /** Uses the file for nothing new. What is linked elsewhere keeps its times, and leases that share it stay. */
  discard(file: LeaseFile, local: LocalClaim): void {
    this.#retire(file);
    if (file.leases !== undefined) this.#leave(file, file.leases, local);
    else if (this.isOurs(file, local.claim)) remove(file.path);
    else this.#files.removeOver(file.path);
  }

  /** Renews a claim that holds or waits, and all that share its file. `false`: its time was over, or its file is gone. */
  renew(file: LeaseFile, ttlMs: number = file.facts.ttlMs): boolean {
    const renewed = this.#files.renew(file, ttlMs);
    if (file.leases === undefined) return renewed;
    if (!renewed) this.#retire(file);
    else this.#reportLapsed(file, file.leases);
    return renewed;
  }

  /** As {@link renew}, but does nothing where that was done just before. */
  freshen(file: LeaseFile): boolean {
    const { ttlMs } = file.facts;
    if (file.leases === undefined) return this.renew(file);
    if (file.untilMs - machineMs(this.#options.clock) >= ttlMs * (1 - FRESH)) return true;
    if (file.leases.size > 0) return this.renew(file);
    // It carries no lease, so there is no old time to be kept.
    if (this.#files.extend(file, ttlMs)) return true;
    this.#retire(file);
    return false;
  }

  /**
   * The claim gives up waiting, so what it is handed by its ticket will never be accepted. Another process may be in the middle of
   * linking that, which removing the ticket does not stop: so first what the link brings is over. `false`: there was no ticket.
   */
  endWait(file: LeaseFile, ticket: string): boolean {
    return this.#files.expire(file, ticket);
  }

  /**
   * Ends the claim's time without needing any space on the disk. `false`: others share its file, so that is not possible;
   * it is reported at every renewal of theirs until it has ended.
   */
  expire(file: LeaseFile, local: LocalClaim): boolean {
    if (file.leases !== undefined && file.leases.size > 1) {
      local.fromMs = -Infinity;
      return false;
    }
    this.#files.expire(file);
    this.#retire(file);
    return true;
  }

  /** The lease file with these facts, which another thread or process made. */
  adopt(facts: LeaseFacts): LeaseFile | undefined {
    return this.#files.adopt(facts);
  }

  close(): void {
    for (const file of [...this.#idle.values()].flat()) remove(file.path);
    for (const file of this.#unused.values()) remove(file.path);
    for (const files of [this.#idle, this.#shared, this.#unused]) files.clear();
    this.#recent = undefined;
    this.#idleCount = 0;
  }

  /** Empty: the file is found by its claim's id, or a place kept after its end by its own: it must not come back for another. */
  #ownKeyOf(claim: Claim): string {
    if (this.#named || claim.minHoldMs + claim.lockDelayMs > 0) return "";
    return claim.wantsOutcome === true ? `outcome ${shareKeyOf(claim)}` : shareKeyOf(claim);
  }

  #isOwnWait({ facts }: LeaseFile, { id }: Claim): boolean {
    return facts.instance === this.#options.instance && isWaitFor(id, facts);
  }

  #leave(file: LeaseFile, leases: Map<string, SharedLease>, local: LocalClaim): void {
    if (leases.get(local.claim.name) === local) leases.delete(local.claim.name);
    if (leases.size > 0) return;
    if (this.#shared.get(file.shareKey) !== file) {
      remove(file.path);
      return;
    }
    this.#unused.set(file.shareKey, file);
    if (this.#unused.size <= IDLE_MAX) return;
    const [oldest] = this.#unused.values();
    this.#retire(oldest!);
    remove(oldest!.path);
  }

  #retire(file: LeaseFile): void {
    if (this.#shared.get(file.shareKey) !== file) return;
    if (this.#recent === file) this.#recent = undefined;
    this.#shared.delete(file.shareKey);
    this.#unused.delete(file.shareKey);
  }

  #reportLapsed({ facts, fromMs }: LeaseFile, leases: Map<string, SharedLease>): void {
    for (const lease of leases.values()) if (lease.fromMs + facts.ttlMs <= fromMs) this.#options.lapsed(lease);
  }

  #forgetEmpty(): void {
    for (const [shareKey, same] of this.#idle) if (same.length === 0) this.#idle.delete(shareKey);
  }
}
