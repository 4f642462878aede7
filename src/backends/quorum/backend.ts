/**
 * Redlock, with what its critics found missing: fences, renewal, and members that forgot.
 *
 * N independent members behind one backend. A lease is a majority's votes for one ballot; see round.ts for how they are
 * counted, ballot.ts for why fences rise, renewal.ts for why a lease that was renewed was never anybody else's.
 */
import type {
  Backend,
  Claim,
  Granted,
  Listener,
  Member,
  Refused,
  Released,
  Renewal,
  Snapshot,
  Swapped,
} from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { ballotAbove, firstFence, Proposer } from "./ballot.ts";
import { checkClaim, checkFit, checkMembers } from "./check.ts";
import { closeSeats } from "./close.ts";
import { Hints } from "./release-hints.ts";
import { type QuorumOptions, type Settings, toSettings } from "./options.ts";
import { recall } from "./recall.ts";
import { releaseAll } from "./release.ts";
import { renewAll } from "./renewals.ts";
import { majorityOf, Round } from "./round.ts";
import { Seat } from "./member-link.ts";
import { Standing } from "./claim-state.ts";
import { breakLease, survey } from "./query.ts";
import { ballotToRaise, heldBy, isHopeless, noQuorum, tooLate } from "./votes.ts";

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
  readonly #settings: Settings;
  readonly #seats: readonly Seat[];
  readonly #proposer: Proposer;
  readonly #standings = new Map<string, Standing>();
  /** By the id that the members know: the winning round's. */
  readonly #byRound = new Map<string, Standing>();
  #listener: Listener | undefined;
  #closed: Promise<void> | undefined;

  constructor(members: readonly Member[], options: QuorumOptions) {
    this.ephemeral = members.some(({ ephemeral }) => ephemeral === true);
    this.#settings = toSettings(options);
    const others = (): readonly Seat[] => this.#seats;
    this.#seats = members.map(
      (member, at) => new Seat(member, at, options.labels?.[at] ?? `${member.name}#${at + 1}`, this.#settings, others),
    );
    this.#proposer = new Proposer(this.#settings.clock);
  }

  async attempt(claim: Claim): Promise<Granted | Refused> {
    if (this.#closed !== undefined)
      throw new LockBackendError("quorum", claim.name, "The quorum is closed.", { fatal: true });
    checkClaim(claim, this.#settings.maxTtlMs);
    checkFit(claim.name, this.#seats);
    const known = claim.resumes === true ? await this.#resume(claim) : this.#standings.get(claim.id);
    if (known?.held !== undefined && !known.ended) {
      const again = await this.#confirm(known);
      if (again !== undefined) return again;
    }
    const standing = known === undefined || known.ended ? new Standing(claim) : known;
    this.#standings.set(claim.id, standing);
    standing.hints?.forget();
    let round = await this.#ask(standing, this.#proposer.next());
    for (let raises = 0; raises < RAISES_MAX && !round.isWon && !standing.ended; raises++) {
      const above = ballotToRaise(round.votes(), this.#seats.length, majorityOf(this.#seats.length), round.ballot);
      if (above === undefined) break;
      round = await this.#ask(standing, above);
    }
    if (round.isWon && !standing.ended) {
      standing.hints?.stop();
      return standing.granted(round.ballot, round.sentAtMs);
    }
    // Released meanwhile: nobody wants to know why.
    if (standing.ended) return { granted: false, heldBy: [] };
    if (claim.queues) (standing.hints ??= new Hints()).listen(this.#seats, claim.name, round);
    else this.#forget(standing);
    return this.#refuse(standing, round);
  }

  /** Waits for a member's hint that the lock was released. Without any, the caller's own pause ends it. */
  async watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    const { clock, chance } = this.#settings;
    const standing = this.#standings.get(claim.id);
    let timer: unknown;
    await new Promise<void>((resolve) => {
      if (signal.aborted) return resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
      standing?.hints?.await(() => {
        // Members hear of a release one after the other, and other waiters hear of it too.
        timer ??= clock.setTimer(resolve, standing.pace.afterHint(chance), true);
      });
    });
    clock.clearTimer(timer);
    standing?.hints?.await(undefined);
    return undefined;
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    for (const claim of claims) if (claim.resumes === true) await this.#resume(claim);
    const standings = claims.map(({ id }, at) => {
      const standing = this.#standings.get(id);
      const ballot = standing?.held?.ballot;
      return fences === undefined || (ballot !== undefined && firstFence(ballot) === fences[at]) ? standing : undefined;
    });
    const renewals = await renewAll(this.#seats, this.#settings, standings);
    for (const [at, standing] of standings.entries()) {
      if (renewals[at]?.held !== false || standing === undefined) continue;
      // An unclean end: with a lock delay, what the minority still holds stays taken as long as was asked for.
      if (standing.claim.lockDelayMs > 0) this.#drop(standing);
      else this.#forget(standing);
    }
    return renewals;
  }

  async release(claim: Claim): Promise<Released> {
    const standing = this.#standings.get(claim.id);
    if (standing === undefined) {
      if (claim.resumes !== true || (await this.#resume(claim)) === undefined) return "absent";
      return this.release(claim);
    }
    standing.ended = true;
    if (standing.held === undefined) {
      this.#forget(standing);
      return "queued";
    }
    // Where it stays unknown: kept for whoever asks again, until the members have let go by themselves.
    const unknown = (): unknown =>
      this.#settings.clock.setTimer(() => this.#drop(standing), claim.ttlMs + claim.lockDelayMs);
    const was = await releaseAll(this.#seats, this.#settings, standing, () => this.#drop(standing), unknown);
    return was ? "held" : "absent";
  }

  /**
   * No atomic step, but a courteous one: where others wait, the next claim of this process leaves them the time of a round.
   * Else whoever releases would always be first to ask again, and the others would starve.
   */
  async swap(held: Claim, next: Claim): Promise<Swapped> {
    const pace = this.#standings.get(held.id)?.pace;
    const released = await this.release(held);
    if (pace === undefined || pace.waiters === 0 || !next.queues) return { ...(await this.attempt(next)), released };
    return { granted: false, heldBy: [], retryMs: pace.courtesyMs(), released };
  }

  query(prefix: string): Promise<Snapshot> {
    return survey(this.#seats, this.#settings, prefix);
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return breakLease(this.#seats, this.#settings, name, fence, by, reason);
  }

  listen(listener: Listener): void {
    this.#listener = listener;
    for (const seat of this.#seats) {
      seat.member.listen?.({
        lost: (roundId, reason) => this.#lostAt(seat, roundId, reason),
        doubt: (id) => this.#verify(id === undefined ? [...this.#byRound.values()] : [this.#byRound.get(id)]),
      });
    }
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#listener = undefined;
    for (const standing of this.#standings.values()) if (standing.held === undefined) this.#forget(standing);
    await closeSeats(this.#seats, this.#settings);
  }

  #ask(standing: Standing, ballot: bigint): Promise<Round> {
    const { claim } = standing;
    const ended = (round: Round): void => this.#ended(standing, round);
    standing.forgetNews();
    const first = new Round(this.#seats, this.#settings, claim, ballot, ended);
    standing.round = first;
    // From here on members may tell of it, before it is won.
    if (first.isWanted) this.#byRound.set(first.claim.id, standing);
    if (claim.minHoldMs === 0) return first.over;
    return first.over.then((won) => {
      if (!won.isWon) return won;
      standing.round = new Round(this.#seats, this.#settings, claim, ballotAbove(ballot), ended, won);
      return standing.round.over;
    });
  }

  #ended(standing: Standing, round: Round): void {
    standing.note(round);
    if (round.isWon && !standing.ended) {
      standing.trust(round.sentAtMs);
      this.#byRound.set(round.claim.id, standing);
      if (standing.doubted) this.#verify([standing]);
      return;
    }
    round.withdraw();
    this.#byRound.delete(round.claim.id);
    for (const vote of round.votes()) if (vote.vote === "low" || vote.vote === "held") this.#proposer.learn(vote.fence);
  }

  #refuse(standing: Standing, round: Round): Refused {
    const { claim } = standing;
    checkFit(claim.name, this.#seats);
    if (round.lapsed) throw tooLate(claim.name, round.tookMs, claim.ttlMs, round.report());
    const votes = round.votes();
    const silent = votes.filter(({ vote }) => vote !== "granted" && vote !== "held" && vote !== "low").length;
    const majority = majorityOf(this.#seats.length);
    // Whoever had not answered when the round was lost may well have voted.
    if (this.#seats.length - silent < majority) {
      throw noQuorum(claim.name, majority, round.report(), isHopeless(votes, this.#seats.length, majority));
    }
    const { chance } = this.#settings;
    const retryMs = standing.pace.afterDefeat(votes, this.#seats.length, claim.ttlMs, chance);
    return { granted: false, heldBy: heldBy(claim.name, votes), retryMs };
  }

  /** The claim holds already, and its caller lost the answer: the same fence, if a majority still holds it. */
  async #confirm(standing: Standing): Promise<Granted | undefined> {
    const round = standing.held!;
    const [renewal] = await this.renew([standing.claim]);
    if (renewal?.held === true) return standing.granted(round.ballot, renewal.fromMs ?? round.sentAtMs);
    if (renewal?.held === "unknown") throw renewal.cause;
    return undefined;
  }

  /** What another process has won in the claim's name, if it says that there may be such a lease. */
  async #resume(claim: Claim): Promise<Standing | undefined> {
    if (claim.resumes !== true || this.#standings.has(claim.id)) return this.#standings.get(claim.id);
    checkClaim(claim, this.#settings.maxTtlMs);
    const standing = await recall(this.#seats, this.#settings, claim);
    if (standing?.round !== undefined) {
      this.#standings.set(claim.id, standing);
      this.#byRound.set(standing.round.claim.id, standing);
    }
    return standing;
  }

  /** Forgets the claim, and makes every member let go of it. */
  #forget(standing: Standing): void {
    this.#drop(standing);
    standing.round?.withdraw();
  }

  #drop(standing: Standing): void {
    standing.ended = true;
    standing.hints?.stop();
    if (this.#standings.get(standing.claim.id) === standing) this.#standings.delete(standing.claim.id);
    if (standing.round !== undefined) this.#byRound.delete(standing.round.claim.id);
  }

  /** One member's word is not enough: it may be the minority that lost it. But it is a reason to ask them all. */
  #lostAt(seat: Seat, roundId: string, reason: string): void {
    const standing = this.#byRound.get(roundId);
    if (standing === undefined || standing.ended) return;
    standing.lostAt = new Set(standing.lostAt).add(seat);
    const left = this.#seats.length - standing.lostAt.size;
    if (standing.held !== undefined && left < majorityOf(this.#seats.length)) this.#lose(standing, reason);
    else this.#verify([standing]);
  }

  /** A member that comes back may have forgotten, and its messages may have been missed: does a majority still hold these? */
  #verify(told: readonly (Standing | undefined)[]): void {
    const doubted = told.filter((standing) => standing !== undefined);
    // Of a round that is under way nobody can say yet: it is asked about as soon as it is won.
    for (const standing of doubted) standing.doubted = standing.held === undefined;
    const held = doubted.filter((standing) => !standing.doubted);
    const standings = held.filter(({ verifying }) => verifying === false);
    for (const standing of held) standing.verifying = standing.verifying === false ? true : "again";
    if (standings.length === 0) return;
    void renewAll(this.#seats, this.#settings, standings).then((renewals) => {
      const again = standings.filter(({ verifying }) => verifying === "again");
      for (const [at, renewal] of renewals.entries()) {
        standings[at]!.verifying = false;
        if (renewal.held === false) this.#lose(standings[at]!, renewal.reason);
      }
      this.#verify(again.filter(({ ended }) => !ended));
    });
  }

  #lose(standing: Standing, reason: string): void {
    if (standing.ended) return;
    this.#forget(standing);
    this.#listener?.lost(standing.claim.id, reason);
  }
}
