/**
 * A play's events as the history that the oracles judge, and each client's holds, read from the same history. So the lab, the
 * simulation and the tests agree on who believed what and when.
 */
import type { ReleaseResult } from "../core/api.ts";
import { type Belief as HistoryBelief, beliefsOf as beliefsIn } from "../testing/history/beliefs.ts";
import type { HistoryEvent } from "../testing/history/events.ts";
import type { LabEvent } from "./events.ts";

const LOCK = "lab";

/** One client's hold, as the client saw it. */
export interface Belief {
  readonly client: string;
  readonly fromMs: number;
  /** The last instant at which the client believed that it held the lock. */
  readonly untilMs: number;
  readonly end: "released" | "lost" | "trust ended" | "killed" | "still held";
}

/** Writes are those of the guarded register. A library without fences gets one for each hold, to distinguish its holds. */
export function toHistory(events: readonly LabEvent[]): readonly HistoryEvent[] {
  const open = new Map<string, bigint>();
  const numbers = { next: 1n };
  return events.flatMap((event) => translate(event, open, numbers));
}

/** `open`: the fence of each client's current hold. */
function translate(event: LabEvent, open: Map<string, bigint>, numbers: { next: bigint }): readonly HistoryEvent[] {
  const { atMs, lane: who } = event;
  const fence = open.get(who) ?? 0n;
  const facts = { atMs, lock: LOCK, who };
  switch (event.kind) {
    case "asked":
    case "refused":
      return [{ ...facts, kind: event.kind }];
    case "granted": {
      const given = event.fence ?? numbers.next++;
      // Such a library may believe for ever, until it acquires again.
      const before =
        event.fence === undefined && open.has(who) ? [{ ...facts, kind: "releasing", fence } as const] : [];
      open.set(who, given);
      return [...before, { ...facts, kind: "held", fence: given, trustedUntilMs: event.untilMs }];
    }
    case "trust":
      return [{ ...facts, kind: "trusted", fence, trustedUntilMs: event.untilMs }];
    case "lost":
    case "releasing":
      return [{ ...facts, kind: event.kind, fence }];
    case "released":
      return isResult(event.result) ? [{ ...facts, kind: "released", fence, result: event.result }] : [];
    case "write":
      if (event.register !== "guarded" || event.fence === undefined) return [];
      return [{ ...facts, who: event.by, kind: "wrote", fence: event.fence, accepted: event.accepted }];
    case "fault":
      // A killed process believes nothing.
      return event.sign === "kill" && open.has(who) ? [{ ...facts, kind: "lost", fence }] : [];
    case "checked":
    case "truth":
      return [];
  }
}

function isResult(result: string): result is ReleaseResult {
  return result === "released" || result === "lost" || result === "unknown";
}

/** Every client's holds, in the order in which they began. The play ended at `endMs`. */
export function beliefsOf(events: readonly LabEvent[], endMs: number): readonly Belief[] {
  const kills = events.filter((event) => event.kind === "fault" && event.sign === "kill");
  return beliefsIn(toHistory(events)).map((belief) => {
    const { who: client, fromMs } = belief;
    const untilMs = Math.min(belief.untilMs, endMs);
    const isKilled = kills.some(({ lane, atMs }) => lane === client && atMs === untilMs);
    return { client, fromMs, untilMs, end: isKilled ? "killed" : endOf(belief, untilMs) };
  });
}

function endOf({ end, trustedUntilMs }: HistoryBelief, untilMs: number): Belief["end"] {
  if (end === "lost") return "lost";
  if (trustedUntilMs <= untilMs) return "trust ended";
  return end === "releasing" ? "released" : "still held";
}
