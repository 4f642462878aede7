/**
 * One lock and what can be done to it: take, release, swap, hand over. Each is a loop of "read the newest entry, decide,
 * append the next one". An append that fails means that another process was faster, so the loop reads again.
 */
import type { Released } from "../../contract/backend.ts";
import { machineMs } from "../../contract/clock.ts";
import { ABANDONED_MAX, holderIn, type LocalClaim, withHolder } from "./local-claim.ts";
import { disk } from "./disk.ts";
import { type LivenessOptions, keep } from "./liveness.ts";
import { type Head, isHead, LockLog, type LogOptions } from "./log.ts";
import type { LeaseFile } from "./lease-file.ts";
import type { LeaseFiles } from "./lease-files.ts";
import { accept, detach } from "./lease-changes.ts";
import { type FactsCache, factsOf, type Ticket, wrongLimit } from "./queue.ts";
import { FREE, type Holder, type LeaseFacts, type LockState } from "./records.ts";
import { admitted, isFree, isPlain, without } from "./admission.ts";
import { type BlockedBy, LockQuery, type LockSnapshot } from "./query.ts";
import { isFull, tooBusy, tooShort } from "./errors.ts";

/** Every failed try is another process's success, so this many in a row mean that something is wrong. */
const TRIES_MAX = 10_000;
/** A lock held shorter than this is freed before waiters are checked for: mostly there are none. */
const ALONE_MS = 1;

/** What every lock of a backend shares. */
export interface LockOptions extends LivenessOptions, LogOptions {
  readonly leaseFiles: LeaseFiles;
  readonly facts: FactsCache;
  /** Wakes the process of that lease file, to check its claim. */
  wake(facts: LeaseFacts): void;
}

export class Lock {
  readonly name: string;
  readonly log: LockLog;
  readonly #options: LockOptions;
  readonly query: LockQuery;
  /** Free since our own release, with no waiters. A claim that came later has changed the head. */
  #idleHead: Head | undefined;

  constructor(name: string, options: LockOptions) {
    this.name = name;
    this.#options = options;
    this.log = new LockLog(name, options);
    this.query = new LockQuery(name, this.log.directory, options, options.facts);
  }

