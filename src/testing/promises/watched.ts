/** Waits for news of a claim as the core does. A backend without watch() has none: its callers ask again. */
import type { Backend, Claim, Granted } from "../../contract/backend.ts";

export async function watched(backend: Backend, claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
  return backend.watch === undefined ? undefined : await backend.watch(claim, signal);
}
