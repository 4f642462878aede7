/**
 * Redlock, with what its critics found missing: fences, renewal, and members that lost their data.
 *
 * N independent members behind one backend. A lease is a majority's votes for one ballot. round.ts: how votes are counted.
 * ballot.ts: why fences rise. renewals.ts: why no other claim held the lock before a successful renewal.
 */
import type {
  Abilities,
  Backend,
  Claim,
  Granted,
  Listener,
  LockState,
  Member,
  Outcome,
  Refused,
  Released,
  Renewal,
  Snapshot,
  Swapped,
} from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { refuseOutcomes } from "../../contract/declined.ts";
import type { LossReason } from "../../contract/loss.ts";
import { CAN } from "./abilities.ts";
import { ballotAbove, Proposer } from "./ballot.ts";
import { ClaimState } from "./claim-state.ts";
import { closeMembers } from "./close.ts";
import { forceRelease } from "./force-release.ts";
import { MemberLink } from "./member-link.ts";
import { checkClaim, checkFit, checkMembers, type QuorumOptions, type Settings, toSettings } from "./options.ts";
import { inspectMembers, queryMembers } from "./query.ts";
import { refusal } from "./refusal.ts";
import { releaseAll } from "./release.ts";
import { renewAll, renewClaims } from "./renewals.ts";
import { resumeLease } from "./resume.ts";
import { Round } from "./round.ts";
import { ballotToRaise, majorityOf } from "./votes.ts";
import { beginToWait, passOn, withWanted } from "./wanted.ts";

/** How often a ballot that was too low is raised before the claim counts as refused. */
const RAISES_MAX = 3;

/** Makes one backend of several independent members, of which a majority decides. */
export function quorum(members: readonly Member[], options: QuorumOptions = {}): Backend {
  checkMembers(members);
  return new QuorumBackend(members, options);
}

class QuorumBackend implements Backend {
  readonly name = "quorum";
  readonly ephemeral: boolean;
  readonly can: Abilities;
  readonly #settings: Settings;
  readonly #links: readonly MemberLink[];
  readonly #proposer: Proposer;
  readonly #claims = new Map<string, ClaimState>();
  /** By the id that the members know: that of the winning round. */
  readonly #byRound = new Map<string, ClaimState>();
  #listener: Listener | undefined;
  #closed: Promise<void> | undefined;

  constructor(members: readonly Member[], options: QuorumOptions) {
    this.can = members.every((member) => member.want !== undefined) ? { ...CAN, linger: true } : CAN;
    this.ephemeral = members.some(({ ephemeral }) => ephemeral === true);
    this.#settings = toSettings(options);
    const others = (): readonly MemberLink[] => this.#links;
    this.#links = members.map(
      (member, at) =>
        new MemberLink(member, at, options.labels?.[at] ?? `${member.name}#${at + 1}`, this.#settings, others),
    );
    this.#proposer = new Proposer(this.#settings.clock);
  }

