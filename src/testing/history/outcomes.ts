/** What the store's log and the callers of once() prove about outcomes: no work under a lease that came after, and no made-up value. */
import type { HistoryEvent, Violation } from "./events.ts";

interface Kept {
  readonly fence: bigint;
  readonly value: string;
  readonly fromMs: number;
  untilMs: number;
}

export function checkOutcomes(lock: string, events: readonly HistoryEvent[]): readonly Violation[] {
  const violations: Violation[] = [];
  const all: Kept[] = [];
  let now: Kept | undefined;
  const grants: { readonly fence: bigint; readonly kept: Kept | undefined }[] = [];
  const say = (atMs: number, message: string): void => void violations.push({ oracle: "O9 once", atMs, lock, message });
  for (const event of events) {
    const { atMs } = event;
    if (event.kind === "kept-outcome") {
      const { fence, value, untilMs } = event;
      if (now !== undefined && atMs < now.untilMs) now.untilMs = atMs;
      all.push((now = { fence, value, fromMs: atMs, untilMs }));
    } else if (event.kind === "forgot-outcome") {
      if (now !== undefined) now.untilMs = Math.min(now.untilMs, atMs);
    } else if (event.kind === "granted") {
      grants.push({ fence: event.fence, kept: now !== undefined && atMs < now.untilMs ? now : undefined });
    } else if (event.kind === "worked") {
      const { who, fence } = event;
      const kept = grants.findLast((grant) => grant.fence <= fence)?.kept;
      if (kept !== undefined)
        say(atMs, `${who} did the work under fence ${fence}, granted while the outcome of ${kept.fence} was kept`);
    } else if (event.kind === "replayed") {
      const { who, fence, value, sinceMs } = event;
      const isTrue = all.some(
        (kept) => kept.fence === fence && kept.value === value && kept.fromMs <= atMs && kept.untilMs > sinceMs,
      );
      if (!isTrue) say(atMs, `${who} got ${JSON.stringify(value)} (fence ${fence}), which was not kept while it asked`);
    }
  }
  return violations;
}
