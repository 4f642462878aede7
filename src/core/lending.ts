/** Which hold may go to which request in memory, and for how many requests claims may be at the store. */
import type { Backend } from "../contract/backend.ts";
import type { Hold } from "./hold.ts";
import type { Request, RequestList } from "./request.ts";

/** How long one process may pass a hold around before the store is asked who is next. */
const TURN_MS = 10;

/** True: the hold may go to this request in memory, without asking the store. */
export function mayLend(hold: Hold, request: Request, nowMs: number): boolean {
  const { options } = hold;
  if (!options.reusable || hold.outcome !== undefined || options.shareKey !== request.options.shareKey) return false;
  // It was extended for another ttl than the request asks for, or may have been.
  if (hold.claim.ttlMs !== options.ttlMs || hold.isShortened) return false;
  if (options.mode === "exclusive" && (hold.lent >= hold.run || hold.leases.length > 0)) return false;
  const isTurn = nowMs - hold.grantedAtMs < TURN_MS && !hold.isIdle;
  return (isTurn || mayStay(hold, nowMs)) && hold.isSure(nowMs);
}

/** The store says when others want it, and has said nothing; and the next lease has it for long enough. */
function mayStay(hold: Hold, nowMs: number): boolean {
  if (!hold.lingers || hold.isWanted || !hold.isConfirmed || hold.trouble !== undefined) return false;
  return hold.remainingMs(nowMs) >= hold.ttlMs / 2;
}

/** True: the hold is kept though nothing uses it. It may be given to no other any more, but its release and the next claim are one step then. */
export function mayLinger(hold: Hold, nowMs: number): boolean {
  if (!hold.lingers || hold.outcome !== undefined || hold.claim.ttlMs !== hold.options.ttlMs || hold.isShortened)
    return false;
  return mayStay(hold, nowMs) && hold.isSure(nowMs);
}

/** True: its release and the next claim may be one step. What is in doubt is asked for first, which a swap cannot do. */
export function canSwap(hold: Hold, backend: Backend, nowMs: number): boolean {
  if (backend.swap === undefined || hold.claim.minHoldMs > 0) return false;
  return hold.outcome === undefined && !hold.echoes && !hold.inDoubt(nowMs);
}

/** True: nothing is left of a grant that has come just now. It took too long, or the lock was stolen since, for a hold of this process. */
export function isOver(granted: Hold, holds: readonly Hold[]): boolean {
  return !granted.trusted(granted.grantedAtMs) || holds.some((hold) => isAfter(hold, granted));
}

/** That it was granted proves that older ones were ended by force, though the news of it was lost or is late. */
export function loseOlder(begun: Hold, holds: readonly Hold[]): void {
  for (const hold of holds.slice()) if (isAfter(begun, hold)) hold.lose({ kind: "gone" });
}

/** The one cannot have been granted before the other had ended. */
function isAfter(later: Hold, earlier: Hold): boolean {
  if (later.firstFence <= earlier.firstFence) return false;
  return [later, earlier].some(({ claim }) => claim.mode === "exclusive" && claim.limit === 1);
}

/** How many claims may be at the store for the head of the line. */
export function seatsFor(head: Request, line: RequestList, holds: readonly Hold[]): number {
  const { mode, limit } = head.options;
  if (limit > 1) return Math.min(limit - holds.length, line.countSame(head, limit));
  for (const hold of holds) {
    // Without a run there is nothing to hand over in memory: the next claim may queue in the store at once.
    if (hold.claim.mode === "exclusive" && (hold.run > 1 || mode === "shared")) return 0;
  }
  return 1;
}
