/** The errors of a quorum, in words: "no quorum" comes with the answer of each member. */
import type { Vote } from "../../contract/backend.ts";
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, type MemberVote, quote } from "../../contract/errors.ts";
import { firstFence } from "./ballot.ts";
import type { NoVote } from "./votes.ts";

export function describe(member: string, vote: Vote | NoVote | undefined): MemberVote {
  if (vote === undefined) return { member, vote: "slow", detail: "did not answer before the decision" };
  return { member, vote: vote.vote, detail: detail(vote) };
}

function detail(vote: Vote | NoVote): string {
  switch (vote.vote) {
    case "granted":
      return "";
    case "held":
      return `by ${vote.by} (fence ${firstFence(vote.fence)}), for another ${formatMs(vote.remainingMs)} at most`;
    case "low":
      return `has granted fence ${vote.fence} before`;
    case "recovering":
      return `lost its data; abstains for ${formatMs(vote.forMs)}`;
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
  recovering: "recovering",
  unreachable: "unreachable",
  slow: "too slow",
  "clock-off": "clock off",
  twin: "no server of its own",
};

/** One line: `redis#1 granted; redis#2 unreachable (ECONNREFUSED); redis#3 recovering (…)`. */
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
  const advice = votes.some(({ vote }) => vote === "recovering")
    ? " A member that lost its data (restart, flush or fail-over) abstains until every lease that it may have lost has expired; if it certainly lost none, end that with `holdfast doctor --init`."
    : "";
  return new LockBackendError(
    "quorum",
    lock,
    `Lock ${quote(lock)} needs the votes of ${majority} of ${votes.length} members: ${inWords(votes)}.${advice}`,
    { votes, fatal },
  );
}

/** The votes came so late that the lease had ended when they were counted. */
export function tooLate(lock: string, tookMs: number, ttlMs: number, votes: readonly MemberVote[]): LockBackendError {
  const message = `Lock ${quote(lock)}: a majority granted it only after ${formatMs(tookMs)}, too late for a ttl of ${formatMs(ttlMs)}: ${inWords(votes)}. It was released.`;
  return new LockBackendError("quorum", lock, message, { votes });
}
