/** Which lease the function that is running is inside of: the program's own view of what the core calls re-entry. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { EventName } from "./program.ts";
import type { Tenancy } from "./tenancy.ts";

/** What happens by itself: its subscribers are inside of no lease, whatever set it off. */
const BY_ITSELF: readonly EventName[] = ["lost", "renew", "hold:error"];

/** One for all programs: each slows every promise. */
const storage = new AsyncLocalStorage<Tenancy | undefined>();

export function around(): Tenancy | undefined {
  return storage.getStore();
}

export function inside<T>(tenancy: Tenancy | undefined, act: () => T): T {
  return storage.run(tenancy, act);
}

/** Acts as a subscriber to that event. */
export function asSubscriber(event: EventName, act: () => void): void {
  if (BY_ITSELF.includes(event)) inside(undefined, act);
  else act();
}
