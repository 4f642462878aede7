/** What this process knows of one claim: its rounds, whether one was won, and until when that may be trusted. */
import type { Claim, Granted } from "../../contract/backend.ts";
import { firstFence, RUN } from "./ballot.ts";
import { Hints } from "./release-hints.ts";
import { Pace } from "./backoff.ts";
import { driftMs, type Round } from "./round.ts";
import type { Seat } from "./member-link.ts";

const NOWHERE: ReadonlySet<Seat> = new Set();

export class Standing {
  readonly claim: Claim;
  readonly pace: Pace = new Pace();
  /** None before the first refusal. */
  hints: Hints | undefined;
  /** The round under way, or the one that was won. */
  round: Round | undefined;
  /** Only a majority that answers before this instant can prolong it. */
  trustedUntilMs: number = -Infinity;
  /** Released, or lost: nothing may be asked for in its name any more. */
  ended = false;
  /** What each member said to the release: asked again, a member would say no. */
  readonly released: (boolean | undefined)[] = [];
  /** Members that told, unasked, that the lease is gone there. */
  lostAt: ReadonlySet<Seat> = NOWHERE;
  /** A reason to ask the members came before the round was won. */
  doubted = false;

  /** The members are being asked whether they still hold it. `again`: what gave rise to another question came after that one. */
  verifying: boolean | "again" = false;

  constructor(claim: Claim) {
    this.claim = claim;
  }

  /** Another round begins, of which nobody has told anything yet. */
  forgetNews(): void {
    this.lostAt = NOWHERE;
    this.doubted = false;
  }

  get held(): Round | undefined {
    return this.round?.isWon === true ? this.round : undefined;
  }

  /** Learns from a round how long members take, and how many others wait. */
  note(round: Round): void {
    this.pace.note(round.tookMs, Math.max(0, round.waiters() - (this.hints?.isListening === true ? 1 : 0)));
  }

  /** Trust only moves forward, counted from when the question left. */
  trust(fromMs: number): void {
    const { ttlMs } = this.claim;
    this.trustedUntilMs = Math.max(this.trustedUntilMs, fromMs + ttlMs - driftMs(ttlMs));
  }

  granted(ballot: bigint, fromMs: number): Granted {
    // Readers hold together: a run would give a later reader's number to an earlier one.
    return { granted: true, fence: firstFence(ballot), run: this.claim.mode === "exclusive" ? RUN : 1, fromMs };
  }
}
