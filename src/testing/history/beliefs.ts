/** Which claimants believed that they held a lock, and when: read from a history. */
import type { Mode } from "../../contract/backend.ts";
import type { ReleaseResult } from "../../core/api.ts";
import type { HistoryEvent } from "./events.ts";

export interface Belief {
  readonly who: string;
  readonly fence: bigint;
  readonly mode: Mode;
  readonly limit: number;
  readonly askedMs: number;
  readonly fromMs: number;
  /** When belief ended: the release began, the signal fired, or the trusted instant passed, whichever came first. */
  untilMs: number;
  /** The same, as the claimant knows it: a lease may have been ended by force without its knowledge. */
  believedUntilMs: number;
  /** The latest instant until which the claimant was allowed to believe. */
  trustedUntilMs: number;
  /** When the lease was ended by force, as the store reports. */
  brokenMs: number;
  end: "releasing" | "lost" | undefined;
  releasedMs: number | undefined;
  result: ReleaseResult | undefined;
}

/** The beliefs of one lock's history, in the order in which they began. */
export function beliefsOf(events: readonly HistoryEvent[]): readonly Belief[] {
  const asked = new Map<string, HistoryEvent & { kind: "asked" }>();
  const current = new Map<string, Belief>();
  const beliefs: Belief[] = [];
  const brokenOnes: Broken[] = [];
  const runs = new Map<string, { readonly fence: bigint; readonly run: number }>();
  for (const event of events) {
    if (event.kind === "granted") runs.set(event.claim, event);
    if (event.kind === "dropped" && event.how === "forced") {
      const { fence, run } = runs.get(event.claim) ?? { fence: event.fence, run: 1 };
      const broken = { fence, run, atMs: event.atMs };
      brokenOnes.push(broken);
      for (const belief of beliefs) breakOff(belief, broken);
    }
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
        believedUntilMs: event.trustedUntilMs ?? Infinity,
        trustedUntilMs: event.trustedUntilMs ?? Infinity,
        brokenMs: Infinity,
        end: undefined,
        releasedMs: undefined,
        result: undefined,
      };
      // The news of the grant may have been overtaken by force.
      for (const broken of brokenOnes) breakOff(belief, broken);
      beliefs.push(belief);
      current.set(event.who, belief);
    } else follow(current.get(event.who), event);
  }
  return beliefs;
}

/** A lease that was ended by force. After that, two claimants may believe for a while: the operator accepts this. */
interface Broken {
  readonly fence: bigint;
  readonly run: number;
  readonly atMs: number;
}

function breakOff(belief: Belief, { fence, run, atMs }: Broken): void {
  if (belief.fence < fence || belief.fence >= fence + BigInt(run)) return;
  belief.brokenMs = atMs;
  belief.untilMs = Math.min(belief.untilMs, atMs);
}

function follow(belief: Belief | undefined, event: HistoryEvent): void {
  if (belief === undefined || !("fence" in event) || event.fence !== belief.fence) return;
  if (event.kind === "trusted") {
    belief.trustedUntilMs = event.trustedUntilMs;
    if (belief.end !== undefined) return;
    belief.believedUntilMs = event.trustedUntilMs;
    belief.untilMs = Math.min(event.trustedUntilMs, belief.brokenMs);
  } else if (event.kind === "releasing" || event.kind === "lost") {
    belief.end ??= event.kind;
    belief.untilMs = Math.min(belief.untilMs, event.atMs);
    belief.believedUntilMs = Math.min(belief.believedUntilMs, event.atMs);
  } else if (event.kind === "released") {
    belief.releasedMs = event.atMs;
    belief.result = event.result;
  }
}
