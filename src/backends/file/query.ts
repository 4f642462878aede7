/** Reading a lock: its holders and waiters, what blocks a claim, and which of the written leases are still alive. */
import { join } from "node:path";
import type { Holding, KeptOutcome, Waiting } from "../../contract/backend.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import { disk } from "./disk.ts";
import { tooBusy } from "./errors.ts";
import { livenessOf, type LivenessOptions, keep, keptForMs } from "./liveness.ts";
import { sharesClock } from "./process-identity.ts";
import type { Head, LockLog } from "./log.ts";
import { type FactsCache, Queue, type Ticket } from "./queue.ts";
import type { ForcedRecord, Holder, Kept, LockState } from "./records.ts";
import { inTheWay, taken } from "./admission.ts";
import { readNote } from "./notes.ts";
import { carried, liveOutcome, missingValue, readOutcome } from "./outcomes.ts";

/** How many holders a waiter follows. One that waits for hundreds of readers polls. */
const FOLLOW_MAX = 16;
const TRIES_MAX = 10_000;
const NONE: ReadonlySet<string> = new Set();

/** The part of a state that is still alive. */
export interface LiveState {
  readonly state: LockState;
  /** By lease file id: until the store lets go by itself. */
  readonly remainingMs: ReadonlyMap<string, number>;
  /** The lease files whose leases are over: only a lockDelay keeps the lock. */
  readonly delayed: ReadonlySet<string>;
  /** A holder ended uncleanly, and its place is kept from now on. That must be written down before it counts. */
  readonly unwritten: boolean;
}

/** What blocks a claim, and which processes to follow meanwhile. */
export interface BlockedBy {
  readonly heldBy: readonly Holding[];
  /** What a claim that wants it gets instead of the lock. */
  readonly outcome?: KeptOutcome | undefined;
  /** How many wait ahead of it; absent when the claim is not queued. */
  readonly ahead: number | undefined;
  /** Until the first of what blocks it ends by itself. */
  readonly clearsInMs: number;
  /** The backends whose end would move the claim forward: that of the waiter just ahead, or those of the holders. */
  readonly instances: readonly string[];
}

/** What a query shows of a lock. `forced`: only where the newest transition was by force. */
export interface LockSnapshot {
  readonly held: Holding[];
  readonly pending: Waiting[];
  readonly forced: readonly ForcedRecord[];
  readonly outcome: KeptOutcome | undefined;
}

function isIn(holders: readonly Holder[], fileId: string): boolean {
  return holders.some(({ facts }) => facts.id === fileId);
}

export class LockQuery {
  readonly #name: string;
  readonly #options: LivenessOptions;
  readonly queue: Queue;

  constructor(name: string, directory: string, options: LivenessOptions, facts: FactsCache) {
    this.#name = name;
    this.#options = options;
    this.queue = new Queue(directory, options, facts);
  }

