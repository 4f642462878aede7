/**
 * Judges what happened to locks: the oracles.
 *
 * Claimants report what they asked for and believed; the store, where it can be watched, reports what was so. Simulation,
 * fault tests and the lab record such lists, and all of them are judged here.
 */
import { checkClaimants } from "./claimants.ts";
import type { HistoryEvent, HistoryOptions, Violation } from "./events.ts";
import { checkOutcomes } from "./outcomes.ts";
import { checkStore } from "./store.ts";
import { checkWrites } from "./writes.ts";

/** Judges a history. Events must be in the order in which they happened. Returns what was broken, the earliest first. */
export function checkHistory(events: readonly HistoryEvent[], options: HistoryOptions = {}): readonly Violation[] {
  const locks = new Map<string, HistoryEvent[]>();
  for (const event of events) {
    const of = locks.get(event.lock);
    if (of === undefined) locks.set(event.lock, [event]);
    else of.push(event);
  }
  const violations = [...locks].flatMap(([lock, of]) => [
    ...checkClaimants(lock, of),
    ...checkStore(lock, of, options),
    ...checkWrites(lock, of),
    ...checkOutcomes(lock, of),
  ]);
  return violations.toSorted((a, b) => a.atMs - b.atMs);
}
