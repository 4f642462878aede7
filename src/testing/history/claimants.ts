/** What claimants alone can prove: no two believe at once, and fences rise. */
import { type Belief, beliefsOf } from "./beliefs.ts";
import type { HistoryEvent, Violation } from "./events.ts";

export function checkClaimants(lock: string, events: readonly HistoryEvent[]): readonly Violation[] {
  const beliefs = beliefsOf(events);
  return [...overlaps(lock, beliefs), ...fences(lock, beliefs), ...reentries(lock, events)];
}

/** O1: those who believe at the same time may do so. */
function overlaps(lock: string, beliefs: readonly Belief[]): Violation[] {
  const violations: Violation[] = [];
  let inside: Belief[] = [];
  for (const belief of beliefs) {
    inside = inside.filter((other) => other.untilMs > belief.fromMs);
    // A claimant whose trust had passed when the lease arrived never believed.
    if (belief.untilMs <= belief.fromMs) continue;
    const together = [...inside, belief];
    if (!compatible(together)) {
      const others = inside.map(({ who, fence }) => `${who} (fence ${fence})`).join(", ");
      violations.push({
        oracle: "O1 exclusion",
        atMs: belief.fromMs,
        lock,
        message: `${belief.who} (fence ${belief.fence}) believes it holds the lock, and so does ${others}`,
      });
    }
    inside = together;
  }
  return violations;
}

function compatible(together: readonly Belief[]): boolean {
  if (together.every(({ mode }) => mode === "shared")) return true;
  return together.every(({ mode, limit }) => mode === "exclusive" && together.length <= limit);
}

/** Of two leases, the one asked for after the other was held has the greater fence; and no fence is given twice. */
function fences(lock: string, beliefs: readonly Belief[]): Violation[] {
  const violations: Violation[] = [];
  const seen = new Map<bigint, Belief>();
  const byAsked = beliefs.toSorted((a, b) => a.askedMs - b.askedMs);
  let known = 0;
  /** The greatest fences known before the current call: of all holders, and of exclusive ones. */
  let greatest = -1n;
  let greatestExclusive = -1n;
  for (const belief of byAsked) {
    for (
      let earlier = beliefs[known];
      earlier !== undefined && earlier.fromMs < belief.askedMs;
      earlier = beliefs[++known]
    ) {
      if (earlier.fence > greatest) greatest = earlier.fence;
      if (earlier.mode === "exclusive" && earlier.fence > greatestExclusive) greatestExclusive = earlier.fence;
    }
    const { who, fence, mode, limit, fromMs } = belief;
    // Where several hold at once, a grant that came late may go to a claimant that asked later: the store's order still holds.
    const low = limit === 1 && (mode === "shared" ? fence < greatestExclusive : fence <= greatest);
    const floor = mode === "shared" ? greatestExclusive : greatest;
    if (low && beliefs.some((other) => isAbove(other, belief))) {
      const message = `${who} got fence ${fence}, though ${floor} had been given before it asked`;
      violations.push({ oracle: "fences", atMs: fromMs, lock, message });
    }
    const other = seen.get(fence);
    if (other !== undefined && !(mode === "shared" && other.mode === "shared")) {
      const message = `fence ${fence} was given twice: to ${other.who} and to ${who}`;
      violations.push({ oracle: "fences", atMs: fromMs, lock, message });
    }
    seen.set(fence, belief);
  }
  return violations;
}

/**
 * Its fence was given before that call, and is greater. One that was given after the call's lease had been ended by force does
 * not count: the news of a grant may be so late that it goes to a claimant of the same process who asked after that. It believes
 * what was so when the question left, as all do who have not heard of the force yet: O4 bounds for how long, and a guard refuses
 * the fence.
 */
function isAbove({ fence, mode, fromMs }: Belief, call: Belief): boolean {
  if (fromMs >= Math.min(call.askedMs, call.brokenMs)) return false;
  return call.mode === "shared" ? mode === "exclusive" && fence > call.fence : fence >= call.fence;
}

/** A re-entry has the fence of the lease it is in. */
function reentries(lock: string, events: readonly HistoryEvent[]): Violation[] {
  const violations: Violation[] = [];
  const holding = new Map<string, bigint>();
  for (const event of events) {
    if (!("who" in event)) continue;
    if (event.kind === "held") holding.set(event.who, event.fence);
    else if (event.kind === "releasing" || event.kind === "lost") holding.delete(event.who);
    else if (event.kind === "entered" && holding.get(event.who) !== event.fence) {
      const held = holding.get(event.who);
      const message = `${event.who} re-entered with fence ${event.fence} while it held ${held === undefined ? "nothing" : `fence ${held}`}`;
      violations.push({ oracle: "fences", atMs: event.atMs, lock, message });
    }
  }
  return violations;
}
