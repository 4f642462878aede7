/** A grant on its way from the store to its user, or back again. */
import type { Claim, Granted, KeptOutcome } from "../contract/backend.ts";
import type { SentAt } from "../contract/clock.ts";

/** A grant that can be believed. */
export interface Grant {
  readonly granted: Granted;
  /** When the request that brought it left. */
  readonly sent: SentAt;
  /** When it was heard of. */
  readonly heardAtMs: number;
  readonly trustedUntilMs: number;
  /** An earlier question for the same claim had no answer. It may yet arrive, and take the lock again when this lease is over. */
  readonly echoes: boolean;
}

/** The claim as it goes back when no user ever had what it asked for: its `minHold` does not count, and it does not linger. */
export function unused(claim: Claim): Claim {
  if (claim.minHoldMs === 0 && claim.lingerMs === undefined) return claim;
  return { ...claim, minHoldMs: 0, lingerMs: undefined };
}

/** The lock's work was done: what came of it, by an answer to a question that left then. */
export interface Done {
  readonly outcome: KeptOutcome;
  readonly sentAtMs: number;
}

/** A grant that was long on its way is asked for again, with the same claim: much may have happened to it since. */
export function isFresh({ fromMs, ttlMs }: Granted, claim: Claim, sent: SentAt, nowMs: number): boolean {
  const ageMs = nowMs - (fromMs ?? sent.atMs);
  return ageMs < ((ttlMs ?? claim.ttlMs) * 2) / 3;
}