  liveState(head: Head): LiveState {
    const { state } = head;
    const remainingMs = new Map<string, number>();
    let delayed: ReadonlySet<string> = NONE;
    const outcome = carried(this.#options.clock, state.outcome);
    if (state.holders.length === 0 && state.kept.length === 0) {
      const same = outcome === state.outcome && state.forced.length === 0;
      return { state: same ? state : { ...state, outcome, forced: [] }, remainingMs, delayed, unwritten: false };
    }
    const holders: Holder[] = [];
    const kept: Kept[] = state.kept.filter((place) => keptForMs(this.#options, place) > 0);
    const before = kept.length;
    for (const holder of state.holders) {
      const { facts } = holder;
      const liveness = livenessOf(
        this.#options,
        facts,
        head.plain ? `${head.directory}/${head.seq}` : this.#pathOf(facts.id),
      );
      if (liveness.alive) {
        holders.push(holder);
        remainingMs.set(facts.id, liveness.remainingMs);
        if (liveness.delayed) delayed = new Set([...delayed, facts.id]);
        continue;
      }
      const minHoldMs = this.minHoldLeftMs(holder);
      const keepMs = Math.max(liveness.keepMs, minHoldMs);
      const why = minHoldMs > liveness.keepMs ? "minHold" : "lockDelay";
      if (keepMs > 0) kept.push(keep(this.#options, holder, keepMs, why));
    }
    for (const place of kept) remainingMs.set(place.facts.id, keptForMs(this.#options, place));
    const live = { ...state, holders, kept, forced: [], outcome };
    return { state: live, remainingMs, delayed, unwritten: kept.length > before };
  }

  /** How long a holder's place must stay taken from now on, however its lease ends. */
  minHoldLeftMs({ facts, sinceMs }: Holder): number {
    if (facts.minHoldMs === 0 || sinceMs === undefined || !sharesClock(facts.process)) return 0;
    return Math.max(0, sinceMs + facts.minHoldMs - machineMs(this.#options.clock));
  }

  /**
   * The waiters, in order. One that was handed the lock and has not removed its ticket yet does not wait any more, nor does one
   * that wants an outcome where there is one.
   */
  waiters(head: Head, removesDead = true): Ticket[] {
    if (!this.queue.mayExist()) return [];
    const { holders } = head.state;
    const isDone = liveOutcome(this.#options.clock, head.state.outcome) !== undefined;
    return this.queue
      .list(removesDead)
      .filter(({ facts: { id, wantsOutcome } }) => !(isDone && wantsOutcome === true) && !isIn(holders, id));
  }

  /** True if a claim waits for what this lease holds. While there is no queue, this costs a microsecond. */
  isWanted(head: Head, fileId: string): boolean {
    return this.waiters(head).length > 0 && this.isInTheWay(head, fileId);
  }

  /** True if it is this lease that a claim waits for, where one does. */
  isInTheWay(head: Head, fileId: string): boolean {
    return isIn(inTheWay(this.liveState(head).state), fileId);
  }

  /** Those who want an outcome, whether there is one or not. */
  wanting(): Ticket[] {
    return this.queue.mayExist() ? this.queue.list().filter(({ facts }) => facts.wantsOutcome === true) : [];
  }

  /** The outcome of a lock, with its value. `undefined`: the lock has changed, or has none. */
  outcomeOf(log: LockLog, head: Head): KeptOutcome | undefined {
    const outcome = liveOutcome(this.#options.clock, head.state.outcome);
    const found = outcome && readOutcome(this.#options.clock, head.incarnation, outcome);
    if (outcome !== undefined && found === undefined && log.read(false) === head)
      throw missingValue(head.incarnation, outcome);
    return found;
  }

  /** `exact`: with what their processes say of themselves. */
  holdings(head: Head, { state, remainingMs, delayed }: LiveState, exact = false): Holding[] {
    const { clock } = this.#options;
    // The newest entry changed the directory: if nothing else is written, that is when the holder got the lock.
    const changedMs = head.plain ? disk.times(head.directory)?.mtimeMs : undefined;
    return taken(state).map((place) => {
      const { facts, fence, sinceMs, sinceWallMs } = place;
      const over = delayed.has(facts.id) ? "lockDelay" : undefined;
      const remainder = "why" in place ? place.why : over;
      const sinceWall = sinceWallMs ?? changedMs ?? clock.wall();
      const claim = place.claim ?? facts.claim;
      const note = exact ? readNote(head.incarnation, facts.id, claim, fence) : undefined;
      const monotonic = sinceMs !== undefined && sharesClock(facts.process);
      return {
        name: this.#name,
        mode: facts.mode,
        limit: facts.limit,
        holder: facts.holder,
        fence: BigInt(fence),
        heldMs: Math.max(0, monotonic ? machineMs(clock) - sinceMs : clock.wall() - sinceWall),
        remainingMs: Math.max(0, remainingMs.get(facts.id) ?? 0),
        meta: note?.meta ?? facts.meta,
        id: claim ?? note?.claim,
        ...(remainder && { remainder }),
        ...(facts.lingerMs && { lingerMs: facts.lingerMs }),
        ...(note?.local && { local: note.local }),
      };
    });
  }

  waitings({ incarnation }: Head, waiters: readonly Ticket[]): Waiting[] {
    const nowMs = machineMs(this.#options.clock);
    return waiters.map(({ facts, claim, arrivalUs }, at) => {
      const note = readNote(incarnation, facts.id, claim);
      return {
        name: this.#name,
        mode: facts.mode,
        limit: facts.limit,
        holder: facts.holder,
        waitingMs: Math.max(0, nowMs - arrivalUs / 1000),
        position: at + 1,
        meta: note?.meta ?? facts.meta,
        id: claim,
        order: BigInt(arrivalUs),
        ...(note?.local && { local: note.local }),
      };
    });
  }

  /** `exact`: with the outcome, and nothing is removed on the way. Without, tickets of the dead are. */
  snapshot(log: LockLog, exact: boolean): LockSnapshot {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const head = log.read(false);
      if (head === undefined) return { held: [], pending: [], forced: [], outcome: undefined };
      const held = this.holdings(head, this.liveState(head), true);
      const pending = this.waitings(head, this.waiters(head, !exact));
      const outcome = exact ? this.outcomeOf(log, head) : undefined;
      // An epoch that was left meanwhile seems to have no holder.
      if (disk.exists(head.directory) && (!exact || log.read(false) === head))
        return { held, pending, forced: head.state.forced, outcome };
    }
    throw tooBusy(log.name);
  }

  blockedBy(head: Head, live: LiveState, waiters: readonly Ticket[], ahead: number | undefined): BlockedBy {
    const before = ahead === undefined || ahead === 0 ? undefined : waiters[ahead - 1];
    const { holders } = live.state;
    return {
      heldBy: this.holdings(head, live),
      ahead,
      clearsInMs: before?.remainingMs ?? Math.min(Infinity, ...live.remainingMs.values()),
      instances:
        before === undefined
          ? [...new Set(holders.slice(0, FOLLOW_MAX).map(({ facts }) => facts.instance))]
          : [before.facts.instance],
    };
  }

  #pathOf(fileId: string): string {
    return join(this.#options.paths.leaseFiles, fileId);
  }
}
