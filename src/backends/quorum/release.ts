/** Release: every member that was asked lets go; a majority's word says whether the lease was ours until then. */
import { LockBackendError, type MemberVote, quote } from "../../contract/errors.ts";
import type { Settings } from "./options.ts";
import { majorityOf } from "./round.ts";
import type { Seat } from "./member-link.ts";
import type { Standing } from "./claim-state.ts";
import { inWords } from "./votes.ts";

/** True: a majority held it until now. False: none can have. Rejects where too few members answered to know. */
export function releaseAll(
  seats: readonly Seat[],
  settings: Settings,
  standing: Standing,
  known: () => void,
  unsure: () => void,
): Promise<boolean> {
  const { clock, memberWaitMs } = settings;
  const round = standing.held!;
  const { released } = standing;
  const claim =
    round.claim.minHoldMs === standing.claim.minHoldMs ? round.claim : { ...standing.claim, id: round.claim.id };
  return new Promise((resolve, reject) => {
    let open = true;
    const late = (): void => {
      open = false;
      unsure();
      reject(unknown(seats, standing));
    };
    const timer = clock.setTimer(late, memberWaitMs, true);
    const look = (): void => {
      const was = open ? verdict(seats.length, standing) : undefined;
      if (was === undefined) return;
      open = false;
      clock.clearTimer(timer);
      known();
      resolve(was);
    };
    for (const seat of seats) {
      if (!round.hasAsked(seat)) released[seat.place] = false;
      if (released[seat.place] !== undefined) continue;
      // Where it fails, the seat goes on trying by itself; here this member's word is missing then.
      seat.release(claim, (was) => {
        released[seat.place] = was;
        look();
      });
    }
    look();
  });
}

function verdict(members: number, { released }: Standing): boolean | undefined {
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

function unknown(seats: readonly Seat[], { claim, released }: Standing): LockBackendError {
  const votes = seats.map((seat): MemberVote => {
    const was = released[seat.place];
    if (was === undefined) return { member: seat.label, vote: "slow", detail: "has not confirmed" };
    return { member: seat.label, vote: was ? "granted" : "low", detail: was ? "released" : "did not hold it" };
  });
  const message = `Lock ${quote(claim.name)}: its release was not confirmed by a majority: ${inWords(votes)}.`;
  return new LockBackendError("quorum", claim.name, message, { votes });
}
