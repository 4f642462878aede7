/** Reading a lock: who holds it, who waits, what is in the way of a claim, and how much of what is written still counts. */
import { join } from "node:path";
import type { Holding, Waiting } from "../../contract/backend.ts";
import { disk } from "./disk.ts";
import { fateOf, type FateOptions, keep, keptForMs } from "./liveness.ts";
import { sharesClock } from "./process-identity.ts";
import type { Head } from "./log.ts";
import { type FactsCache, Queue, type Ticket } from "./queue.ts";
import type { ForcedRecord, Holder, Kept, LockState } from "./records.ts";
import { taken } from "./admission.ts";

/** How many holders a waiter listens to: whoever waits for hundreds of readers polls. */
const LISTEN_MAX = 16;

/** The part of a state that still counts. */
export interface Survey {
  readonly state: LockState;
  /** By owner id: until the store lets go by itself. */
  readonly remainingMs: ReadonlyMap<string, number>;
  /** Somebody ended uncleanly, and its place is kept from now on: that has to be written down before it counts. */
  readonly unwritten: boolean;
}

/** What keeps a claim from the lock, and whom to listen to meanwhile. */
export interface Obstacle {
  readonly heldBy: readonly Holding[];
  /** How many wait ahead of it; absent when the claim is not queued. */
  readonly ahead: number | undefined;
  /** Until the first thing in the way ends by itself. */
  readonly clearsInMs: number;
  /** The backends whose end would bring the claim forward: that of the waiter just ahead, or those of the holders. */
  readonly instances: readonly string[];
}

/** What people see of a lock; `forced` only where the newest transition was by force. */
export interface View {
  readonly held: Holding[];
  readonly pending: Waiting[];
  readonly forced: readonly ForcedRecord[];
}

export class Sight {
  readonly #name: string;
  readonly #around: FateOptions;
  readonly queue: Queue;

  constructor(name: string, directory: string, around: FateOptions, facts: FactsCache) {
    this.#name = name;
    this.#around = around;
    this.queue = new Queue(directory, around, facts);
  }

  survey(head: Head): Survey {
    const { state } = head;
    const remainingMs = new Map<string, number>();
    if (state.holders.length === 0 && state.kept.length === 0) return { state, remainingMs, unwritten: false };
    const holders: Holder[] = [];
    const kept: Kept[] = state.kept.filter((place) => keptForMs(this.#around, place) > 0);
    const before = kept.length;
    for (const holder of state.holders) {
      const { owner } = holder;
      const fate = fateOf(this.#around, owner, head.plain ? `${head.directory}/${head.seq}` : this.#pathOf(owner.id));
      if (fate.alive) {
        holders.push(holder);
        remainingMs.set(owner.id, fate.remainingMs);
        continue;
      }
      const keepMs = Math.max(fate.keepMs, this.minHoldLeftMs(holder));
      if (keepMs > 0) kept.push(keep(this.#around, holder, keepMs));
    }
    for (const place of kept) remainingMs.set(place.owner.id, keptForMs(this.#around, place));
    return { state: { ...state, holders, kept, forced: [] }, remainingMs, unwritten: kept.length > before };
  }

  /** How long a holder's place must stay taken from now on, whoever ends it. */
  minHoldLeftMs({ owner, sinceMs }: Holder): number {
    if (owner.minHoldMs === 0 || sinceMs === undefined || !sharesClock(owner.life)) return 0;
    return Math.max(0, sinceMs + owner.minHoldMs - this.#around.moment.machineMs());
  }

  /** Who waits, in order. One that was handed the lock and has not removed its ticket yet waits no longer. */
  line(head: Head): Ticket[] {
    if (!this.queue.mayExist()) return [];
    const { holders } = head.state;
    return this.queue.list().filter(({ facts }) => !holders.some(({ owner }) => owner.id === facts.id));
  }

  holdings(head: Head, { state, remainingMs }: Survey): Holding[] {
    const { moment } = this.#around;
    // The newest entry changed the directory: where nothing else is written, that is when the holder got the lock.
    const changedMs = head.plain ? disk.times(head.directory)?.mtimeMs : undefined;
    return taken(state).map(({ owner, fence, sinceMs, sinceWallMs }) => {
      const sinceWall = sinceWallMs ?? changedMs ?? moment.wallMs();
      const monotonic = sinceMs !== undefined && sharesClock(owner.life);
      return {
        name: this.#name,
        mode: owner.mode,
        limit: owner.limit,
        holder: owner.holder,
        fence: BigInt(fence),
        heldMs: Math.max(0, monotonic ? moment.machineMs() - sinceMs : moment.wallMs() - sinceWall),
        remainingMs: Math.max(0, remainingMs.get(owner.id) ?? 0),
        meta: owner.meta,
      };
    });
  }

  waitings(line: readonly Ticket[]): Waiting[] {
    const nowMs = this.#around.moment.machineMs();
    return line.map(({ facts, arrivalUs }, at) => ({
      name: this.#name,
      mode: facts.mode,
      limit: facts.limit,
      holder: facts.holder,
      waitingMs: Math.max(0, nowMs - arrivalUs / 1000),
      position: at + 1,
      meta: facts.meta,
    }));
  }

  view(head: Head): View {
    const held = this.holdings(head, this.survey(head));
    return { held, pending: this.waitings(this.line(head)), forced: head.state.forced };
  }

  obstacle(head: Head, survey: Survey, line: readonly Ticket[], ahead: number | undefined): Obstacle {
    const before = ahead === undefined || ahead === 0 ? undefined : line[ahead - 1];
    const { holders } = survey.state;
    return {
      heldBy: this.holdings(head, survey),
      ahead,
      clearsInMs: before?.remainingMs ?? Math.min(Infinity, ...survey.remainingMs.values()),
      instances:
        before === undefined
          ? [...new Set(holders.slice(0, LISTEN_MAX).map(({ owner }) => owner.instance))]
          : [before.facts.instance],
    };
  }

  #pathOf(ownerId: string): string {
    return join(this.#around.place.owners, ownerId);
  }
}
