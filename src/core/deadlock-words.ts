/** A deadlock as users see it: in the order of a circle, and in words. */
import type { Deadlock, DeadlockMember } from "../contract/deadlock.ts";
import { quote } from "../contract/errors.ts";
import { clipped, HOLDER_MAX } from "../contract/foreign.ts";
import type { DeadlockGraph, Waiter } from "./deadlock-graph.ts";

/** More of them are only counted. */
const SAID_MAX = 8;

/** `first`: the circle begins there, if it is one of them. */
export function toDeadlock(graph: DeadlockGraph, knot: readonly Waiter[], first?: Waiter): Deadlock {
  const start = first !== undefined && knot.includes(first) ? first : knot[0]!;
  const circle = circleFrom(graph, knot, start);
  const others = knot.filter((waiter) => !circle.includes(waiter));
  const members = [...circle, ...others].map((waiter) => toMember(graph, knot, waiter));
  const said = members.slice(0, SAID_MAX).map(inWords);
  if (members.length > SAID_MAX) said.push(`and ${members.length - SAID_MAX} more`);
  return { members, description: said.join("; ") };
}

/** The shortest way from it back to it. */
function circleFrom(graph: DeadlockGraph, knot: readonly Waiter[], start: Waiter): readonly Waiter[] {
  const among = new Set(knot);
  const before = new Map<Waiter, Waiter>();
  const reached = [start];
  for (const waiter of reached) {
    for (const next of graph.successors(waiter, among)) {
      if (next === start) return wayTo(waiter, before);
      if (before.has(next)) continue;
      before.set(next, waiter);
      reached.push(next);
    }
  }
  return [start];
}

function wayTo(last: Waiter, before: ReadonlyMap<Waiter, Waiter>): readonly Waiter[] {
  const way: Waiter[] = [];
  for (let at: Waiter | undefined = last; at !== undefined; at = before.get(at)) way.unshift(at);
  return way;
}

function toMember(graph: DeadlockGraph, knot: readonly Waiter[], waiter: Waiter): DeadlockMember {
  const { holder, lock: waitsFor, mode, meta, entry } = waiter;
  const holds = graph.relevant(waiter, knot).map(({ name, fence }) => ({ name, fence }));
  return {
    holder: clipped(holder, HOLDER_MAX),
    waitsFor,
    mode,
    holds,
    meta,
    ...(entry && { waitingMs: entry.waitingMs, id: entry.id }),
  };
}

function inWords({ holder, waitsFor, holds }: DeadlockMember): string {
  if (holds.length === 0) return `${holder} is ahead in the queue for ${quote(waitsFor)}`;
  const held = holds.map(({ name, fence }) => `${quote(name)} (fence ${fence})`).join(", ");
  return `${holder} holds ${held} and waits for ${quote(waitsFor)}`;
}
