/** Which lease the function that is running is inside of: the program's own view of what the core calls re-entry. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Tenancy } from "./tenancy.ts";

/** One for all programs: each slows every promise. */
const storage = new AsyncLocalStorage<Tenancy | undefined>();

export function around(): Tenancy | undefined {
  return storage.getStore();
}

export function inside<T>(tenancy: Tenancy | undefined, act: () => T): T {
  return storage.run(tenancy, act);
}
