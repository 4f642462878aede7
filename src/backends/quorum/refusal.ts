/** What a lost round means for its claim: refused, or unknown because too few members answered. */
import type { Refused } from "../../contract/backend.ts";
import type { ClaimState } from "./claim-state.ts";
import { noQuorum, tooLate } from "./errors.ts";
import type { MemberLink } from "./member-link.ts";
import { checkFit, type Settings } from "./options.ts";
import type { Round } from "./round.ts";
import { heldBy, isHopeless, majorityOf } from "./votes.ts";

/** Throws where it is unknown who holds the lock, or where the votes came too late. */
export function refusal(links: readonly MemberLink[], { chance }: Settings, state: ClaimState, round: Round): Refused {
  const { claim } = state;
  checkFit(claim.name, links);
  if (round.lapsed) throw tooLate(claim.name, round.tookMs, claim.ttlMs, round.report());
  const votes = round.votes();
  const silent = votes.filter(({ vote }) => vote !== "granted" && vote !== "held" && vote !== "low").length;
  const majority = majorityOf(links.length);
  // A member that had not answered when the round was lost may still have voted.
  if (links.length - silent < majority) {
    throw noQuorum(claim.name, majority, round.report(), isHopeless(votes, links.length, majority));
  }
  const retryMs = state.backoff.afterDefeat(votes, links.length, claim.ttlMs, chance);
  return { granted: false, heldBy: heldBy(claim.name, votes), retryMs };
}
