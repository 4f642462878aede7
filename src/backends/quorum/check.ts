/** What a quorum cannot do, said before anything is asked. */
import type { Claim, Member } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Seat } from "./member-link.ts";

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

/** Throws a TypeError for members that can form no quorum, and warns of a number that is unwise. */
export function checkMembers(members: readonly Member[]): void {
  if (members.length === 0) throw new TypeError("Expected `members` to be at least one backend, better three or five");
  for (const member of members) {
    if (typeof member.vote !== "function") {
      throw new TypeError(
        `Expected \`members\` to be backends that can vote, such as redis(), got ${quote(member.name)}`,
      );
    }
  }
  if (new Set(members).size < members.length) throw new TypeError("Expected `members` to be different from each other");
  if (members.length % 2 === 0) {
    process.emitWarning(
      `A quorum of ${members.length} members survives no more failures than one of ${members.length - 1}, and splits its votes more often. Use an odd number.`,
      { code: "HOLDFAST_EVEN_QUORUM" },
    );
  }
}
