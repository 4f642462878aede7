/** A quorum's options, and what a quorum cannot do: checked before a member is asked. */
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Claim, Member } from "../../contract/backend.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { type Duration, formatMs, MAX_TTL_MS, toMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { type Chance, systemChance } from "../../contract/random.ts";
import { warn } from "../../contract/warning.ts";
import { GroupTerms } from "./member-terms.ts";

export interface QuorumOptions {
  /**
   * The longest time that any process in the group asks for: ttl and lock delay together, and `minHold`. A member that lost
   * its data abstains that long and a little more, so all processes must use the same. @default "30s"
   */
  readonly maxTtl?: Duration | undefined;
  /** The members never lose a lease, not even in a power cut (Redis: `appendfsync always`). @default false */
  readonly durable?: boolean | undefined;
  /** How long to wait for one member's answer. A majority that answered never waits for the others. @default "250ms" */
  readonly memberWait?: Duration | undefined;
  /** A member whose clock is further than this from the others' does not vote. @default "2s" */
  readonly maxClockOffset?: Duration | undefined;
  /** Accept members that may evict leases under memory pressure: then there is no mutual exclusion. @default false */
  readonly allowEviction?: boolean | undefined;
  /** What to call each member in messages, in their order. @default the backend's name and its number, such as "redis#2" */
  readonly labels?: readonly string[] | undefined;
  /** For tests. @default the system's clock */
  readonly clock?: Clock | undefined;
  /** For tests. @default the system's randomness */
  readonly chance?: Chance | undefined;
}

const DEFAULTS = {
  maxTtl: "30s",
  durable: false,
  memberWait: "250ms",
  maxClockOffset: "2s",
  allowEviction: false,
} as const satisfies QuorumOptions;

export interface Settings {
  readonly maxTtlMs: number;
  readonly memberWaitMs: number;
  readonly maxClockOffsetMs: number;
  readonly terms: GroupTerms;
  readonly clock: Clock;
  readonly chance: Chance;
}

export function toSettings(options: QuorumOptions): Settings {
  const maxTtlMs = toMs(options.maxTtl ?? DEFAULTS.maxTtl, "maxTtl", { maxMs: MAX_TTL_MS });
  return {
    maxTtlMs,
    memberWaitMs: toMs(options.memberWait ?? DEFAULTS.memberWait, "memberWait", { maxMs: 60_000 }),
    maxClockOffsetMs: toMs(options.maxClockOffset ?? DEFAULTS.maxClockOffset, "maxClockOffset"),
    terms: new GroupTerms({
      quarantineMs: (options.durable ?? DEFAULTS.durable) ? 0 : quarantineMs(maxTtlMs),
      allowEviction: options.allowEviction ?? DEFAULTS.allowEviction,
    }),
    clock: options.clock ?? systemClock,
    chance: options.chance ?? systemChance,
  };
}

/**
 * Longer than any lease that the member may have lost. The margin covers clocks that run at different rates, and the time
 * between a proposal and its vote plus twice the clients' clock skew: so fences proposed by the time of day rise above the
 * lost ones.
 */
function quarantineMs(maxTtlMs: number): number {
  return maxTtlMs + Math.ceil(maxTtlMs / 10) + 1000;
}

/** Throws a fatal error for a claim that no quorum of this group can serve. */
export function checkClaim(claim: Claim, maxTtlMs: number): void {
  const unfit = unfitClaim(claim, maxTtlMs);
  if (unfit !== undefined) throw unfit;
}

/** Why no quorum of this group can serve the claim. `undefined`: it can. */
export function unfitClaim(
  { name, limit, ttlMs, lockDelayMs, minHoldMs }: Claim,
  maxTtlMs: number,
): LockBackendError | undefined {
  if (limit > 1) {
    const why = `a quorum cannot count to ${limit}. Every member would see another set of holders, and more than ${limit} could have a majority each. Use \`limit: 1\`, or one Redis`;
    return new LockBackendError("quorum", name, `Lock ${quote(name)}: ${why}.`, { fatal: true });
  }
  const longestMs = Math.max(ttlMs + lockDelayMs, minHoldMs);
  if (longestMs <= maxTtlMs) return undefined;
  const why = `its ttl and lockDelay, or its minHold, come to ${formatMs(longestMs)}, but this quorum's maxTtl is ${formatMs(maxTtlMs)}. A member that lost its data abstains that long. Ask for less, or raise \`maxTtl\` in all processes that use these members`;
  return new LockBackendError("quorum", name, `Lock ${quote(name)}: ${why}.`, { fatal: true });
}

/** Throws a fatal error where a store turned out to be no possible member. */
export function checkFit(
  lock: string,
  members: readonly { readonly label: string; readonly unfit: LockBackendError | undefined }[],
): void {
  for (const { label, unfit } of members) {
    if (unfit === undefined) continue;
    const message = `${label} cannot be a member of this quorum: ${unfit.message}`;
    throw new LockBackendError("quorum", lock, message, { fatal: true, cause: unfit });
  }
}

/** Throws a TypeError for members that cannot form a quorum, and warns of an even number. */
export function checkMembers(members: readonly Member[]): void {
  if (members.length === 0)
    throw new ArgumentError("Expected `members` to be at least one backend, better three or five");
  for (const member of members) {
    if (typeof member.vote !== "function") {
      throw new ArgumentError(
        `Expected \`members\` to be backends that can vote, such as redis(), got ${quote(member.name)}`,
      );
    }
  }
  if (new Set(members).size < members.length)
    throw new ArgumentError("Expected `members` to be different from each other");
  if (members.length % 2 === 0) {
    warn(
      "HOLDFAST_EVEN_QUORUM",
      `A quorum of ${members.length} members survives no more failures than one of ${members.length - 1}, and splits its votes more often. Use an odd number.`,
    );
  }
}
