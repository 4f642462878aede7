/**
 * Deadlocks in what query() shows, from one time to the next: for those who ask for all locks now and then anyway. As everywhere, it is
 * one only if the same callers waited for each other the time before, by claims and fences.
 */
import type { Deadlock } from "../contract/deadlock.ts";
import type { LocksSnapshot } from "./api.ts";
import { byLock, DeadlockGraph, marksOf } from "./deadlock-graph.ts";
import { toDeadlock } from "./deadlock-words.ts";
import { storedSnapshot } from "./stored-snapshot.ts";

export class DeadlockLooks {
  #suspected: ReadonlySet<string> = new Set();

  look(shown: LocksSnapshot): readonly Deadlock[] {
    const stored = storedSnapshot(shown)?.snapshot;
    if (stored === undefined) return [];
    // Only locks that are waited for, and those that are held by who waits, can be part of one.
    const isWaited = new Set(stored.pending.map(({ name }) => name));
    const held = stored.held.filter(({ name, local }) => isWaited.has(name) || (local?.holds.length ?? 0) > 0);
    const states = byLock({ held, pending: stored.pending });
    const before = this.#suspected;
    this.#suspected = new Set(new DeadlockGraph(states).knots().flatMap(marksOf));
    if (before.size === 0 || this.#suspected.size === 0) return [];
    const graph = new DeadlockGraph(states, before);
    return graph.knots().map((knot) => toDeadlock(graph, knot));
  }
}
