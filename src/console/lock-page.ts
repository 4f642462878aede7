/** What the page of one lock shows. Of an outcome its size and age, never its value: inspect() does not give it. */
import type { Deadlock } from "../contract/deadlock.ts";
import type { LockSnapshot } from "../core/api.ts";
import { brief, type FullRow } from "./rows.ts";
import { PAST_MS, type Timeline } from "./timeline.ts";
import type { DeadlockView, LockPage, OutcomeView } from "./wire.ts";

export interface Inspected extends LockSnapshot {
  /** When the store answered. */
  readonly atMs: number;
}

export interface Known {
  readonly row: FullRow | undefined;
  readonly inspected: Inspected | undefined;
  readonly deadlocks: readonly DeadlockView[];
}

export function toPage(name: string, known: Known, timeline: Timeline, nowMs: number): LockPage {
  const { row, inspected } = known;
  const isPart = ({ waitsFor, holds }: DeadlockView["members"][number]): boolean =>
    waitsFor === name || holds.some((held) => held.name === name);
  return {
    name,
    ...(row === undefined ? {} : { row: { ...brief(row), waiters: row.all } }),
    timeline: timeline.segments(name, nowMs),
    unwatched: timeline.unwatched.filter(([, toMs]) => toMs > nowMs - PAST_MS),
    forced: (inspected?.forced ?? []).map(({ fence, by, reason, agoMs }) => ({
      fence: String(fence),
      by,
      reason,
      atMs: Math.round(inspected!.atMs - agoMs),
    })),
    ...(inspected?.outcome === undefined ? {} : { outcome: outcomeView(inspected.outcome, inspected.atMs) }),
    deadlocks: known.deadlocks.filter(({ members }) => members.some(isPart)),
  };
}

function outcomeView(
  { fence, holder, bytes, ageMs, remainingMs }: NonNullable<LockSnapshot["outcome"]>,
  atMs: number,
): OutcomeView {
  return {
    fence: String(fence),
    holder,
    bytes,
    atMs: Math.round(atMs - ageMs),
    endsMs: Math.round(atMs + remainingMs),
  };
}

export function deadlockView({ members, description }: Deadlock): DeadlockView {
  return {
    description,
    members: members.map(({ holder, waitsFor, holds, waitingMs }) => ({
      holder,
      waitsFor,
      holds: holds.map(({ name, fence }) => ({ name, fence: String(fence) })),
      waitingMs,
    })),
  };
}
