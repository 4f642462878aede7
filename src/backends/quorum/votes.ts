/** What the members' votes mean together. */
import type { Holding, Vote } from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { ballotAbove, firstFence } from "./ballot.ts";

/** The member did not vote, and why. */
export type NoVote =
  | { readonly vote: "unreachable"; readonly cause: unknown }
  | { readonly vote: "slow" | "clock-off" | "twin"; readonly detail: string };

export function majorityOf(members: number): number {
  return Math.floor(members / 2) + 1;
}

/** True where a retry cannot help: so many members failed for good that no majority is left. */
export function isHopeless(votes: readonly (Vote | NoVote)[], members: number, majority: number): boolean {
  const never = votes.filter(
    (vote) => vote.vote === "unreachable" && vote.cause instanceof LockBackendError && vote.cause.fatal,
  );
  return members - never.length < majority;
}

/** The holders, one entry per lease, as far as the votes show. */
export function heldBy(name: string, votes: readonly (Vote | NoVote)[]): readonly Holding[] {
  const holdings = new Map<bigint, Holding>();
  for (const vote of votes) {
    if (vote.vote !== "held") continue;
    const fence = firstFence(vote.fence);
    const known = holdings.get(fence);
    holdings.set(fence, {
      name,
      mode: "exclusive",
      limit: 1,
      holder: vote.by,
      fence,
      heldMs: Math.max(vote.heldMs ?? 0, known?.heldMs ?? 0),
      remainingMs: Math.max(vote.remainingMs, known?.remainingMs ?? 0),
      meta: {},
      ...(vote.lingerMs !== undefined && { lingerMs: vote.lingerMs }),
    });
  }
  return [...holdings.values()];
}

/** The ballot to try next where a member found this one too low, and no other claim blocks a majority. */
export function ballotToRaise(
  votes: readonly (Vote | NoVote)[],
  members: number,
  majority: number,
  ballot: bigint,
): bigint | undefined {
  const lows = votes.flatMap((vote) => (vote.vote === "low" ? [vote.fence] : []));
  const willing = votes.filter(({ vote }) => vote === "granted" || vote === "low").length;
  const unanswered = members - votes.length;
  if (lows.length === 0 || willing + unanswered < majority) return undefined;
  return ballotAbove(lows.reduce((a, b) => (a > b ? a : b), ballot));
}
