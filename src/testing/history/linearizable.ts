/**
 * Is a history linearizable: can every operation be put at one instant between its call and its return, so that a fenced
 * re-entrant lock with leases would have answered just so? The search of Wing and Gong, with Lowe's memory.
 */
import { beliefsOf } from "./beliefs.ts";
import type { HistoryEvent } from "./events.ts";

interface Step {
  readonly who: string;
  readonly what: "acquire" | "enter" | "exit" | "release" | "end";
  readonly fence: bigint;
  readonly calledMs: number;
  readonly returnedMs: number;
  /** May have happened or not. */
  readonly optional: boolean;
}

interface State {
  readonly holder: string | undefined;
  readonly depth: number;
  readonly fence: bigint;
}

export interface Linearizability {
  readonly linearizable: boolean;
  /** The operation at which every order fails, for people. */
  readonly stuckAt?: string;
  /** How many orders were tried. */
  readonly steps: number;
}

const FREE: State = { holder: undefined, depth: 0, fence: -1n };

/** Searches for an order that explains the history of one exclusive lock. */
export function findLinearization(events: readonly HistoryEvent[]): Linearizability {
  const steps = stepsOf(events);
  const done = new Uint8Array(steps.length);
  const seen = new Set<string>();
  const path: { readonly at: number; readonly before: State }[] = [];
  const required = steps.filter((step) => !step.optional).length;
  let state = FREE;
  let placed = 0;
  let tried = 0;
  let furthest = 0;
  let stuckAt: Step | undefined;
  let from = 0;
  while (placed < required) {
    const next = candidate(steps, done, from, state);
    tried++;
    if (next !== undefined) {
      const { at, after } = next;
      done[at] = 1;
      if (seen.has(memory(done, after))) {
        done[at] = 0;
        from = at + 1;
        continue;
      }
      seen.add(memory(done, after));
      path.push({ at, before: state });
      state = after;
      if (!steps[at]!.optional) placed++;
      from = 0;
      continue;
    }
    if (placed >= furthest) {
      furthest = placed;
      stuckAt = steps.find((step, at) => done[at] === 0 && !step.optional) ?? stuckAt;
    }
    const last = path.pop();
    if (last === undefined) return { linearizable: false, steps: tried, stuckAt: describe(stuckAt) };
    done[last.at] = 0;
    if (!steps[last.at]!.optional) placed--;
    state = last.before;
    from = last.at + 1;
  }
  return { linearizable: true, steps: tried };
}

/** The next step, from `from` on, that may come first among those not yet placed, and that the lock allows. */
function candidate(
  steps: readonly Step[],
  done: Uint8Array,
  from: number,
  state: State,
): { readonly at: number; readonly after: State } | undefined {
  let earliestReturnMs = Infinity;
  for (const [at, step] of steps.entries()) {
    if (done[at] === 1) continue;
    // An operation that was called after another one returned cannot come before it.
    if (step.calledMs > earliestReturnMs) return undefined;
    if (!step.optional) earliestReturnMs = Math.min(earliestReturnMs, step.returnedMs);
    const after = at >= from ? apply(state, step) : undefined;
    if (after !== undefined) return { at, after };
  }
  return undefined;
}

/** The model: a lock with one holder, who may enter again, and whose fences rise. */
function apply(state: State, { who, what, fence }: Step): State | undefined {
  if (what === "acquire") {
    return state.holder === undefined && fence > state.fence ? { holder: who, depth: 1, fence } : undefined;
  }
  if (state.holder !== who || state.fence !== fence) return undefined;
  if (what === "enter") return { ...state, depth: state.depth + 1 };
  if (what === "exit") return state.depth > 1 ? { ...state, depth: state.depth - 1 } : undefined;
  return { holder: undefined, depth: 0, fence };
}

function stepsOf(events: readonly HistoryEvent[]): readonly Step[] {
  const steps: Step[] = [];
  const believed = new Map<string, number>();
  for (const { who, fence, askedMs, fromMs, untilMs, releasedMs, result } of beliefsOf(events)) {
    believed.set(`${who} ${fence}`, untilMs);
    // A lease that arrived when its time was over was never believed: it explains nothing and contradicts nothing.
    if (untilMs <= fromMs) continue;
    steps.push({ who, fence, what: "acquire", calledMs: askedMs, returnedMs: fromMs, optional: false });
    if (result === "released" && releasedMs !== undefined) {
      steps.push({ who, fence, what: "release", calledMs: untilMs, returnedMs: releasedMs, optional: false });
    } else if (untilMs < Infinity) {
      // Lost, or released without an answer: the store let go at some time after belief ended, or has not yet.
      steps.push({ who, fence, what: "end", calledMs: untilMs, returnedMs: Infinity, optional: true });
    }
  }
  for (const event of events) {
    if (event.kind !== "entered" && event.kind !== "exited") continue;
    const { who, fence, atMs } = event;
    // A claimant that re-enters a lease ended by force does not know better.
    if (atMs >= (believed.get(`${who} ${fence}`) ?? Infinity)) continue;
    const what = event.kind === "entered" ? "enter" : "exit";
    steps.push({ who, fence, what, calledMs: atMs, returnedMs: atMs, optional: false });
  }
  return steps.toSorted((a, b) => a.calledMs - b.calledMs || a.returnedMs - b.returnedMs);
}

/** What was placed and what it led to. Everything before the first gap is placed, so that only the rest is spelled out. */
function memory(done: Uint8Array, { holder, depth, fence }: State): string {
  const gap = done.indexOf(0);
  const last = done.lastIndexOf(1);
  return `${gap} ${done.subarray(gap, last + 1).join("")} ${holder} ${depth} ${fence}`;
}

function describe(step: Step | undefined): string {
  return step === undefined
    ? "the start"
    : `${step.what} by ${step.who} (fence ${step.fence}) called at ${step.calledMs}`;
}
