/**
 * Which waiter of a deadlock rejects itself. All who see the deadlock come to the same answer by what the store says, so that one does:
 * of those that are willing and hold what others wait for, the one whose claim was queued last, then the one with the greatest id.
 */
import type { DeadlockGraph, Waiter } from "./deadlock-graph.ts";
import type { Engine } from "./engine.ts";
import type { Request } from "./request.ts";

type Lines = ReadonlyMap<Waiter, readonly Request[]>;

/** `lines`: the waiters that are of this process, with its requests there. `undefined`: none is willing, or it is another process's turn. */
export function victimOf(
  engine: Engine,
  graph: DeadlockGraph,
  knot: readonly Waiter[],
  lines: Lines,
): Request | undefined {
  const willing = knot.filter((waiter) => graph.relevant(waiter, knot).some(({ yields }) => yields === true));
  const own = willing.filter((waiter) => lines.has(waiter));
  // Where no other process has a say, or can see it, who came last here is known exactly.
  if (own.length === willing.length || [...lines.keys()].some((waiter) => isHidden(engine, waiter)))
    return latest(engine, graph, knot, lines, own);
  const last = willing.reduce((one, other) => (isLater(other, one) ? other : one));
  return lines.has(last) ? latest(engine, graph, knot, lines, [last]) : undefined;
}

/** Only this process knows that it waits: a lease shows who waits behind it by its renewals. */
function isHidden(engine: Engine, { lock, behind }: Waiter): boolean {
  const hold = engine.queueOf(lock)?.holds.find(({ firstFence }) => firstFence === behind?.fence);
  return hold !== undefined && hold.options.renew !== true;
}

/** One that waits behind a lease of its process has no place in the store's queue. */
function isLater(one: Waiter, other: Waiter): boolean {
  const [a, b] = [orderOf(one), orderOf(other)];
  return a === b ? one.key > other.key : a > b;
}

function orderOf({ entry }: Waiter): bigint {
  return entry === undefined ? -2n : (entry.order ?? -1n);
}

/** Of the requests behind these waiters, the last that is willing and holds what others wait for. */
function latest(
  engine: Engine,
  graph: DeadlockGraph,
  knot: readonly Waiter[],
  lines: Lines,
  waiters: readonly Waiter[],
): Request | undefined {
  let found: Request | undefined;
  for (const waiter of waiters) {
    const wanted = graph.relevant(waiter, knot);
    for (const request of lines.get(waiter) ?? []) {
      if (request.options.deadlock !== "reject" || (found !== undefined && request.enteredMs < found.enteredMs))
        continue;
      const held = request.scope?.held(engine) ?? [];
      if (held.some((one) => wanted.some(({ name, fence }) => name === one.name && fence === one.fence)))
        found = request;
    }
  }
  return found;
}
