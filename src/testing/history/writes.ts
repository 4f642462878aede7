/** O2: a guard never lets in a smaller fence than before, and every write has a lease. */
import type { HistoryEvent, Violation } from "./events.ts";

export function checkWrites(lock: string, events: readonly HistoryEvent[]): readonly Violation[] {
  const violations: Violation[] = [];
  const given = new Set<string>();
  let highest = -1n;
  for (const event of events) {
    if (event.kind === "held") given.add(`${event.who} ${event.fence}`);
    if (event.kind !== "wrote") continue;
    const { who, fence, accepted, atMs } = event;
    const say = (message: string): void => {
      violations.push({ oracle: "O2 fenced store", atMs, lock, message: `${who} (fence ${fence}) ${message}` });
    };
    if (!given.has(`${who} ${fence}`)) say("wrote with a fence that it was never given");
    if (accepted && fence < highest) say(`was let in after fence ${highest}`);
    if (!accepted && fence >= highest) say(`was turned away, though nothing above ${highest} had been let in`);
    if (accepted && fence > highest) highest = fence;
  }
  return violations;
}
