/**
 * Who waits for whom, by what a store shows of some locks, and who of them cannot go on by itself. Nothing here asks, waits or decides.
 *
 * A waiter is a claim in the store's queue together with the requests of its process behind it, or those who wait in their process
 * behind a lease of it. Those behind are served after the one ahead, so that what any of them holds is held until that one is served:
 * it does not matter whose it is. A waiter is stuck when it waits for one that is: for the holder of the lock, where that is held by one
 * who waits; where a limit lets several hold, only when all of them are; and for those ahead in the queue that do not fit beside it.
 */
import type { HeldLock, Holding, Meta, Mode, Snapshot, Waiting } from "../contract/backend.ts";

export type LockStates = ReadonlyMap<string, Pick<Snapshot, "held" | "pending">>;

export interface Waiter {
  /** The same at every look. */
  readonly key: string;
  readonly lock: string;
  readonly mode: Mode;
  readonly limit: number;
  readonly holder: string;
  readonly meta: Meta;
  readonly holds: readonly HeldLock[];
  /** Its place in the store's queue. Absent: it waits behind this lease of its process. */
  readonly entry: Waiting | undefined;
  readonly behind: Holding | undefined;
}

/** Those of one lock. */
interface View {
  readonly held: readonly Holding[];
  readonly waiters: readonly Waiter[];
}

/** A snapshot of many locks, by their names. */
export function byLock({ held, pending }: Pick<Snapshot, "held" | "pending">): LockStates {
  const states = new Map<string, { readonly held: Holding[]; readonly pending: Waiting[] }>();
  const of = (name: string): { readonly held: Holding[]; readonly pending: Waiting[] } => {
    const known = states.get(name) ?? { held: [], pending: [] };
    states.set(name, known);
    return known;
  };
  for (const one of held) of(one.name).held.push(one);
  for (const one of pending) of(one.name).pending.push(one);
  return states;
}

/** Those who wait for a lock: behind leases of their processes, and in the store's order. One without an id cannot be known again. */
export function waitersOf({ held, pending }: Pick<Snapshot, "held" | "pending">): readonly Waiter[] {
  const behind = held.flatMap((holding): Waiter[] => {
    const { local, id, fence, name, ...facts } = holding;
    // What was written while its claim waited (no users) is about its own holder, who waits no longer.
    if (local === undefined || local.users === 0 || local.holds.length === 0) return [];
    const key = `behind ${id ?? fence} ${name}`;
    return [{ ...facts, key, lock: name, holds: local.holds, entry: undefined, behind: holding }];
  });
  const queued = pending
    .toSorted((a, b) => a.position - b.position)
    .flatMap((entry): Waiter[] => {
      const { id, name: lock, local, ...facts } = entry;
      if (id === undefined) return [];
      return [{ ...facts, key: `${id} ${lock}`, lock, holds: local?.holds ?? [], entry, behind: undefined }];
    });
  return [...behind, ...queued];
}

/** One thing that must be there at both looks: a claim that waits, or one that waits and a lease that it holds. */
function mark(key: string, held?: HeldLock): string {
  return held === undefined ? key : `${key}\n${held.fence} ${held.name}`;
}

export function marksOf(knot: readonly Waiter[]): readonly string[] {
  return knot.flatMap(({ key, holds }) => [mark(key), ...holds.map((held) => mark(key, held))]);
}

export class DeadlockGraph {
  readonly #views: readonly View[];
  readonly #viewOf = new Map<Waiter, View>();
  /** Those who hold a lease, and wait. */
  readonly #holders = new Map<Holding, Waiter[]>();
  /** What they hold, as far as the store says the same. */
  readonly #holds = new Map<Waiter, HeldLock[]>();

