/** connect(): locks by URL. */
import type { Locks, LocksOptions } from "./core/api.ts";
import type { Backend } from "./contract/backend.ts";
import { checkCreateOptions } from "./core/create-options.ts";
import { createLocks } from "./core/locks.ts";

/**
 * Opens a backend by URL. Without one: `HOLDFAST_URL`, else `file:`, the embedded backend of this machine. Only a missing
 * argument means that: one that is empty or undefined is a mistake, and would silently be a lock of this machine alone.
 */
export async function openBackend(...given: readonly [] | readonly [url: string]): Promise<Backend> {
  return await (await import("./backends/open-url.ts")).openUrl(given);
}

/** Opens the locks that `HOLDFAST_URL` names, or the embedded ones of this machine. */
export function connect(): Promise<Locks>;
/** The same, with defaults. */
export function connect(defaults: LocksOptions): Promise<Locks>;
/** Opens locks by URL. Closing them closes the connection that was opened for them. */
export function connect(url: string, defaults?: LocksOptions): Promise<Locks>;
export async function connect(...given: readonly unknown[]): Promise<Locks> {
  const [first, second] = given;
  const byDefault = given.length === 0 || (given.length === 1 && typeof first === "object" && first !== null);
  const defaults = (byDefault ? first : second) as LocksOptions | undefined;
  // Wrong ones fail before anything is opened.
  if (defaults !== undefined) checkCreateOptions(defaults);
  return createLocks(await (byDefault ? openBackend() : openBackend(first as string)), defaults);
}
