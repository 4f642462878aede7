/**
 * One lock and what can be done to it: take, release, swap. `ending.ts` ends leases and hands over. Each is a loop of "read the newest entry, decide,
 * append the next one". An append that fails means that another process was faster, so the loop reads again.
 */
import type { Claim, Outcome, Released } from "../../contract/backend.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { ABANDONED_MAX, holderIn, type LocalClaim, withHolder } from "./local-claim.ts";
import { disk } from "./disk.ts";
import { type Head, isHead, LockLog } from "./log.ts";
import type { LeaseFile } from "./lease-file.ts";
import type { LockOptions } from "./lock-options.ts";
import { accept, detach } from "./lease-changes.ts";
import { factsOf, type Ticket, wrongLimit } from "./queue.ts";
import { FREE, type Holder, type LeaseFacts, type LockState } from "./records.ts";
import { Endings } from "./ending.ts";
import { admitted, inTheWay, isEmpty, isPlain } from "./admission.ts";
import { type BlockedBy, LockQuery, type LockSnapshot } from "./query.ts";
import { tooBusy, tooShort } from "./errors.ts";

/** Every failed try is another process's success, so this many in a row mean that something is wrong. */
const TRIES_MAX = 10_000;
/** A lock held shorter than this is freed before waiters are checked for: mostly there are none. */
const ALONE_MS = 1;

export class Lock {
  readonly name: string;
  readonly log: LockLog;
  readonly #options: LockOptions;
  readonly query: LockQuery;
  readonly #endings: Endings;

  constructor(name: string, options: LockOptions) {
    this.name = name;
    this.#options = options;
    this.log = new LockLog(name, options);
    this.query = new LockQuery(name, this.log.directory, options, options.facts);
    this.#endings = new Endings(this.log, this.query, options);
  }

