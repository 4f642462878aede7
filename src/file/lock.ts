/**
 * One lock and what can be done to it: take, release, break, hand over. Each is a loop of "look at the newest entry,
 * decide, append the next one"; an append that fails means that somebody else was faster, so look again.
 */
import type { Released } from "../backend.ts";
import { ABANDONED_MAX, holderIn, type Mine, withHolder } from "./claims.ts";
import { disk } from "./disk.ts";
import { type FateOptions, keep } from "./fate.ts";
import type { ForcedRecords } from "./forced.ts";
import { type Head, isHead, LockLog, type LogOptions } from "./log.ts";
import type { Owner } from "./owner-file.ts";
import type { Owners } from "./owners.ts";
import { accept, detach } from "./accept.ts";
import { type FactsCache, factsOf, limitFlaw, type Ticket } from "./queue.ts";
import { FREE, type Holder, type LockState, type OwnerFacts } from "./records.ts";
import { admitted, contains, isFree, isPlain, taken, without } from "./rules.ts";
import { type Obstacle, Sight, type View } from "./sight.ts";
import { isFull, tooBusy, tooShort } from "./trouble.ts";

/** Every failed try is somebody else's success, so that this many in a row mean that something is wrong. */
const TRIES_MAX = 10_000;
/** A lock held shorter than this is freed first, and then given to whoever came meanwhile, so that mostly there is one look. */
const ALONE_MS = 1;

/** What every lock of a backend shares. */
export interface LockOptions extends FateOptions, LogOptions {
  readonly owners: Owners;
  readonly facts: FactsCache;
  readonly forced: ForcedRecords;
  /** Tells whoever has that owner file to look at its claim. */
  hint(owner: OwnerFacts): void;
}

export class Lock {
  readonly name: string;
  readonly log: LockLog;
  readonly #options: LockOptions;
  readonly #sight: Sight;
  /** Free since our own release, after which nobody waited. Whoever came later took it, or found it taken: it is not the head then. */
  #quiet: Head | undefined;

  constructor(name: string, options: LockOptions) {
    this.name = name;
    this.#options = options;
    this.log = new LockLog(name, options);
    this.#sight = new Sight(name, this.log.directory, options, options.facts);
  }

