/** The one place that builds a claim for checks and tests: a plain exclusive claim, and whatever the caller changes. */
import type { Claim } from "../contract/backend.ts";
import { systemChance } from "../contract/random.ts";

/** A new claim with an id of its own. The default name is new as well, so it disturbs nothing else in the store. */
export function newClaim(change: Partial<Claim> = {}): Claim {
  return {
    id: systemChance.id(),
    name: change.name ?? `test:${systemChance.id()}`,
    mode: "exclusive",
    limit: 1,
    ttlMs: 60_000,
    lockDelayMs: 0,
    minHoldMs: 0,
    holder: "test:1",
    meta: {},
    queues: true,
    ...change,
  };
}

/** Another claim to the same lock, with the same terms. */
export function rivalOf(claim: Claim, change: Partial<Claim> = {}): Claim {
  return { ...claim, id: systemChance.id(), ...change };
}
