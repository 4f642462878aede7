/**
 * How a holder that may linger learns that a claim waits, though members keep no queue: the claim tells it through the members that it
 * holds. Once for each lease that is in the way, and not with each round: waiters that are known when a lease is granted are in its votes.
 */
import type { Listener, Renewal } from "../../contract/backend.ts";
import type { ClaimState } from "./claim-state.ts";
import type { MemberLink } from "./member-link.ts";
import { ReleaseHints } from "./release-hints.ts";
import type { Round } from "./round.ts";

/** A claim that queues has lost a round: it listens for the release, and tells a holder that may linger. */
export function beginToWait(links: readonly MemberLink[], state: ClaimState, lost: Round): void {
  (state.hints ??= new ReleaseHints()).listen(links, state.claim.name, lost);
  tellHolder(links, state, lost);
}

/** A member says that a lease of this process is wanted. */
export function passOn(state: ClaimState | undefined, listener: Listener | undefined): void {
  if (state === undefined || state.ended) return;
  state.wanted = true;
  listener?.wanted?.(state.claim.id);
}

/** Said again with each renewal: otherwise one would take it back. */
export function withWanted(renewal: Renewal, state: ClaimState | undefined): Renewal {
  return renewal.held === true && state?.wanted === true ? { ...renewal, wanted: true } : renewal;
}

function tellHolder(links: readonly MemberLink[], state: ClaimState, lost: Round): void {
  for (const link of links) {
    const vote = lost.vote(link);
    if (vote?.vote !== "held" || vote.lingerMs === undefined || vote.fence === state.toldFence) continue;
    const { fence } = vote;
    state.toldFence = fence;
    const holding = links.filter((one) => {
      const its = lost.vote(one);
      return its?.vote === "held" && its.fence === fence;
    });
    // A hint: what is lost of it costs time.
    for (const { member } of holding) member.want?.(state.claim.name).catch(() => {});
    return;
  }
}
