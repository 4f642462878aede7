/**
 * What a backend answers to a claim, looked at before anybody believes it. A custom one may have mistakes: a fence that is
 * none would be noticed only at the guard, and a grant that is over before it begins would be asked for without a pause.
 */
import type { Claim, Granted, Refused } from "./backend.ts";
import { driftMs } from "./trust.ts";

const MAX_FENCE = 2n ** 63n - 1n;

/** False: it says neither yes nor no, or grants what cannot be. See mistake.ts for how that is told. */
export function isAnswer(answer: Granted | Refused | null | undefined, nowMs: number): boolean {
  if (answer?.granted !== true) return answer?.granted === false;
  const { fence, run, ttlMs = 1, fromMs = nowMs } = answer;
  if (typeof fence !== "bigint" || fence < 1n || fence > MAX_FENCE) return false;
  if (!Number.isSafeInteger(run) || run < 1 || !Number.isFinite(ttlMs) || ttlMs <= 0) return false;
  if (run > 1 && fence + BigInt(run) - 1n > MAX_FENCE) return false;
  // Another clock, mostly the wall clock: it would be trusted for ever.
  return Number.isFinite(fromMs) && fromMs <= nowMs;
}

/** How long a grant may still be trusted. */
export function leftMs({ fromMs, ttlMs }: Granted, claim: Claim, sentAtMs: number, nowMs: number): number {
  const lastsMs = ttlMs ?? claim.ttlMs;
  return (fromMs ?? sentAtMs) + lastsMs - driftMs(lastsMs) - nowMs;
}
