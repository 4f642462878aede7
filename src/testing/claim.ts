/** The one place that builds a claim for checks and tests: a plain exclusive claim, and whatever the caller changes. */
import type { Claim } from "../contract/backend.ts";
import { systemChance } from "../contract/random.ts";
import { checkOptions, toClaim } from "../core/options.ts";

const PLAIN = checkOptions({ ttl: 60_000, renew: false }, {});

/** A new claim with an id of its own. The default name is new as well, so it disturbs nothing else in the store. */
export function newClaim(change: Partial<Claim> = {}): Claim {
  const name = change.name ?? `test:${systemChance.id()}`;
  return { ...toClaim(systemChance.id(), name, "test:1", PLAIN, true), ...change };
}

/** Another claim to the same lock, with the same terms. */
export function rivalOf(claim: Claim, change: Partial<Claim> = {}): Claim {
  return { ...claim, id: systemChance.id(), ...change };
}
