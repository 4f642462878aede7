/** Who believed to hold a lock, from when to when: read off a history. */
import type { Mode } from "../backend.ts";
import type { ReleaseResult } from "../api.ts";
import type { HistoryEvent } from "./history.ts";

export interface Belief {
  readonly who: string;
  readonly fence: bigint;
  readonly mode: Mode;
  readonly limit: number;
  readonly askedMs: number;
  readonly fromMs: number;
  /** When belief ended: the release began, the signal fired, or the trusted instant passed, whichever came first. */
  untilMs: number;
  /** The latest instant until which the claimant was allowed to believe. */
  trustedUntilMs: number;
  end: "releasing" | "lost" | undefined;
  releasedMs: number | undefined;
  result: ReleaseResult | undefined;
}

/** The beliefs of one lock's history, in the order in which they began. */
export function beliefsOf(events: readonly HistoryEvent[]): readonly Belief[] {
  const asked = new Map<string, HistoryEvent & { kind: "asked" }>();
  const current = new Map<string, Belief>();
  const beliefs: Belief[] = [];
  for (const event of events) {
    if (!("who" in event)) continue;
    if (event.kind === "asked") asked.set(event.who, event);
    else if (event.kind === "held") {
      const call = asked.get(event.who);
      const belief: Belief = {
        who: event.who,
        fence: event.fence,
        mode: call?.mode ?? "exclusive",
        limit: call?.limit ?? 1,
        askedMs: call?.atMs ?? event.atMs,
        fromMs: event.atMs,
        untilMs: event.trustedUntilMs ?? Infinity,
        trustedUntilMs: event.trustedUntilMs ?? Infinity,
        end: undefined,
        releasedMs: undefined,
        result: undefined,
      };
      beliefs.push(belief);
      current.set(event.who, belief);
    } else follow(current.get(event.who), event);
  }
  return beliefs;
}

function follow(belief: Belief | undefined, event: HistoryEvent): void {
  if (belief === undefined || !("fence" in event) || event.fence !== belief.fence) return;
  if (event.kind === "trusted") {
    belief.trustedUntilMs = event.trustedUntilMs;
    if (belief.end === undefined) belief.untilMs = event.trustedUntilMs;
  } else if (event.kind === "releasing" || event.kind === "lost") {
    belief.end ??= event.kind;
    belief.untilMs = Math.min(belief.untilMs, event.atMs);
  } else if (event.kind === "released") {
    belief.releasedMs = event.atMs;
    belief.result = event.result;
  }
}
