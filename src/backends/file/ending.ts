/**
 * How a lease of a lock ends, and who gets the lock then. Ending it is one entry; so is handing the lock to the first waiter in the
 * same step, or keeping an outcome. An append that fails means that another process was faster, so the loop reads again.
 */
import type { Claim, Outcome } from "../../contract/backend.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { admitted, isEmpty, isPlain, without } from "./admission.ts";
import { disk } from "./disk.ts";
import { isFull, tooBusy, unknownOutcome } from "./errors.ts";
import type { LeaseFile } from "./lease-file.ts";
import { keep } from "./liveness.ts";
import type { LocalClaim } from "./local-claim.ts";
import type { LockOptions } from "./lock-options.ts";
import { type Head, isHead, type LockLog } from "./log.ts";
import { discardValue, newOutcome, writeValue } from "./outcomes.ts";
import type { LockQuery } from "./query.ts";
import { factsOf, type Ticket } from "./queue.ts";
import { FREE, type Holder, type LockState } from "./records.ts";

const TRIES_MAX = 10_000;

export class Endings {
  readonly #log: LockLog;
  readonly #query: LockQuery;
  readonly #options: LockOptions;
  /** Free since our own release, with no waiters. A claim that came later has changed the head. */
  #idleHead: Head | undefined;

  constructor(log: LockLog, query: LockQuery, options: LockOptions) {
    this.#log = log;
    this.#query = query;
    this.#options = options;
  }

  /** True if the lock was free and no claim waited when this entry was made, by us. */
  leftIdle(head: Head): boolean {
    return head === this.#idleHead;
  }

