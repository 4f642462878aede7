/** What members answered, in words: so that "no quorum" comes with the reason of each. */
import type { Holding, Vote } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, type MemberVote, quote } from "../../contract/errors.ts";
import { ballotAbove, firstFence } from "./ballot.ts";

/** No vote, and why. */
export type Silence =
  | { readonly vote: "unreachable"; readonly cause: unknown }
  | { readonly vote: "slow" | "clock-off" | "twin"; readonly detail: string };

export function describe(member: string, vote: Vote | Silence | undefined): MemberVote {
  if (vote === undefined) return { member, vote: "slow", detail: "was not waited for" };
  return { member, vote: vote.vote, detail: detail(vote) };
}

function detail(vote: Vote | Silence): string {
  switch (vote.vote) {
    case "granted":
      return "";
    case "held":
      return `by ${vote.by} (fence ${firstFence(vote.fence)}), for another ${formatMs(vote.remainingMs)} at most`;
    case "low":
      return `has granted fence ${vote.fence} before`;
    case "young":
      return `forgot its leases (restart, flush or fail-over) and abstains for ${formatMs(vote.forMs)}`;
    case "unreachable":
      return vote.cause instanceof Error ? vote.cause.message : String(vote.cause);
    case "slow":
    case "clock-off":
    case "twin":
      return vote.detail;
  }
}

const WORDS: Readonly<Record<MemberVote["vote"], string>> = {
  granted: "granted",
  held: "held",
  low: "refused the ballot",
  young: "too young",
  unreachable: "unreachable",
  slow: "too slow",
  "clock-off": "clock off",
  twin: "no server of its own",
};

/** One line: `redis#1 granted; redis#2 unreachable (ECONNREFUSED); redis#3 too young (…)`. */
export function inWords(votes: readonly MemberVote[]): string {
  return votes
    .map(({ member, vote, detail: why }) => `${member} ${WORDS[vote]}${why === "" ? "" : ` (${why})`}`)
    .join("; ");
}

export function noQuorum(
  lock: string,
  majority: number,
  votes: readonly MemberVote[],
  fatal: boolean,
): LockBackendError {
  const advice = votes.some(({ vote }) => vote === "young")
    ? " A member is too young until every lease that it may have forgotten is over; where it surely lost none, end that with `holdfast doctor --init`."
    : "";
  return new LockBackendError(
    "quorum",
    lock,
    `Lock ${quote(lock)} needs the votes of ${majority} of ${votes.length} members: ${inWords(votes)}.${advice}`,
    { votes, fatal },
  );
}

/** The votes came, but so late that the lease would have ended by the time they were counted. */
export function tooLate(lock: string, tookMs: number, ttlMs: number, votes: readonly MemberVote[]): LockBackendError {
  const message = `Lock ${quote(lock)}: a majority granted it only after ${formatMs(tookMs)}, too late for a ttl of ${formatMs(ttlMs)}: ${inWords(votes)}. It was given back.`;
  return new LockBackendError("quorum", lock, message, { votes });
}

/** True where so many members said that asking again cannot help that no majority is left. */
export function isHopeless(votes: readonly (Vote | Silence)[], members: number, majority: number): boolean {
  const never = votes.filter(
    (vote) => vote.vote === "unreachable" && vote.cause instanceof LockBackendError && vote.cause.fatal,
  );
  return members - never.length < majority;
}

/** Who is in the way, one entry per lease, as far as the votes tell. */
export function heldBy(name: string, votes: readonly (Vote | Silence)[]): readonly Holding[] {
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
    });
  }
  return [...holdings.values()];
}

/** The ballot to try next where some member found this one too low, and nobody else is in the way of a majority. */
export function ballotToRaise(
  votes: readonly (Vote | Silence)[],
  members: number,
  majority: number,
  ballot: bigint,
): bigint | undefined {
  const lows = votes.flatMap((vote) => (vote.vote === "low" ? [vote.fence] : []));
  const willing = votes.filter(({ vote }) => vote === "granted" || vote === "low").length;
  const unheard = members - votes.length;
  if (lows.length === 0 || willing + unheard < majority) return undefined;
  return ballotAbove(lows.reduce((a, b) => (a > b ? a : b), ballot));
}