  /** `seen`: of the look before; what was not there then does not count. */
  constructor(states: LockStates, seen?: ReadonlySet<string>) {
    const views = new Map<string, View>();
    for (const [name, state] of states) {
      const known = waitersOf(state).filter(({ key }) => seen === undefined || seen.has(mark(key)));
      const waiters = known.map((waiter) => {
        const holds = waiter.holds.filter((held) => seen === undefined || seen.has(mark(waiter.key, held)));
        return holds.length === waiter.holds.length ? waiter : { ...waiter, holds };
      });
      const view = { held: state.held, waiters };
      views.set(name, view);
      for (const waiter of waiters) this.#viewOf.set(waiter, view);
    }
    this.#views = [...views.values()];
    for (const { waiters } of this.#views) {
      for (const waiter of waiters) {
        for (const held of waiter.holds) {
          const holding = leaseOf(views.get(held.name)?.held ?? [], waiter.holder, held.fence);
          if (holding === undefined) continue;
          add(this.#holders, holding, waiter);
          add(this.#holds, waiter, held);
        }
      }
    }
  }

  /** Those who wait for each other, each group by itself. Who only waits for such a group is not in it. */
  knots(): readonly (readonly Waiter[])[] {
    const found: (readonly Waiter[])[] = [];
    const work = [this.#stuckAmong(this.#viewOf.keys())];
    for (let among = work.pop(); among !== undefined; among = work.pop()) {
      for (const part of components(among, (waiter) => this.successors(waiter, among!))) {
        if (part.length === 1 && !this.successors(part[0]!, among).includes(part[0]!)) continue;
        const stuck = this.#stuckAmong(part);
        // What is stuck only because of others is none by itself.
        if (stuck.size === part.length) found.push(part);
        else if (stuck.size > 0) work.push(stuck);
      }
    }
    return found;
  }

  /** Whom it waits for, of these. */
  successors(waiter: Waiter, among: ReadonlySet<Waiter>): readonly Waiter[] {
    const { held, waiters } = this.#viewOf.get(waiter)!;
    const found = new Set<Waiter>();
    for (const holding of inTheWay(waiter, held)) {
      for (const holder of this.#holders.get(holding) ?? []) if (among.has(holder)) found.add(holder);
    }
    if (waiter.entry === undefined) return [...found];
    // No further than to the first that keeps off all before it.
    for (const ahead of waiters.slice(0, waiters.indexOf(waiter)).toReversed()) {
      if (ahead.entry === undefined || !among.has(ahead)) continue;
      if (waiter.mode === "exclusive" || ahead.mode === "exclusive") found.add(ahead);
      if (ahead.mode === "exclusive") break;
    }
    return [...found];
  }

  /** The locks of a knot that others of it wait for, by who holds them. */
  relevant(waiter: Waiter, knot: readonly Waiter[]): readonly HeldLock[] {
    const wanted = new Set(knot.map(({ lock }) => lock));
    return (this.#holds.get(waiter) ?? []).filter(({ name }) => wanted.has(name));
  }

  /** The largest set in which each is stuck because of others of it. */
  #stuckAmong(candidates: Iterable<Waiter>): Set<Waiter> {
    const stuck = new Set(candidates);
    const isStuck = (holding: Holding): boolean =>
      this.#holders.get(holding)?.some((holder) => stuck.has(holder)) === true;
    for (let size = -1; size !== stuck.size;) {
      size = stuck.size;
      for (const { held, waiters } of this.#views) {
        if (!waiters.some((waiter) => stuck.has(waiter))) continue;
        const stuckHeld = new Set(held.filter(isStuck));
        let [shared, exclusive] = [false, false];
        for (const waiter of waiters) {
          if (!stuck.has(waiter)) continue;
          const isBehind = waiter.entry !== undefined && (exclusive || (shared && waiter.mode === "exclusive"));
          if (!isBehind && !isHeldUp(waiter, held, stuckHeld)) stuck.delete(waiter);
          else if (waiter.entry !== undefined) {
            if (waiter.mode === "shared") shared = true;
            else exclusive = true;
          }
        }
      }
    }
    return stuck;
  }
}

function add<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

/** The lease of that process whose fences contain this one: a process passes a lease on with the fences after its first. */
function leaseOf(held: readonly Holding[], holder: string, fence: bigint): Holding | undefined {
  let found: Holding | undefined;
  for (const one of held) {
    if (one.fence > fence || one.remainder !== undefined) continue;
    const isCloser = found === undefined || one.fence > found.fence;
    // Those who share a lock may have one fence in common.
    if (isCloser || (one.fence === found!.fence && found!.holder !== holder)) found = one;
  }
  return found?.holder === holder ? found : undefined;
}

function inTheWay({ mode, limit, behind }: Waiter, held: readonly Holding[]): readonly Holding[] {
  if (behind !== undefined && limit === 1) return [behind];
  return mode === "shared" ? held.filter((one) => one.mode === "exclusive") : held;
}

/** By holders who are stuck. Where several may hold, one of them that is not is enough to go on. */
function isHeldUp(waiter: Waiter, held: readonly Holding[], stuck: ReadonlySet<Holding>): boolean {
  const all = inTheWay(waiter, held);
  if (waiter.limit === 1) return all.some((one) => stuck.has(one));
  const places = all.filter(({ mode }) => mode === "exclusive");
  if (all.some((one) => one.mode === "shared" && stuck.has(one))) return true;
  return places.length >= waiter.limit && places.every((one) => stuck.has(one));
}

/** The parts in which each can be reached from each (Tarjan), without recursion: a chain may be long. */
function components(
  among: ReadonlySet<Waiter>,
  successors: (waiter: Waiter) => readonly Waiter[],
): readonly (readonly Waiter[])[] {
  const found: (readonly Waiter[])[] = [];
  const [index, low] = [new Map<Waiter, number>(), new Map<Waiter, number>()];
  const [open, isOpen] = [[] as Waiter[], new Set<Waiter>()];
  const path: { readonly waiter: Waiter; readonly next: Iterator<Waiter> }[] = [];
  const enter = (waiter: Waiter): void => {
    index.set(waiter, index.size);
    low.set(waiter, index.get(waiter)!);
    open.push(waiter);
    isOpen.add(waiter);
    path.push({ waiter, next: successors(waiter).values() });
  };
  const lower = (waiter: Waiter, to: number): void => void low.set(waiter, Math.min(low.get(waiter)!, to));
  for (const start of among) {
    if (!index.has(start)) enter(start);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const { done, value } = top.next.next();
      if (done !== true) {
        if (!index.has(value)) enter(value);
        else if (isOpen.has(value)) lower(top.waiter, index.get(value)!);
        continue;
      }
      path.pop();
      const { waiter } = top;
      const outer = path.at(-1);
      if (outer !== undefined) lower(outer.waiter, low.get(waiter)!);
      if (low.get(waiter) !== index.get(waiter)) continue;
      const part = open.splice(open.indexOf(waiter));
      for (const one of part) isOpen.delete(one);
      found.push(part);
    }
  }
  return found;
}
