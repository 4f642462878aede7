/** What a Redis server's own words mean for locks. Shared by the checks of one server and of a quorum's members. */
import type { Backend } from "../../contract/backend.ts";
import { systemClock } from "../../contract/clock.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { within } from "../../contract/time-limit.ts";
import type { Identity } from "../../backends/redis/index.ts";
import type { Finding } from "./report.ts";

const ANSWER_MS = 3000;
const CLOCK_OFF_MS = 5000;

export interface Identified {
  readonly identity: Identity;
  /** How far its wall clock is ahead of ours, known to within half of the round trip. */
  readonly clockOffsetMs: number;
  readonly roundTripMs: number;
}

/** Asks a server who it is. Rejects with a {@link LockBackendError} when it does not say so in time. */
export async function ask(member: Backend): Promise<Identified> {
  if (!("identify" in member)) throw new TypeError("Expected a Redis backend");
  const { identify } = member as { identify: () => Promise<Identity> };
  // The first answer pays for the connection; the second is the one to measure.
  await answerOf(identify.call(member));
  const sentAtMs = performance.now();
  const identity = await answerOf(identify.call(member));
  const roundTripMs = performance.now() - sentAtMs;
  return { identity, roundTripMs, clockOffsetMs: identity.wallMs - (Date.now() - roundTripMs / 2) };
}

/** Who it must be: a primary, and of the kind that the URL says. */
export function role({ role: found, cluster }: Identity, wantsCluster: boolean): Finding {
  const check = "role";
  if (found === "sentinel") {
    return {
      level: "broken",
      check,
      text: "this is a sentinel, which holds no data; use redis+sentinel://host:port/service",
    };
  }
  if (found === "slave") {
    return { level: "broken", check, text: "this is a replica; use its primary's address, or redis+sentinel://" };
  }
  if (cluster && !wantsCluster)
    return { level: "broken", check, text: "this is a node of a cluster; use redis+cluster://" };
  if (!cluster && wantsCluster) return { level: "broken", check, text: "this is not a cluster; use redis://" };
  return { level: "good", check, text: cluster ? "it is a cluster's primary" : "it is a primary" };
}

export function eviction({ policy, maxMemory }: Identity): Finding {
  const check = "eviction";
  if (policy === "noeviction")
    return { level: "good", check, text: "noeviction: it never throws leases or outcomes away" };
  if (policy === "") return { level: "unknown", check, text: "it does not say whether it evicts" };
  const fix = "CONFIG SET maxmemory-policy noeviction";
  if (maxMemory === 0) {
    return { level: "weak", check, text: `its policy is ${policy}, harmless while maxmemory is 0; ${fix}` };
  }
  return {
    level: "broken",
    check,
    text: `its policy is ${policy}: it throws leases, and outcomes that once() keeps, away when memory is short, so that work is done again; ${fix}`,
  };
}

export function clock({ clockOffsetMs }: Identified): Finding {
  const check = "clock";
  if (!Number.isFinite(clockOffsetMs)) return { level: "unknown", check, text: "it does not report its time" };
  const text = `its wall clock is ${inWords(clockOffsetMs)} ours`;
  if (Math.abs(clockOffsetMs) < CLOCK_OFF_MS) return { level: "good", check, text };
  return {
    level: "weak",
    check,
    text: `${text}; only its clock counts for leases, but correct one of the two`,
  };
}

function inWords(offsetMs: number): string {
  const ms = Math.round(offsetMs);
  return `${Math.abs(ms)} ms ${ms < 0 ? "behind" : "ahead of"}`;
}

async function answerOf(asked: Promise<Identity>): Promise<Identity> {
  const answer = await within(systemClock, asked, ANSWER_MS);
  if (answer !== undefined) return answer;
  throw new LockBackendError("redis", "", `The store has not answered for ${ANSWER_MS / 1000} seconds.`);
}
