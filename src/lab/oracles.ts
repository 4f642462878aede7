/** Hands a play's events to the oracles that judge every history of Holdfast, simulated or real. */
import type { ReleaseResult } from "../core/api.ts";
import { checkHistory } from "../testing/history/check.ts";
import type { HistoryEvent, Violation } from "../testing/history/events.ts";
import type { LabEvent } from "./events.ts";

const LOCK = "lab";

/** What the oracles object to. Writes are those of the guarded register. */
export function objections(events: readonly LabEvent[]): readonly Violation[] {
  const fences = new Map<string, bigint>();
  return checkHistory(events.flatMap((event) => translate(event, fences)));
}

/** `fences` holds each client's current fence. */
function translate(event: LabEvent, fences: Map<string, bigint>): readonly HistoryEvent[] {
  const { atMs, lane: who } = event;
  const fence = fences.get(who) ?? 0n;
  const told = { atMs, lock: LOCK, who };
  switch (event.kind) {
    case "asked":
    case "refused":
      return [{ ...told, kind: event.kind }];
    case "granted":
      if (event.fence === undefined) return [];
      fences.set(who, event.fence);
      return [{ ...told, kind: "held", fence: event.fence, trustedUntilMs: event.untilMs }];
    case "trust":
      return [{ ...told, kind: "trusted", fence, trustedUntilMs: event.untilMs }];
    case "lost":
    case "releasing":
      return [{ ...told, kind: event.kind, fence }];
    case "released":
      return isResult(event.result) ? [{ ...told, kind: "released", fence, result: event.result }] : [];
    case "write":
      if (event.register !== "guarded" || event.fence === undefined) return [];
      return [{ ...told, who: event.by, kind: "wrote", fence: event.fence, accepted: event.accepted }];
    case "fault":
      // The dead believe nothing.
      return event.sign === "kill" && fences.has(who) ? [{ ...told, kind: "lost", fence }] : [];
    case "checked":
    case "truth":
      return [];
  }
}

function isResult(result: string): result is ReleaseResult {
  return result === "released" || result === "lost" || result === "unknown";
}
