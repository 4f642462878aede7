/** The lines: what each event comes to, as fields and in words. Whatever others wrote is cleaned here. */
import { formatMs } from "../../contract/duration.ts";
import type {
  AcquireEvent,
  DeadlockEvent,
  ForceReleaseEvent,
  HoldEvent,
  LostEvent,
  RenewEvent,
} from "../../contract/events.ts";
import { clean } from "../clean.ts";
import { holdOutcome } from "../outcome.ts";
import { cleanHolders, cleanMembers } from "./holders.ts";
import type { Fields } from "./logger.ts";

export interface Line {
  readonly fields: Fields;
  readonly message: string;
}

export function lostLine({ backend, name, fence, reason, loss }: LostEvent): Line {
  const [lock, why] = [clean(name), clean(reason)];
  return {
    fields: { lock, backend: clean(backend), fence: String(fence), loss: loss.kind, reason: why },
    message: `lock ${lock} was lost: ${why}`,
  };
}

export function forceLine({ backend, name, fence, by, reason, done }: ForceReleaseEvent): Line {
  const [lock, who, why] = [clean(name), clean(by), clean(reason)];
  const what = done ? "was ended by force" : "was to be ended by force, but has no lease with that fence";
  return {
    fields: { lock, backend: clean(backend), fence: String(fence), by: who, reason: why, done },
    message: `lock ${lock} ${what}, by ${who}: ${why}`,
  };
}

export function deadlockLine({ backend, members, rejects, description }: DeadlockEvent): Line {
  const end = rejects ? ", and one of this process is rejected to end it" : "";
  return {
    fields: { backend: clean(backend), rejects, members: cleanMembers(members) },
    message: `a deadlock: ${clean(description)}${end}`,
  };
}

export function lateLine({ backend, asked, unknown, gone, tookMs, delayMs, ttlMs }: RenewEvent): Line {
  const what = unknown === 0 ? "were answered" : "have no answer";
  return {
    fields: {
      backend: clean(backend),
      asked,
      unknown,
      gone,
      ttlMs,
      delayMs: Math.round(delayMs),
      tookMs: Math.round(tookMs),
    },
    message: `renewals of ${asked} leases ${what} ${formatMs(delayMs)} after they were due, with a ttl of ${formatMs(ttlMs)}`,
  };
}

/** It has lasted that long, and goes on. */
export function longLine(event: AcquireEvent | HoldEvent, lastedMs: number): Line {
  const { lock, ...common } = commonOf(event);
  if ("ttlMs" in event) {
    return {
      fields: { lock, ...common, fence: String(event.fence), heldMs: lastedMs },
      message: `lock ${lock} has been held for ${formatMs(lastedMs)}, and still is`,
    };
  }
  const heldBy = cleanHolders(event.heldBy);
  const by = heldBy.length === 0 ? "" : `, held by ${String(heldBy[0]!["holder"])}`;
  return {
    fields: { lock, ...common, waitedMs: lastedMs, heldBy },
    message: `an acquire of lock ${lock} has waited for ${formatMs(lastedMs)}, and still does${by}`,
  };
}

export function waitedLine(event: AcquireEvent): Line {
  const { outcome, waitedMs = 0 } = event;
  const common = commonOf(event);
  return {
    fields: { ...common, outcome, waitedMs: Math.round(waitedMs) },
    message: `an acquire of lock ${common.lock} ended after ${formatMs(waitedMs)}: ${outcome}`,
  };
}

export function heldLine(event: HoldEvent): Line {
  const { fence, heldMs = 0 } = event;
  const end = holdOutcome(event);
  const common = commonOf(event);
  return {
    fields: { ...common, fence: String(fence), end, heldMs: Math.round(heldMs) },
    message: `lock ${common.lock} was held for ${formatMs(heldMs)}: ${end}`,
  };
}

function commonOf({ name, backend, mode }: AcquireEvent | HoldEvent): Fields & { readonly lock: string } {
  return { lock: clean(name), backend: clean(backend), mode };
}
