/** What this process knows of one claim: its rounds, whether one was won, and how long that may be trusted. */
import type { Claim, Granted } from "../../contract/backend.ts";
import { driftMs } from "../../contract/answer.ts";
import { Backoff } from "./backoff.ts";
import { firstFence, RUN } from "./ballot.ts";
import type { MemberLink } from "./member-link.ts";
import type { ReleaseHints } from "./release-hints.ts";
import type { Round } from "./round.ts";

const NO_MEMBERS: ReadonlySet<MemberLink> = new Set();

export class ClaimState {
  /** As it was asked for last: a renewal may name another ttl. */
  claim: Claim;
  readonly backoff: Backoff = new Backoff();
  /** Undefined before the first refusal. */
  hints: ReleaseHints | undefined;
  /** The lease whose holder last learned from this claim that it waits. */
  toldFence: bigint | undefined;
  /** A claim waits for its lease, or did: members cannot tell that it waits no longer. */
  wanted = false;
  /** The round under way, or the one that was won. */
  round: Round | undefined;
  /** Only a majority that answers before this instant can prolong it. */
  trustedUntilMs: number = -Infinity;
  /** Released or lost: no further request may be sent for it. */
  ended = false;
  /** What each member answered to the release: asked again, a member would say no. */
  readonly released: (boolean | undefined)[] = [];
  /** Members that reported that they do not hold the lease any more. */
  lostAt: ReadonlySet<MemberLink> = NO_MEMBERS;
  /** A reason to ask the members came before the round was won. */
  doubted = false;
  /** The members are being asked whether they still hold it. `again`: a new reason came after that request. */
  verifying: boolean | "again" = false;

  constructor(claim: Claim) {
    this.claim = claim;
  }

  /** Another round begins: no member has reported on it yet. */
  resetReports(): void {
    this.lostAt = NO_MEMBERS;
    this.doubted = false;
  }

  get held(): Round | undefined {
    return this.round?.isWon === true ? this.round : undefined;
  }

  /** Learns from a round how long members take, and how many others wait. */
  learnFrom(round: Round): void {
    this.backoff.learn(round.tookMs, Math.max(0, round.waiters() - (this.hints?.isListening === true ? 1 : 0)));
  }

  /** Trust only moves forward, counted from when the request left: also after one for a shorter ttl. */
  trust(fromMs: number, ttlMs: number): void {
    this.trustedUntilMs = Math.max(this.trustedUntilMs, fromMs + ttlMs - driftMs(ttlMs));
  }

  granted(ballot: bigint, fromMs: number): Granted {
    // Readers hold together: a run would give a later reader's number to an earlier one.
    const run = this.claim.mode === "exclusive" ? RUN : 1;
    // A member may have said so before the round was won.
    this.wanted ||= this.claim.lingerMs !== undefined && this.backoff.waiters > 0;
    const wanted = this.wanted && ({ wanted: true } as const);
    return { granted: true, fence: firstFence(ballot), run, fromMs, mayLinger: true, ...wanted };
  }
}
