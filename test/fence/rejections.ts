/** Listens to what guards publish, for the tests of each guard. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";

import type { FenceRejectedEvent } from "../../src/fence/index.ts";

/** Collects the events published while `work` runs. */
export async function rejectionsOf(work: () => Promise<unknown>): Promise<FenceRejectedEvent[]> {
  const events: FenceRejectedEvent[] = [];
  const listen = (event: unknown): void => void events.push(event as FenceRejectedEvent);
  subscribe("holdfast:fence-rejected", listen);
  try {
    await work();
    return events;
  } finally {
    unsubscribe("holdfast:fence-rejected", listen);
  }
}