  async attempt(claim: Claim): Promise<Granted | Refused> {
    if (this.#closed !== undefined)
      throw new LockBackendError("quorum", claim.name, "The quorum is closed.", { fatal: true });
    refuseOutcomes("quorum", CAN, claim);
    checkClaim(claim, this.#settings.maxTtlMs);
    checkFit(claim.name, this.#links);
    const known = claim.resumes === true ? await this.#resume(claim) : this.#claims.get(claim.id);
    if (known?.held !== undefined && !known.ended) {
      const again = await this.#confirm(known, claim);
      if (again !== undefined) return again;
    }
    const state = known === undefined || known.ended ? new ClaimState(claim) : known;
    state.claim = claim;
    this.#claims.set(claim.id, state);
    state.hints?.forget();
    let round = await this.#ask(state, this.#proposer.next());
    for (let raises = 0; raises < RAISES_MAX && !round.isWon && !state.ended; raises++) {
      const above = ballotToRaise(round.votes(), this.#links.length, majorityOf(this.#links.length), round.ballot);
      if (above === undefined) break;
      round = await this.#ask(state, above);
    }
    if (round.isWon && !state.ended) {
      state.hints?.stop();
      return state.granted(round.ballot, round.sentAtMs);
    }
    // Released meanwhile: the answer is not needed any more.
    if (state.ended) return { granted: false, heldBy: [] };
    if (claim.queues) beginToWait(this.#links, state, round);
    else this.#forget(state);
    return refusal(this.#links, this.#settings, state, round);
  }

  /** Waits for a member's hint that the lock was released. Without one, the caller's own pause ends it. */
  async watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    const { clock, chance } = this.#settings;
    const state = this.#claims.get(claim.id);
    let timer: unknown;
    await new Promise<void>((resolve) => {
      if (signal.aborted) return resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
      state?.hints?.await(() => {
        // The release reaches the members one after the other, and other waiters get the hint too.
        timer ??= clock.setTimer(resolve, state.backoff.afterHint(chance), true);
      });
    });
    clock.clearTimer(timer);
    state?.hints?.await(undefined);
    return undefined;
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    const renewed = await renewClaims(this.#links, this.#settings, claims, fences, (claim) =>
      claim.resumes === true ? this.#resume(claim) : this.#claims.get(claim.id),
    );
    for (const { state, renewal } of renewed) {
      if (renewal.held !== false || state === undefined) continue;
      // An unclean end: with a lock delay, what the minority still holds stays taken as long as was asked for.
      if (state.claim.lockDelayMs > 0) this.#drop(state);
      else this.#forget(state);
    }
    return renewed.map(({ renewal, state }) => withWanted(renewal, state));
  }

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    if (outcome !== undefined) refuseOutcomes("quorum", CAN, claim, outcome);
    const state = this.#claims.get(claim.id);
    if (state === undefined) {
      if (claim.resumes !== true || (await this.#resume(claim)) === undefined) return "absent";
      return this.release(claim);
    }
    state.ended = true;
    if (state.held === undefined) {
      this.#forget(state);
      return "queued";
    }
    // If it stays unknown, it is kept for a retry until it has expired at the members.
    const { ttlMs, lockDelayMs } = state.held.claim;
    const unknown = (): unknown => this.#settings.clock.setTimer(() => this.#drop(state), ttlMs + lockDelayMs);
    const was = await releaseAll(this.#links, this.#settings, state, claim.minHoldMs, () => this.#drop(state), unknown);
    return was ? "held" : "absent";
  }

  /**
   * Not atomic, but fair: where others wait, the next claim of this process waits for the time of a round. Otherwise the
   * process that releases would always ask first, and the others would starve.
   */
  async swap(held: Claim, next: Claim): Promise<Swapped> {
    const backoff = this.#claims.get(held.id)?.backoff;
    const released = await this.release(held);
    const yields = backoff !== undefined && backoff.waiters > 0 && next.queues;
    if (!yields) return { ...(await this.attempt(next)), released };
    return { granted: false, heldBy: [], retryMs: backoff.yieldMs(), released };
  }

  inspect(name: string): Promise<LockState> {
    return inspectMembers(this.#links, this.#settings, name);
  }

  query(prefix: string): Promise<Snapshot> {
    return queryMembers(this.#links, this.#settings, prefix);
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return forceRelease(this.#links, this.#settings, name, fence, by, reason);
  }

  listen(listener: Listener): void {
    this.#listener = listener;
    for (const link of this.#links) {
      link.member.listen?.({
        lost: (roundId, reason) => this.#lostAt(link, roundId, reason),
        wanted: (roundId) => passOn(this.#byRound.get(roundId), this.#listener),
        doubt: (id) => this.#verify(id === undefined ? [...this.#byRound.values()] : [this.#byRound.get(id)]),
      });
    }
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#listener = undefined;
    for (const state of this.#claims.values()) if (state.held === undefined) this.#forget(state);
    await closeMembers(this.#links, this.#settings);
  }

  #ask(state: ClaimState, ballot: bigint): Promise<Round> {
    const { claim } = state;
    const ended = (round: Round): void => this.#ended(state, round);
    state.resetReports();
    const first = new Round(this.#links, this.#settings, claim, ballot, ended);
    state.round = first;
    // From here on members may report on it, before it is won.
    if (first.isWanted) this.#byRound.set(first.claim.id, state);
    if (claim.minHoldMs === 0) return first.over;
    return first.over.then((won) => {
      if (!won.isWon) return won;
      state.round = new Round(this.#links, this.#settings, claim, ballotAbove(ballot), ended, won);
      return state.round.over;
    });
  }

  #ended(state: ClaimState, round: Round): void {
    state.learnFrom(round);
    if (round.isWon && !state.ended) {
      state.trust(round.sentAtMs, round.claim.ttlMs);
      this.#byRound.set(round.claim.id, state);
      if (state.doubted) this.#verify([state]);
      return;
    }
    round.withdraw();
    this.#byRound.delete(round.claim.id);
    for (const vote of round.votes()) if (vote.vote === "low" || vote.vote === "held") this.#proposer.learn(vote.fence);
  }

  /** The claim holds already, and its caller lost the answer: the same fence, if a majority still holds it. */
  async #confirm(state: ClaimState, claim: Claim): Promise<Granted | undefined> {
    const round = state.held!;
    const [renewal] = await this.renew([{ ...claim, changed: true }]);
    if (renewal?.held === true) return state.granted(round.ballot, renewal.fromMs ?? round.sentAtMs);
    if (renewal?.held === "unknown") throw renewal.cause;
    return undefined;
  }

  /** The lease that another process has won for this claim, if the claim says that there may be one. */
  async #resume(claim: Claim): Promise<ClaimState | undefined> {
    if (claim.resumes !== true || this.#claims.has(claim.id)) return this.#claims.get(claim.id);
    checkClaim(claim, this.#settings.maxTtlMs);
    const state = await resumeLease(this.#links, this.#settings, claim);
    if (state?.round !== undefined) {
      this.#claims.set(claim.id, state);
      this.#byRound.set(state.round.claim.id, state);
    }
    return state;
  }

  /** Forgets the claim, and releases it at every member. */
  #forget(state: ClaimState): void {
    this.#drop(state);
    state.round?.withdraw();
  }

  #drop(state: ClaimState): void {
    state.ended = true;
    state.hints?.stop();
    if (this.#claims.get(state.claim.id) === state) this.#claims.delete(state.claim.id);
    if (state.round !== undefined) this.#byRound.delete(state.round.claim.id);
  }

  /** One member's report is not enough: it may be a minority. But it is a reason to ask all of them. */
  #lostAt(link: MemberLink, roundId: string, reason: LossReason | string): void {
    const state = this.#byRound.get(roundId);
    if (state === undefined || state.ended) return;
    state.lostAt = new Set(state.lostAt).add(link);
    const left = this.#links.length - state.lostAt.size;
    if (state.held !== undefined && left < majorityOf(this.#links.length)) this.#lose(state, reason);
    else this.#verify([state]);
  }

  /** A member that comes back may have lost its data, and its messages may have been missed: does a majority still hold these? */
  #verify(reported: readonly (ClaimState | undefined)[]): void {
    const doubted = reported.filter((state) => state !== undefined);
    // A round under way is not decided yet: it is verified as soon as it is won.
    for (const state of doubted) state.doubted = state.held === undefined;
    const held = doubted.filter((state) => !state.doubted);
    const states = held.filter(({ verifying }) => verifying === false);
    for (const state of held) state.verifying = state.verifying === false ? true : "again";
    if (states.length === 0) return;
    const asks = states.map((state) => ({ state, claim: state.claim }));
    void renewAll(this.#links, this.#settings, asks).then((renewals) => {
      const again = states.filter(({ verifying }) => verifying === "again");
      for (const [at, renewal] of renewals.entries()) {
        states[at]!.verifying = false;
        if (renewal.held === false) this.#lose(states[at]!, renewal.reason);
      }
      this.#verify(again.filter(({ ended }) => !ended));
    });
  }

  #lose(state: ClaimState, reason: LossReason | string): void {
    if (state.ended) return;
    this.#forget(state);
    this.#listener?.lost(state.claim.id, reason);
  }
}
