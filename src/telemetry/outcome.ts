/** How acquires, leases and renewals ended, in few words, without the names of locks: messages of errors have them. */
import type { AcquireEvent, HoldEvent, RenewEvent } from "../contract/events.ts";
import { isA, LockLostError } from "../contract/errors.ts";

/** Codes of ours. Anything else may hold what its author likes. */
const CODE = /^ERR_(?:LOCK_[A-Z]{1,20}|FENCE_REJECTED)$/;
const NAMES: ReadonlySet<unknown> = new Set(["AbortError", "TimeoutError", "TypeError"]);
/** As the semantic conventions have it, for what has no name of its own. */
const OTHER = "_OTHER";

function errorType(error: unknown): string {
  try {
    const { code, name } = error as { readonly code?: unknown; readonly name?: unknown };
    if (typeof code === "string" && CODE.test(code)) return code;
    return NAMES.has(name) ? (name as string) : OTHER;
  } catch {
    // A foreign getter, or no object at all.
    return OTHER;
  }
}

/** `error.type` of an acquire. To be busy is an answer, and a caller that gave up has had its way. */
export function acquireErrorType({ outcome, error }: AcquireEvent): string | undefined {
  return outcome === "timeout" || outcome === "error" ? errorType(error) : undefined;
}

/** How a lease ended. At its loss it may not have been released yet. */
export function holdOutcome({ error, end }: HoldEvent): "released" | "lost" | "unknown" {
  return error === undefined ? (end ?? "unknown") : "lost";
}

export function holdErrorType({ error }: HoldEvent): string | undefined {
  return error === undefined ? undefined : errorType(error);
}

/** Why it was lost: the kind, which is one of few. */
export function lossKind({ error }: HoldEvent): string | undefined {
  return isA(LockLostError, error) ? error.loss.kind : undefined;
}

/** The worst answer of the batch. */
export function renewOutcome({ unknown, gone }: RenewEvent): "renewed" | "gone" | "unknown" {
  if (unknown > 0) return "unknown";
  return gone > 0 ? "gone" : "renewed";
}