  /** Takes the lock for the claim if it may hold it now; else queues the claim, if it queues, and says what is in the way. */
  take(mine: Mine): Obstacle | undefined {
    const { seen } = this.log;
    mine.abandoned = 0;
    // The shortest way: what was free when last seen is free if the append succeeds, and nobody waits.
    if (seen !== undefined && mine.owner === undefined && isFree(seen.state) && !this.#options.owners.shareClaims) {
      if ((seen === this.#quiet || !this.#sight.queue.mayExist()) && this.#grant(mine, seen, FREE)) {
        mine.aloneUntilMs = this.#options.moment.machineMs() + ALONE_MS;
        return undefined;
      }
    }
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      if (mine.abandoned > ABANDONED_MAX) throw tooShort(mine.claim);
      const head = this.log.read(true)!;
      if (this.#options.owners.holds(mine, head)) {
        if (this.#accept(mine, head)) return undefined;
        this.#abandon(mine);
        continue;
      }
      const survey = this.#sight.survey(head);
      if (survey.unwritten) {
        this.log.append(head, { state: () => survey.state });
        continue;
      }
      const line = this.#sight.line(head);
      const at = this.#options.owners.placeIn(line, mine);
      const flaw = limitFlaw(mine, survey.state, line);
      if (flaw !== undefined) {
        this.#abandon(mine);
        throw flaw;
      }
      const wishes = factsOf(line);
      const count = admitted(survey.state, at < 0 ? [...wishes, mine.claim] : wishes);
      if ((at < 0 ? line.length : at) < count) {
        if (this.#grant(mine, head, survey.state)) return undefined;
        continue;
      }
      if (count > 0 && this.#handOver(head, survey.state, line, count)) continue;
      if (!mine.claim.queues) {
        this.#abandon(mine);
        return this.#sight.obstacle(head, survey, line, undefined);
      }
      if (at < 0) {
        // After joining, look once more: the holder may have released before it could see the ticket.
        if (this.#join(mine) && this.log.read(true) === head)
          return this.#sight.obstacle(head, survey, line, line.length);
      } else if (this.#options.owners.renew(mine.owner!)) return this.#sight.obstacle(head, survey, line, at);
      else this.#abandon(mine);
    }
    throw tooBusy(this.name);
  }

  /** Ends the claim, and says what it was. */
  release(mine: Mine): Released {
    const { owners, moment } = this.#options;
    const { owner } = mine;
    if (owner === undefined) return "absent";
    const queued = mine.ticket !== undefined && this.#sight.queue.leave(mine.ticket);
    let ended = this.#drop(owner, mine);
    const heir = owners.heirOf(mine);
    if (heir !== undefined && this.#drop(heir, mine)) ended = true;
    mine.ticket = mine.held = mine.owner = undefined;
    if (queued && !ended) this.settle();
    if (heir !== undefined) owners.giveBack(heir, mine);
    // What was resigned, or expired while it held, must never count again.
    if (moment.machineMs() < owner.untilMs) owners.giveBack(owner, mine);
    else owners.discard(owner, mine);
    if (ended) return "held";
    return queued ? "queued" : "absent";
  }

  /** Releases one claim and takes the lock for the next in one append. `false`: it takes two. */
  swap(held: Mine, next: Mine): boolean {
    const head = this.log.seen;
    if (head?.plain !== true || holderIn(head.state, held) === undefined || next.owner !== undefined) return false;
    if (this.#sight.queue.mayExist() || !isPlain(next.claim) || !this.#grant(next, head, FREE)) return false;
    this.#options.owners.giveBack(held.owner!, held);
    held.held = held.owner = undefined;
    return true;
  }

  /** True when the claim holds the lock; it may have been handed it a moment ago. */
  look(mine: Mine): boolean {
    const head = this.log.read(false);
    if (head === undefined || !this.#options.owners.holds(mine, head)) return false;
    return mine.held !== undefined || this.#accept(mine, head) || this.#abandon(mine);
  }

  /** The lease of the owner file with this id, whoever made it. */
  find(ownerId: string): Holder | undefined {
    return this.log.read(false)?.state.holders.find(({ owner }) => owner.id === ownerId);
  }

  /** Ends the lease whose run contains the fence. `false`: there is none. */
  break(fence: bigint, by: string, reason: string): boolean {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = this.log.read(false);
      if (head === undefined) return false;
      const { state } = this.#sight.survey(head);
      const target = taken(state).find((place) => contains(place, fence));
      if (target === undefined) return false;
      const record = this.#options.forced.record(this.name, target.fence, by, reason);
      const next: LockState = { ...without(state, target.owner.id), forced: [record] };
      if (!isHead(this.log.append(head, { state: () => next }))) continue;
      this.#options.forced.keep([record]);
      this.#options.hint(target.owner);
      this.settle();
      return true;
    }
    throw tooBusy(this.name);
  }

  /** Lets whoever is next have what is free. */
  settle(): void {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = this.#sight.queue.mayExist() ? this.log.read(false) : undefined;
      if (head === undefined) return;
      const { state } = this.#sight.survey(head);
      const line = this.#sight.line(head);
      const wishes = factsOf(line);
      const count = admitted(state, wishes);
      // Whoever is at the head now has to listen to the holder, and no longer to one that has left the queue.
      if (count === 0 && wishes[0] !== undefined) this.#options.hint(wishes[0]);
      if (count === 0 || !this.#handOver(head, state, line, count)) return;
    }
  }

  view(): View {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = this.log.read(false);
      if (head === undefined) return { held: [], pending: [], forced: [] };
      const view = this.#sight.view(head);
      // An epoch that was left meanwhile seems to have no holder.
      if (disk.exists(head.directory)) return view;
    }
    throw tooBusy(this.name);
  }

  /** Removes the lock from the disk if nobody has used it since that wall-clock time. */
  retireIfIdle(sinceWallMs: number): void {
    const head = this.log.read(false);
    if (head === undefined || this.#sight.queue.mayExist()) return;
    const { state } = this.#sight.survey(head);
    const changedMs = disk.times(head.directory)?.mtimeMs ?? Infinity;
    if (isFree(state) && changedMs < sinceWallMs) this.log.bury(head);
  }

  /** Appends the claim as a holder. `false`: somebody was faster. */
  #grant(mine: Mine, head: Head, state: LockState): boolean {
    const { owners, moment } = this.#options;
    if (mine.owner === undefined) mine.owner = owners.take(mine);
    else if (!owners.renew(mine.owner)) return this.#abandon(mine);
    const { owner } = mine;
    mine.fromMs = owner.fromMs;
    const done = this.log.append(head, withHolder(state, owner, moment));
    if (!isHead(done)) {
      if (done === "too many" || !disk.exists(owner.path)) this.#abandon(mine);
      else if (done !== "unseen" && mine.ticket === undefined && !owners.shareClaims) {
        owners.giveBack(owner, mine);
        mine.owner = undefined;
      }
      return false;
    }
    this.#leave(mine);
    if (owners.isProvisional(mine)) return detach(this.log, this.#options, mine) || this.#abandon(mine);
    mine.held = holderIn(done.state, mine);
    // Kept waiting so long that the lease is over before it began.
    return moment.machineMs() < owner.untilMs || this.#abandon(mine);
  }

  /** Somebody handed us the lock: ours from here on, if our time is not over. */
  #accept(mine: Mine, head: Head): boolean {
    const { owner, claim } = mine;
    if (owner === undefined || !this.#options.owners.renew(owner, claim.ttlMs)) return false;
    // First, so that it cannot be handed the lock once more by the same ticket.
    this.#leave(mine);
    return accept(this.log, this.#options, mine, head);
  }

  /** The claim's owner file is of no use any more: whatever it holds ends, and its ticket goes. */
  #abandon(mine: Mine): false {
    const { owner } = mine;
    if (owner === undefined) return false;
    mine.abandoned++;
    this.#leave(mine);
    if (this.#options.owners.mayEnd(owner, this.log.seen)) this.#drop(owner, mine);
    mine.owner = mine.held = undefined;
    this.#options.owners.discard(owner, mine);
    return false;
  }

  /** Ends what the owner file holds, and hands over. `false`: it holds nothing. */
  #drop(owner: Owner, mine: Mine): boolean {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const { seen } = this.log;
      const ours = seen?.plain === true && seen.state.holders[0]?.owner.id === owner.facts.id;
      const head = ours ? seen : this.log.read(false);
      const holder = head?.state.holders.find(({ owner: { id } }) => id === owner.facts.id);
      if (head === undefined || holder === undefined) return false;
      const state = ours ? FREE : without(this.#sight.survey(head).state, owner.facts.id);
      const keepMs = this.#sight.minHoldLeftMs(holder);
      const next = keepMs === 0 ? state : { ...state, kept: [...state.kept, keep(this.#options, holder, keepMs)] };
      const line = this.#options.moment.machineMs() < mine.aloneUntilMs ? [] : this.#sight.line(head);
      try {
        if (admitted(next, factsOf(line)) > 0 && isFree(next) && this.#pass(head, line[0])) return true;
        if (!isHead(this.log.append(head, isFree(next) ? { free: true } : { state: () => next }))) continue;
      } catch (error) {
        // Without space for another entry, the lease can still be ended: its time is over.
        if (!isFull(error) || keepMs > 0 || !this.#options.owners.resign(owner, mine)) throw error;
        return true;
      }
      if (this.#sight.queue.mayExist()) this.settle();
      else if (isFree(next)) this.#quiet = this.log.seen;
      return true;
    }
    throw tooBusy(this.name);
  }

  /** Gives what is free to those who wait. `true`: the lock changed, so look again. */
  #handOver(head: Head, state: LockState, line: readonly Ticket[], count: number): boolean {
    if (isFree(state) && this.#pass(head, line[0])) return true;
    // The others take their places themselves: only a lone owner file can be linked for somebody else.
    for (const { facts } of line.slice(0, count)) this.#options.hint(facts);
    return false;
  }

  /** Links the ticket of the first waiter into the log: from that instant it holds the lock, wherever its process is. */
  #pass(head: Head, first: Ticket | undefined): boolean {
    if (first === undefined || !isPlain(first.facts)) return false;
    if (!isHead(this.log.append(head, { owner: first.facts, source: first.path }))) return false;
    this.#options.hint(first.facts);
    return true;
  }

  #join(mine: Mine): boolean {
    const { owners } = this.#options;
    // A ticket that lapsed is made again, by an owner file whose time is not over. A ticket's file is never shared.
    if (!owners.mayWait(mine)) this.#abandon(mine);
    mine.owner ??= owners.toWait(mine.claim);
    mine.arrivalUs ??= Math.floor(this.#options.moment.machineMs() * 1000);
    if (this.#sight.queue.join(mine.owner, mine.arrivalUs) !== "joined") return this.#abandon(mine);
    mine.ticket = this.#sight.queue.ticketOf(mine.owner, mine.arrivalUs);
    return true;
  }

  #leave(mine: Mine): void {
    if (mine.ticket !== undefined) this.#sight.queue.leave(mine.ticket);
    mine.ticket = undefined;
  }
}
