/** Release: at every member that was asked; a majority's answers say whether the lease was ours until then. */
import { LockBackendError, type MemberVote, quote } from "../../contract/errors.ts";
import type { ClaimState } from "./claim-state.ts";
import { inWords } from "./errors.ts";
import type { MemberLink } from "./member-link.ts";
import type { Settings } from "./options.ts";
import { majorityOf } from "./votes.ts";

/**
 * True: a majority held it until now. False: none can have. Rejects where too few members answered to know. `minHoldMs`: what
 * the release says, which for a lease that was never used is 0, whatever was asked for.
 */
export function releaseAll(
  links: readonly MemberLink[],
  settings: Settings,
  state: ClaimState,
  minHoldMs: number,
  known: () => void,
  unsure: () => void,
): Promise<boolean> {
  const { clock, memberWaitMs } = settings;
  const round = state.held!;
  const { released } = state;
  const claim = round.claim.minHoldMs === minHoldMs ? round.claim : { ...round.claim, minHoldMs };
  return new Promise((resolve, reject) => {
    let open = true;
    const late = (): void => {
      open = false;
      unsure();
      reject(unknown(links, state));
    };
    const timer = clock.setTimer(late, memberWaitMs, true);
    const decide = (): void => {
      const was = open ? decision(links.length, state) : undefined;
      if (was === undefined) return;
      open = false;
      clock.clearTimer(timer);
      known();
      resolve(was);
    };
    for (const link of links) {
      if (!round.hasAsked(link)) released[link.index] = false;
      if (released[link.index] !== undefined) continue;
      // If it fails, the link retries in the background; here this member's answer is missing then.
      link.release(claim, (was) => {
        released[link.index] = was;
        decide();
      });
    }
    decide();
  });
}

function decision(members: number, { released }: ClaimState): boolean | undefined {
  const majority = majorityOf(members);
  let yes = 0;
  let no = 0;
  for (const was of released) {
    if (was === true) yes++;
    if (was === false) no++;
  }
  if (yes >= majority) return true;
  return members - no < majority ? false : undefined;
}

function unknown(links: readonly MemberLink[], { claim, released }: ClaimState): LockBackendError {
  const votes = links.map((link): MemberVote => {
    const was = released[link.index];
    if (was === undefined) return { member: link.label, vote: "slow", detail: "has not confirmed" };
    return { member: link.label, vote: was ? "granted" : "low", detail: was ? "released" : "did not hold it" };
  });
  const message = `Lock ${quote(claim.name)}: its release was not confirmed by a majority: ${inWords(votes)}.`;
  return new LockBackendError("quorum", claim.name, message, { votes });
}
