/** A quorum's options, checked once. */
import { type Chance, systemChance } from "../../contract/random.ts";
import { type Clock, systemClock } from "../../contract/clock.ts";
import { type Duration, MAX_TTL_MS, toMs } from "../../contract/duration.ts";
import { GroupTerms } from "./terms.ts";

export interface QuorumOptions {
  /**
   * The longest time for which anybody in the group asks: ttl and lock delay together, and `minHold`. A member that forgot
   * its leases abstains that long and a little more, so everybody in the group must say the same. @default "30s"
   */
  readonly maxTtl?: Duration | undefined;
  /** The members never forget a lease, not even when the power fails (Redis: `appendfsync always`). @default false */
  readonly durable?: boolean | undefined;
  /** How long one member's answer is waited for. A majority that answered is never kept waiting. @default "250ms" */
  readonly memberWait?: Duration | undefined;
  /** A member whose clock is further than this from the others' does not vote. @default "2s" */
  readonly maxClockOffset?: Duration | undefined;
  /** Let members in that may evict leases under memory pressure: then nothing holds. @default false */
  readonly allowEviction?: boolean | undefined;
  /** What to call each member in messages, in their order. @default the backend's name and its place, such as "redis#2" */
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
 * Longer than any lease that the member may have forgotten. The margin covers clocks that run at different rates, and the
 * time between a proposal and its vote plus twice the claimants' clock skew: so that fences proposed by the time of day
 * rise above the forgotten ones.
 */
function quarantineMs(maxTtlMs: number): number {
  return maxTtlMs + Math.ceil(maxTtlMs / 10) + 1000;
}