  /** Ends what the lease file holds, and hands over. `keepsMinHold`: the lease was used. `false`: it holds nothing. */
  end(file: LeaseFile, local: LocalClaim, keepsMinHold: boolean): boolean {
    let unseen = false;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const { seen } = this.#log;
      const ours = seen?.plain === true && seen.state.holders[0]?.facts.id === file.facts.id;
      const head = ours ? seen : this.#log.read(false);
      const holder = head?.state.holders.find(({ facts }) => facts.id === file.facts.id);
      // What cannot be found after an entry that was overtaken was ended by it, unless its time was over.
      if (head === undefined || holder === undefined) return unseen && machineMs(this.#options.clock) < file.untilMs;
      const keepMs = keepsMinHold ? this.#query.minHoldLeftMs(holder) : 0;
      const next = this.#after(ours ? FREE : this.#query.liveState(head).state, holder, keepMs);
      const waiters = machineMs(this.#options.clock) < local.aloneUntilMs ? [] : this.#query.waiters(head);
      try {
        const handsOver = isEmpty(next) && admitted(next, factsOf(waiters)) > 0;
        let done = handsOver ? this.#grantTo(head, waiters) : undefined;
        if (isHead(done)) return true;
        if (done !== "unseen") done = this.#log.append(head, isEmpty(next) ? { free: true } : { state: () => next });
        unseen ||= done === "unseen";
        if (!isHead(done)) continue;
      } catch (error) {
        // Without space for another entry, the lease can still be ended: its time is over.
        if (!isFull(error) || keepMs > 0 || !this.#options.leaseFiles.expire(file, local)) throw error;
        return true;
      }
      if (this.#query.queue.mayExist()) this.settle();
      else if (isEmpty(next)) this.#idleHead = this.#log.seen;
      return true;
    }
    throw tooBusy(this.#log.name);
  }

  /**
   * The same, and keeps an outcome in that entry, if the lease is that of the outcome, and not over. The value is on the disk before, in a file that
   * only this entry makes count; nothing is answered before all of it would survive a power cut. `false`: it holds nothing.
   */
  conclude(file: LeaseFile, { claim }: LocalClaim, keepsMinHold: boolean, outcome: Outcome): boolean {
    let value: { readonly name: string; readonly incarnation: string } | undefined;
    let unseen = false;
    // Not where an entry may name it: the cleanup sees whether one does.
    const discard = (): void => value && discardValue(value.incarnation, value.name);
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = this.#log.read(false);
      const state = head && this.#query.liveState(head).state;
      const holder = state?.holders.find(({ facts }) => facts.id === file.facts.id);
      if (head === undefined || state === undefined || !isLeaseOf(outcome, holder)) {
        if (this.hasOutcomeOf(claim, outcome)) return true;
        // An entry that was overtaken may have kept it, and a later one may have removed it.
        if (unseen) throw unknownOutcome(claim.name);
        discard();
        return false;
      }
      let done: ReturnType<LockLog["append"]>;
      try {
        if (value?.incarnation !== head.incarnation) {
          const name = writeValue(this.#options.paths, head.incarnation, holder.fence, outcome.value);
          if (name === undefined) continue;
          value = { name, incarnation: head.incarnation };
        }
        const kept = newOutcome(this.#options.clock, claim, holder, outcome, value.name);
        const keepMs = keepsMinHold ? this.#query.minHoldLeftMs(holder) : 0;
        const next = { ...this.#after(state, holder, keepMs), outcome: kept };
        done = this.#log.append(head, { state: () => next, lasting: true });
      } catch (error) {
        // Then there was no space for the entry either.
        if (isFull(error)) discard();
        throw error;
      }
      unseen ||= done === "unseen";
      if (!isHead(done)) continue;
      // The entry names the value: whatever is wrong with the disk from here on, that must stay.
      this.#log.sync(done);
      this.#options.wakeAll(factsOf(this.#query.wanting()));
      this.settle();
      return true;
    }
    throw tooBusy(this.#log.name);
  }

  /** True if the lock has this outcome, which the claim left, for good: its release is asked for once more. */
  hasOutcomeOf({ id }: Claim, { fence }: Outcome): boolean {
    const head = this.#log.read(false);
    const kept = head && this.#query.liveState(head).state.outcome;
    if (head === undefined || kept?.claim !== id || BigInt(kept.fence) !== fence) return false;
    this.#log.sync(head);
    return true;
  }

  /** Removes the outcome of the lease that began with that fence. `false`: there is none. */
  forget(fence: bigint): boolean {
    let unseen = false;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = this.#log.read(false);
      const state = head && this.#query.liveState(head).state;
      if (head === undefined || state?.outcome === undefined || BigInt(state.outcome.fence) !== fence) return unseen;
      const done = this.#log.append(head, { state: () => ({ ...state, outcome: undefined }), lasting: true });
      unseen ||= done === "unseen";
      if (!isHead(done)) continue;
      this.#log.sync(done);
      // Those who wanted it and have not left the queue wait for the lock again.
      this.settle();
      return true;
    }
    throw tooBusy(this.#log.name);
  }

  /** Gives what is free to the next waiters. */
  settle(): void {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = this.#query.queue.mayExist() ? this.#log.read(false) : undefined;
      if (head === undefined) return;
      const { state } = this.#query.liveState(head);
      const waiters = this.#query.waiters(head);
      const wanted = factsOf(waiters);
      const count = admitted(state, wanted);
      // The first waiter must follow the holder now, and no longer a waiter that has left the queue.
      if (count === 0 && wanted[0] !== undefined) this.#options.wake(wanted[0]);
      if (count === 0 || !this.handOver(head, state, waiters, count)) return;
    }
  }

  /** Gives what is free to the waiters. `true`: the lock changed, so read it again. */
  handOver(head: Head, state: LockState, waiters: readonly Ticket[], count: number): boolean {
    if (isEmpty(state) && isHead(this.#grantTo(head, waiters))) return true;
    // The others take their places themselves: only a lone lease file can be linked by another process.
    for (const { facts } of waiters.slice(0, count)) this.#options.wake(facts);
    return false;
  }

  /** What is left of a state when that lease ends. `keepMs`: how long its place stays taken. */
  #after(state: LockState, holder: Holder, keepMs: number): LockState {
    const rest = without(state, holder.facts.id);
    return keepMs === 0 ? rest : { ...rest, kept: [...rest.kept, keep(this.#options, holder, keepMs, "minHold")] };
  }

  /** Links the ticket of the first waiter into the log: from that instant its claim holds the lock. */
  #grantTo(head: Head, [first, ...others]: readonly Ticket[]): ReturnType<LockLog["append"]> {
    if (first === undefined || !isPlain(first.facts)) return undefined;
    const done = this.#log.append(head, { facts: first.facts, source: first.path });
    if (!isHead(done)) return done;
    if (disk.exists(first.path)) this.#options.wake(first.facts, others.length > 0);
    // Gone: it has accepted, or it gave up while we linked. Then it no longer wanted the lock, and it is the next waiter's turn.
    else this.settle();
    return done;
  }
}

/** What the claim holds now may be another lease than that of the work. */
function isLeaseOf({ fence }: Outcome, holder: Holder | undefined): holder is Holder {
  return holder !== undefined && BigInt(holder.fence) === fence;
}
