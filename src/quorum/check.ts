/** What a quorum cannot do, said before anything is asked. */
import type { Claim } from "../backend.ts";
import { formatMs } from "../duration.ts";
import { LockBackendError, quote } from "../errors.ts";
import type { Seat } from "./seat.ts";

/** Throws a fatal error for a claim that no quorum of this group can serve. */
export function checkClaim({ name, limit, ttlMs, lockDelayMs, minHoldMs }: Claim, maxTtlMs: number): void {
  if (limit > 1) {
    const why = `a quorum cannot count to ${limit}. Every member would see another set of holders, and more than ${limit} could have a majority each. Use \`limit: 1\`, or one Redis`;
    throw new LockBackendError("quorum", name, `Lock ${quote(name)}: ${why}.`, { fatal: true });
  }
  const longestMs = Math.max(ttlMs + lockDelayMs, minHoldMs);
  if (longestMs > maxTtlMs) {
    const why = `its ttl and lockDelay, or its minHold, come to ${formatMs(longestMs)}, but this quorum's maxTtl is ${formatMs(maxTtlMs)}. A member that forgot its leases abstains that long. Ask for less, or raise \`maxTtl\` for everybody who uses these members`;
    throw new LockBackendError("quorum", name, `Lock ${quote(name)}: ${why}.`, { fatal: true });
  }
}

/** Throws a fatal error where a member turned out to be none. */
export function checkFit(lock: string, seats: readonly Seat[]): void {
  for (const { label, unfit } of seats) {
    if (unfit === undefined) continue;
    const message = `${label} cannot be a member of this quorum: ${unfit.message}`;
    throw new LockBackendError("quorum", lock, message, { fatal: true, cause: unfit });
  }
}
