/** Who may have a lock next, as far as this process can tell by itself: the rules of the queue in front of it. */
import type { Hold } from "./hold.ts";
import type { Line, Ticket } from "./ticket.ts";

/** How long one process may pass a hold around before the store is asked who is next. */
const TURN_MS = 10;

/** True: the hold may go to this ticket in memory, without a word to the store. */
export function mayLend(hold: Hold, ticket: Ticket, nowMs: number): boolean {
  const { spec } = hold;
  if (!spec.lendable || spec.shape !== ticket.spec.shape) return false;
  if (spec.mode === "exclusive" && (hold.lent >= hold.run || hold.leases.length > 0)) return false;
  return nowMs - hold.grantedAtMs < TURN_MS && hold.isSure(nowMs);
}

/** True: what this process holds, for sure and now, is in this ticket's way. What is in doubt may be free by now. */
export function isBusyFor({ spec: { mode, limit } }: Ticket, holds: readonly Hold[], nowMs: number): boolean {
  let taken = 0;
  for (const hold of holds) {
    if ((mode === "exclusive" || hold.claim.mode === "exclusive") && hold.isSure(nowMs)) taken++;
  }
  return taken >= limit;
}

/** How many claims may be at the store for the head of the line. */
export function seatsFor(head: Ticket, line: Line, holds: readonly Hold[]): number {
  const { mode, limit } = head.spec;
  if (limit > 1) return Math.min(limit - holds.length, line.countSame(head, limit));
  for (const hold of holds) {
    // Without a run there is nothing to hand over in memory: the next claim may queue in the store at once.
    if (hold.claim.mode === "exclusive" && (hold.run > 1 || mode === "shared")) return 0;
  }
  return 1;
}