  /**
   * Takes the lock for the claim if it may hold it now. Otherwise says what blocks it. `queues`: it waits in the queue then; without,
   * it leaves the queue if it waits there.
   */
  take(local: LocalClaim, queues: boolean): BlockedBy | undefined {
    const { seen } = this.log;
    local.abandoned = 0;
    [local.wanted, local.others] = [false, undefined];
    let begins = false;
    // The shortest path: a lock that was free when last read is free if the append succeeds, and there are no waiters.
    if (seen !== undefined && local.file === undefined && isEmpty(seen.state) && !this.#options.leaseFiles.resumable) {
      if ((this.#endings.leftIdle(seen) || !this.query.queue.mayExist()) && this.grant(local, seen, FREE)) {
        local.aloneUntilMs = machineMs(this.#options.clock) + ALONE_MS;
        return undefined;
      }
    }
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      if (local.abandoned > ABANDONED_MAX) throw tooShort(local.claim);
      const head = this.log.read(true)!;
      if (this.holds(local, head)) {
        if (this.resume(local, head)) return undefined;
        continue;
      }
      const live = this.query.liveState(head);
      if (live.unwritten) {
        this.log.append(head, { state: () => live.state });
        continue;
      }
      if (local.claim.wantsOutcome === true && live.state.outcome !== undefined) {
        const outcome = this.query.outcomeOf(this.log, head);
        if (outcome === undefined) continue;
        this.#abandon(local);
        return { heldBy: [], ahead: undefined, clearsInMs: 0, instances: [], outcome };
      }
      const waiters = this.query.waiters(head);
      const at = this.#options.leaseFiles.indexIn(waiters, local);
      this.checkLimit(local, live.state, waiters);
      const wanted = factsOf(waiters);
      const count = admitted(live.state, at < 0 ? [...wanted, local.claim] : wanted);
      if ((at < 0 ? waiters.length : at) < count) {
        if (!this.grant(local, head, live.state)) continue;
        local.wanted = waiters.length > (at < 0 ? 0 : 1) && this.query.isInTheWay(this.log.seen!, local.file!.facts.id);
        return undefined;
      }
      if (count > 0 && this.#endings.handOver(head, live.state, waiters, count)) continue;
      if (!queues) {
        const waited = local.ticket !== undefined;
        this.#abandon(local);
        // It may have blocked others.
        if (waited) this.#endings.settle();
        return this.query.blockedBy(head, live, waiters, undefined);
      }
      const place = at < 0 ? waiters.length : at;
      if (at < 0) {
        // Read once more after joining: the holder may have released before it could see the ticket.
        if (!this.#join(local)) continue;
        begins ||= place === 0;
        if (this.log.read(true) !== head) continue;
      } else if (!this.#options.leaseFiles.renew(local.file!)) {
        this.#abandon(local);
        continue;
      }
      if (begins && place === 0)
        for (const { facts } of inTheWay(live.state)) this.#options.want(facts, this.log.directory);
      return this.query.blockedBy(head, live, waiters, place);
    }
    throw tooBusy(this.name);
  }

  /** True if a claim waits for what this one holds. */
  isWanted({ file }: LocalClaim): boolean {
    const { seen } = this.log;
    return seen !== undefined && file !== undefined && this.query.isWanted(seen, file.facts.id);
  }

  /** True if the claim holds by this entry, whichever process took it. */
  holds(local: LocalClaim, head: Head): boolean {
    return this.#options.leaseFiles.holds(local, head);
  }

  /** Throws if the claim asks for another limit than all others. It waits no longer then. */
  checkLimit(local: LocalClaim, state: LockState, waiters: readonly Ticket[]): void {
    const error = wrongLimit(local, state, waiters);
    if (error === undefined) return;
    this.#abandon(local);
    throw error;
  }

  /** Goes on with what the claim holds by this entry. `false`: it was over, and has ended. */
  resume(local: LocalClaim, head: Head): boolean {
    if (!this.#accept(local, head)) return this.#abandon(local);
    this.#granted(local);
    return true;
  }

  #granted(local: LocalClaim): void {
    local.wanted = local.others ?? this.isWanted(local);
    local.others = undefined;
  }

  /** True if the lock has this outcome, which the claim left. */
  hasOutcomeOf(claim: Claim, outcome: Outcome): boolean {
    return this.#endings.hasOutcomeOf(claim, outcome);
  }

  /**
   * Ends the claim, and says what it was. `keepsMinHold`: the lease was used, so its minHold counts. `outcome`: it is kept, if the
   * claim holds the lock by the lease of that outcome.
   */
  release(local: LocalClaim, keepsMinHold: boolean, outcome?: Outcome): Released {
    const { leaseFiles, clock } = this.#options;
    const { file } = local;
    if (file === undefined) return "absent";
    const end = (by: LeaseFile): boolean => {
      if (outcome === undefined) return this.#endings.end(by, local, keepsMinHold);
      if (this.#endings.conclude(by, local, keepsMinHold, outcome)) return true;
      // It may be over and in its lock all the same, if no other claim wanted it, or it is a later lease: the outcome does not count.
      this.#endings.end(by, local, keepsMinHold);
      return false;
    };
    const queued = this.#giveUp(file, local);
    let ended = end(file);
    const resumed = leaseFiles.resumedFileOf(local, this.log);
    if (resumed !== undefined && end(resumed)) ended = true;
    local.held = local.file = undefined;
    if (queued && !ended) this.#endings.settle();
    if (resumed !== undefined) leaseFiles.giveBack(resumed, local);
    // What expired while it held must never count again, nor what it may be handed though it gave up waiting.
    if (machineMs(clock) < file.untilMs) leaseFiles.giveBack(file, local);
    else leaseFiles.discard(file, local);
    if (ended) return "held";
    return queued ? "queued" : "absent";
  }

  /** Releases one claim and takes the lock for the next in one append. `false`: it takes two. */
  swap(held: LocalClaim, next: LocalClaim): boolean {
    const head = this.log.seen;
    if (head?.plain !== true || holderIn(head.state, held) === undefined || next.file !== undefined) return false;
    if (this.query.queue.mayExist() || !isPlain(next.claim) || !this.grant(next, head, FREE)) return false;
    this.#options.leaseFiles.giveBack(held.file!, held);
    held.held = held.file = undefined;
    return true;
  }

  /** True when the claim holds the lock. It may have been handed the lock just before. */
  checkGranted(local: LocalClaim): boolean {
    const head = this.log.read(false);
    if (head === undefined || !this.holds(local, head)) return false;
    if (local.held === undefined) return this.resume(local, head);
    this.#granted(local);
    return true;
  }

  /** The holder with this lease file, whichever process made it. */
  holderBy(fileId: string): Holder | undefined {
    return this.log.read(false)?.state.holders.find(({ facts }) => facts.id === fileId);
  }

  /** Gives what is free to the next waiters. */
  settle(): void {
    this.#endings.settle();
  }

  /** Removes the outcome of the lease that began with that fence. `false`: there is none. */
  forget(fence: bigint): boolean {
    return this.#endings.forget(fence);
  }

  /** See {@link LockQuery.snapshot}. */
  snapshot(exact: boolean): LockSnapshot {
    return this.query.snapshot(this.log, exact);
  }

  wake(facts: LeaseFacts): void {
    this.#options.wake(facts);
  }

  /** Appends the claim as a holder. `false`: another process was faster. */
  grant(local: LocalClaim, head: Head, state: LockState): boolean {
    const { leaseFiles, clock } = this.#options;
    if (local.file === undefined) local.file = leaseFiles.take(local);
    else if (!leaseFiles.renew(local.file)) return this.#abandon(local);
    const { file } = local;
    local.fromMs = file.fromMs;
    const done = this.log.append(head, withHolder(state, file, local.claim, clock));
    if (!isHead(done)) {
      if (done === "too many" || !disk.exists(file.path)) this.#abandon(local);
      else if (done !== "unseen" && file.leases !== undefined) {
        leaseFiles.giveBack(file, local);
        local.file = undefined;
      }
      return false;
    }
    this.#leave(local);
    if (leaseFiles.isProvisional(local)) return detach(this.log, this.#options, local) || this.#abandon(local);
    local.held = holderIn(done.state, local);
    // It took so long that the lease is over before it began.
    return machineMs(clock) < file.untilMs || this.#abandon(local);
  }

  /** Accepts a lock that another process handed over, if the claim's time is not over. */
  #accept(local: LocalClaim, head: Head): boolean {
    const { file, claim } = local;
    const ttlMs = file?.leases === undefined ? claim.ttlMs : file.facts.ttlMs;
    if (file === undefined || !this.#options.leaseFiles.renew(file, ttlMs)) return false;
    // First, so it cannot be handed the lock once more by the same ticket.
    this.#leave(local);
    return accept(this.log, this.#options, local, head);
  }

  /** The claim's lease file is useless: what it holds ends, and its ticket is removed. */
  #abandon(local: LocalClaim): false {
    const { file } = local;
    if (file === undefined) return false;
    local.abandoned++;
    if (this.#options.leaseFiles.isOurs(file, local.claim)) {
      this.#giveUp(file, local);
      this.#endings.end(file, local, false);
    } else this.#leave(local);
    local.file = local.held = undefined;
    this.#options.leaseFiles.discard(file, local);
    return false;
  }

  #join(local: LocalClaim): boolean {
    const { leaseFiles } = this.#options;
    // An expired ticket is made again, with a lease file whose time is not over. A ticket's file is never shared.
    if (!leaseFiles.mayWait(local)) this.#abandon(local);
    local.file ??= leaseFiles.forWaiting(local.claim);
    local.arrivalUs ??= Math.floor(machineMs(this.#options.clock) * 1000);
    const ticket = this.query.queue.ticketOf(local.file, local.arrivalUs, local.claim);
    if (this.query.queue.join(local.file, ticket) !== "joined") return this.#abandon(local);
    local.ticket = ticket;
    return true;
  }

  #leave(local: LocalClaim): void {
    if (local.ticket !== undefined) this.query.queue.leave(local.ticket);
    local.ticket = undefined;
  }

  /** The same for a claim that does not want the lock any more. `false`: it was not in the queue. */
  #giveUp(file: LeaseFile, local: LocalClaim): boolean {
    const queued = local.ticket !== undefined && this.#options.leaseFiles.endWait(file, local.ticket);
    // From here on others may remove the ticket too: its time is over.
    this.#leave(local);
    return queued;
  }
}
