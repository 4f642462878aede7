/** How a backend refuses what it cannot do: in the words with which it says so in `can`, and never by ignoring it. */
import type { Abilities, Claim, Outcome } from "./backend.ts";
import { LockBackendError, quote } from "./errors.ts";

/** Why the backend cannot do this, as an error that no retry helps against. */
export function declined(backend: string, can: Abilities, ability: keyof Abilities, lock: string): LockBackendError {
  const subject = lock === "" ? `The ${backend} store` : `Lock ${quote(lock)}`;
  const message = `${subject}: ${can[ability] ?? "this backend does not say that it can"}.`;
  return new LockBackendError(backend, lock, message, { fatal: true });
}

/** Throws where a claim wants an outcome, or leaves one, and the backend keeps none. */
export function refuseOutcomes(backend: string, can: Abilities, claim: Claim, outcome?: Outcome): void {
  if (outcome === undefined && claim.wantsOutcome !== true) return;
  throw declined(backend, can, "outcomes", claim.name);
}
