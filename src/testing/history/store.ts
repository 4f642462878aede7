/** What the store's own log proves: belief ended in time, no lease was released by another claimant, the queue was fair, and answers were true. */
import { type Belief, beliefsOf } from "./beliefs.ts";
import type { HistoryEvent, HistoryOptions, Oracle, Violation } from "./events.ts";

interface StoreLease {
  readonly claim: string;
  readonly fence: bigint;
  readonly lastFence: bigint;
  readonly grantedMs: number;
  endMs: number;
  how: "released" | "ran-out" | "forced" | undefined;
  /** Without force it would have been kept until then, as far as that is known. */
  keptUntilMs: number;
}

export function checkStore(
  lock: string,
  events: readonly HistoryEvent[],
  options: HistoryOptions,
): readonly Violation[] {
  const leases = storeLeases(events);
  if (leases.length === 0) return [];
  const order = (options.fair ?? true) ? fairness(lock, events) : [];
  return [...order, ...judged(lock, beliefsOf(events), leases, options.marginMs ?? 0)];
}

function storeLeases(events: readonly HistoryEvent[]): readonly StoreLease[] {
  const leases: StoreLease[] = [];
  const current = new Map<string, StoreLease>();
  for (const event of events) {
    if (event.kind === "granted") {
      const { claim, fence, run, atMs } = event;
      const lastFence = fence + BigInt(run) - 1n;
      const end = { endMs: Infinity, how: undefined, keptUntilMs: Infinity };
      const lease: StoreLease = { claim, fence, lastFence, grantedMs: atMs, ...end };
      leases.push(lease);
      current.set(claim, lease);
    } else if (event.kind === "dropped") {
      const lease = current.get(event.claim);
      const { atMs: endMs, how, keptUntilMs = Infinity } = event;
      if (lease !== undefined) Object.assign(lease, { endMs, how, keptUntilMs });
    }
  }
  return leases;
}

function judged(
  lock: string,
  beliefs: readonly Belief[],
  leases: readonly StoreLease[],
  marginMs: number,
): Violation[] {
  const violations: Violation[] = [];
  const bySmallest = leases.toSorted((a, b) => (a.fence < b.fence ? -1 : 1));
  for (const belief of beliefs) {
    const say = (oracle: Oracle, message: string): void => {
      violations.push({
        oracle,
        atMs: belief.fromMs,
        lock,
        message: `${belief.who} (fence ${belief.fence}) ${message}`,
      });
    };
    const lease = bySmallest.findLast(({ fence, lastFence }) => fence <= belief.fence && belief.fence <= lastFence);
    if (lease === undefined) {
      say("O8 truthfulness", "holds a lease that the store never gave");
      continue;
    }
    ending(belief, lease, marginMs, say);
    truth(belief, lease, say);
  }
  return violations;
}

/** O3 and O4: belief ends before the store's lease does; where that was ended by force, before it would have ended by itself. */
function ending(
  belief: Belief,
  lease: StoreLease,
  marginMs: number,
  say: (oracle: Oracle, message: string) => void,
): void {
  if (lease.how === "forced") {
    // News of it may be late, or lost. The lease that was is all that a claimant can go on believing in.
    const { believedUntilMs } = belief;
    if (believedUntilMs <= belief.fromMs || believedUntilMs <= lease.keptUntilMs - marginMs) return;
    const lateMs = (believedUntilMs - lease.keptUntilMs).toFixed(3);
    say("O4 early signal", `believed ${lateMs} ms longer than the store would have held without the force`);
    return;
  }
  if (belief.untilMs <= lease.endMs - (lease.how === "ran-out" ? marginMs : 0)) return;
  // It may never have believed: a lease that arrives too late is given back.
  if (belief.untilMs <= belief.fromMs) return;
  const lateMs = (belief.untilMs - lease.endMs).toFixed(3);
  if (lease.how === "released") {
    say("O3 no foreign release", `was released by another claimant: it believed for ${lateMs} ms more`);
  } else {
    say("O4 early signal", `believed ${lateMs} ms longer than the store held, margin ${marginMs} ms`);
  }
}

/** O8: a release that says "released" ended the lease or passed it on; "lost" is said only of what had ended. */
function truth(belief: Belief, lease: StoreLease, say: (oracle: Oracle, message: string) => void): void {
  const { result, untilMs, releasedMs } = belief;
  if (releasedMs === undefined) return;
  // Of a lease ended by force, a repeated release cannot know whether the first one ended it.
  if (result === "released" && lease.how === "ran-out" && lease.endMs < untilMs) {
    say("O8 truthfulness", `got "released", but the store's lease had ended before (${lease.how})`);
  }
  // A release that reached the store too late may say so: the lease ran out, or was broken, while it was on its way.
  if (result === "lost" && belief.end === "releasing" && untilMs < belief.trustedUntilMs && lease.how === "released") {
    say("O8 truthfulness", 'got "lost", but it held the lease until it released it');
  }
}

/** O7: no claim is granted while one that queued earlier still waits. */
function fairness(lock: string, events: readonly HistoryEvent[]): Violation[] {
  const violations: Violation[] = [];
  const queue = new Set<string>();
  for (const event of events) {
    if (event.kind === "queued") queue.add(event.claim);
    else if (event.kind === "left") queue.delete(event.claim);
    else if (event.kind === "granted") {
      const [first] = queue;
      if (first !== undefined && first !== event.claim) {
        const message = `claim ${event.claim} was granted before ${first}, which had queued earlier`;
        violations.push({ oracle: "O7 order", atMs: event.atMs, lock, message });
      }
      queue.delete(event.claim);
    }
  }
  return violations;
}