  /**
   * Takes the lock for the claim if it may hold it now. Otherwise says what blocks it. `queues`: it waits in the queue then; without,
   * it leaves the queue if it waits there.
   */
  take(local: LocalClaim, queues: boolean): BlockedBy | undefined {
    const { seen } = this.log;
    local.abandoned = 0;
    // The shortest path: a lock that was free when last read is free if the append succeeds, and there are no waiters.
    if (seen !== undefined && local.file === undefined && isFree(seen.state) && !this.#options.leaseFiles.resumable) {
      if ((seen === this.#idleHead || !this.query.queue.mayExist()) && this.#grant(local, seen, FREE)) {
        local.aloneUntilMs = machineMs(this.#options.clock) + ALONE_MS;
        return undefined;
      }
    }
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      if (local.abandoned > ABANDONED_MAX) throw tooShort(local.claim);
      const head = this.log.read(true)!;
      if (this.#options.leaseFiles.holds(local, head)) {
        if (this.#accept(local, head)) return undefined;
        this.#abandon(local);
        continue;
      }
      const live = this.query.liveState(head);
      if (live.unwritten) {
        this.log.append(head, { state: () => live.state });
        continue;
      }
      const waiters = this.query.waiters(head);
      const at = this.#options.leaseFiles.indexIn(waiters, local);
      const error = wrongLimit(local, live.state, waiters);
      if (error !== undefined) {
        this.#abandon(local);
        throw error;
      }
      const wanted = factsOf(waiters);
      const count = admitted(live.state, at < 0 ? [...wanted, local.claim] : wanted);
      if ((at < 0 ? waiters.length : at) < count) {
        if (this.#grant(local, head, live.state)) return undefined;
        continue;
      }
      if (count > 0 && this.#handOver(head, live.state, waiters, count)) continue;
      if (!queues) {
        const waited = local.ticket !== undefined;
        this.#abandon(local);
        // It may have blocked others.
        if (waited) this.settle();
        return this.query.blockedBy(head, live, waiters, undefined);
      }
      if (at < 0) {
        // Read once more after joining: the holder may have released before it could see the ticket.
        if (this.#join(local) && this.log.read(true) === head)
          return this.query.blockedBy(head, live, waiters, waiters.length);
      } else if (this.#options.leaseFiles.renew(local.file!)) return this.query.blockedBy(head, live, waiters, at);
      else this.#abandon(local);
    }
    throw tooBusy(this.name);
  }

  /** Ends the claim, and says what it was. `keepsMinHold`: the lease was used, so its minHold counts. */
  release(local: LocalClaim, keepsMinHold: boolean): Released {
    const { leaseFiles, clock } = this.#options;
    const { file } = local;
    if (file === undefined) return "absent";
    const queued = this.#giveUp(file, local);
    let ended = this.#drop(file, local, keepsMinHold);
    const resumed = leaseFiles.resumedFileOf(local, this.log);
    if (resumed !== undefined && this.#drop(resumed, local, keepsMinHold)) ended = true;
    local.held = local.file = undefined;
    if (queued && !ended) this.settle();
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
    if (this.query.queue.mayExist() || !isPlain(next.claim) || !this.#grant(next, head, FREE)) return false;
    this.#options.leaseFiles.giveBack(held.file!, held);
    held.held = held.file = undefined;
    return true;
  }

  /** True when the claim holds the lock. It may have been handed the lock just before. */
  checkGranted(local: LocalClaim): boolean {
    const head = this.log.read(false);
    if (head === undefined || !this.#options.leaseFiles.holds(local, head)) return false;
    return local.held !== undefined || this.#accept(local, head) || this.#abandon(local);
  }

  /** The holder with this lease file, whichever process made it. */
  holderBy(fileId: string): Holder | undefined {
    return this.log.read(false)?.state.holders.find(({ facts }) => facts.id === fileId);
  }

  /** Gives what is free to the next waiters. */
  settle(): void {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = this.query.queue.mayExist() ? this.log.read(false) : undefined;
      if (head === undefined) return;
      const { state } = this.query.liveState(head);
      const waiters = this.query.waiters(head);
      const wanted = factsOf(waiters);
      const count = admitted(state, wanted);
      // The first waiter must follow the holder now, and no longer a waiter that has left the queue.
      if (count === 0 && wanted[0] !== undefined) this.#options.wake(wanted[0]);
      if (count === 0 || !this.#handOver(head, state, waiters, count)) return;
    }
  }

  snapshot(): LockSnapshot {
    return this.query.snapshot(this.log);
  }

  wake(facts: LeaseFacts): void {
    this.#options.wake(facts);
  }

  /** Removes the lock from the disk if it was not used since that wall-clock time. */
  retireIfIdle(sinceWallMs: number): void {
    const head = this.log.read(false);
    if (head === undefined || this.query.queue.mayExist()) return;
    const { state } = this.query.liveState(head);
    const changedMs = disk.times(head.directory)?.mtimeMs ?? Infinity;
    if (isFree(state) && changedMs < sinceWallMs) this.log.retire(head);
  }

  /** Appends the claim as a holder. `false`: another process was faster. */
  #grant(local: LocalClaim, head: Head, state: LockState): boolean {
    const { leaseFiles, clock } = this.#options;
    if (local.file === undefined) local.file = leaseFiles.take(local);
    else if (!leaseFiles.renew(local.file)) return this.#abandon(local);
    const { file } = local;
    local.fromMs = file.fromMs;
    const done = this.log.append(head, withHolder(state, file, clock));
    if (!isHead(done)) {
      if (done === "too many" || !disk.exists(file.path)) this.#abandon(local);
      else if (done !== "unseen" && local.ticket === undefined && !leaseFiles.resumable) {
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
    if (file === undefined || !this.#options.leaseFiles.renew(file, claim.ttlMs)) return false;
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
      this.#drop(file, local, false);
    } else this.#leave(local);
    local.file = local.held = undefined;
    this.#options.leaseFiles.discard(file, local);
    return false;
  }

  /** Ends what the lease file holds, and hands over. `false`: it holds nothing. */
  #drop(file: LeaseFile, local: LocalClaim, keepsMinHold: boolean): boolean {
    let unseen = false;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const { seen } = this.log;
      const ours = seen?.plain === true && seen.state.holders[0]?.facts.id === file.facts.id;
      const head = ours ? seen : this.log.read(false);
      const holder = head?.state.holders.find(({ facts }) => facts.id === file.facts.id);
      // What cannot be found after an entry that was overtaken was ended by it, unless its time was over.
      if (head === undefined || holder === undefined) return unseen && machineMs(this.#options.clock) < file.untilMs;
      const state = ours ? FREE : without(this.query.liveState(head).state, file.facts.id);
      const keepMs = keepsMinHold ? this.query.minHoldLeftMs(holder) : 0;
      const next = keepMs === 0 ? state : { ...state, kept: [...state.kept, keep(this.#options, holder, keepMs)] };
      const waiters = machineMs(this.#options.clock) < local.aloneUntilMs ? [] : this.query.waiters(head);
      try {
        const handsOver = isFree(next) && admitted(next, factsOf(waiters)) > 0;
        let done = handsOver ? this.#grantTo(head, waiters[0]) : undefined;
        if (isHead(done)) return true;
        if (done !== "unseen") done = this.log.append(head, isFree(next) ? { free: true } : { state: () => next });
        unseen ||= done === "unseen";
        if (!isHead(done)) continue;
      } catch (error) {
        // Without space for another entry, the lease can still be ended: its time is over.
        if (!isFull(error) || keepMs > 0 || !this.#options.leaseFiles.expire(file, local)) throw error;
        return true;
      }
      if (this.query.queue.mayExist()) this.settle();
      else if (isFree(next)) this.#idleHead = this.log.seen;
      return true;
    }
    throw tooBusy(this.name);
  }

  /** Gives what is free to the waiters. `true`: the lock changed, so read it again. */
  #handOver(head: Head, state: LockState, waiters: readonly Ticket[], count: number): boolean {
    if (isFree(state) && isHead(this.#grantTo(head, waiters[0]))) return true;
    // The others take their places themselves: only a lone lease file can be linked by another process.
    for (const { facts } of waiters.slice(0, count)) this.#options.wake(facts);
    return false;
  }

  /** Links the ticket of the first waiter into the log: from that instant its claim holds the lock. */
  #grantTo(head: Head, first: Ticket | undefined): ReturnType<LockLog["append"]> {
    if (first === undefined || !isPlain(first.facts)) return undefined;
    const done = this.log.append(head, { facts: first.facts, source: first.path });
    if (!isHead(done)) return done;
    if (disk.exists(first.path)) this.#options.wake(first.facts);
    // Gone: it has accepted, or it gave up while we linked. Then it no longer wanted the lock, and it is the next waiter's turn.
    else this.settle();
    return done;
  }

  #join(local: LocalClaim): boolean {
    const { leaseFiles } = this.#options;
    // An expired ticket is made again, with a lease file whose time is not over. A ticket's file is never shared.
    if (!leaseFiles.mayWait(local)) this.#abandon(local);
    local.file ??= leaseFiles.forWaiting(local.claim);
    local.arrivalUs ??= Math.floor(machineMs(this.#options.clock) * 1000);
    if (this.query.queue.join(local.file, local.arrivalUs) !== "joined") return this.#abandon(local);
    local.ticket = this.query.queue.ticketOf(local.file, local.arrivalUs);
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
