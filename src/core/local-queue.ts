/**
 * The queue in front of one lock inside this process. First come, first served; only the head goes to the store. (Those who do
 * not wait pass it by: see tries.ts.)
 * When a holder is done and the next wants the same, the hold changes hands in memory, with a fence of its own from the
 * run that the store reserved; after the run, or a few milliseconds, the store decides again, so that others get their turn.
 * Everything that it uses lies below it: claims, releases, leases, the watchdog. One thing comes up from there: a hold is over.
 *
 * User code runs in the middle of ours: abort listeners, when a lease is lost. Before any of it is called the state here is
 * consistent, and afterwards everything is looked at again.
 */
import type { ReleaseResult } from "./api.ts";
import type { Acquisition } from "./acquisition.ts";
import type { Judgement } from "./acquisitions.ts";
import type { Blockers } from "../contract/answer.ts";
import { asBackendError } from "../contract/errors.ts";
import type { LocalFacts } from "../contract/claim.ts";
import { Hold } from "./hold.ts";
import type { HoldFront } from "./hold-neighbours.ts";
import { type Done, type Grant, unused } from "./grant.ts";
import { HeldLease } from "./lease.ts";
import { expectWanted } from "./news.ts";
import { type HoldParts, OwnHolds } from "./own-holds.ts";
import { publish, publishLess } from "./publish.ts";
import { type Asked, type Queue, type Request, RequestList } from "./request.ts";
import { canSwap, isOver, loseOlder, mayLend, mayLinger, seatsFor } from "./lending.ts";
import { loseExpired } from "./report-lost.ts";
import { describe, factsOf } from "./shown.ts";
import { Tries, type TriesFront } from "./tries.ts";

/** What it shows of those behind it is kept up to date. */
const isRenewed = ({ options }: Hold): boolean => options.renew === true;

/** How long a claim that is wanted may wait for the answer to its first question. */
const WANTED_SILENCE_MS = 30_000;

/** What a queue uses. All of it lies below. */
export interface QueueParts extends HoldParts {
  /** Closed: nothing is granted any more. */
  readonly closing: { readonly closed: boolean };
}

export class LocalQueue extends OwnHolds implements Queue, TriesFront, HoldFront<Hold> {
  readonly #parts: QueueParts;
  readonly #line: RequestList = new RequestList();
  /** Made for the first of them: most locks never see one. */
  #tries: Tries | undefined;

  constructor(name: string, parts: QueueParts) {
    super(name, parts);
    this.#parts = parts;
  }

  /** Nothing is held, sought or waited for. */
  get idle(): boolean {
    if (this.#line.first !== undefined || this.held.length > 0 || this.claims.length > 0) return false;
    return this.#tries === undefined || this.#tries.idle;
  }

  /** Those who wait, in order, and the claims that the first of them have at the store. */
  get waiting(): { readonly requests: readonly Request[]; readonly claimIds: readonly string[] } {
    return { requests: this.#line.all(), claimIds: this.claims.map(({ claim }) => claim.id) };
  }

  get #closed(): boolean {
    return this.#parts.closing.closed;
  }

  /** Who holds or is next here takes no notice of outcomes: a request behind would not learn of one that is kept. */
  get hidesOutcome(): boolean {
    return (this.held[0] ?? this.#line.first)?.options.wantsOutcome === false;
  }

  /** The request is settled later: with a lease, with `null` for a try, or with an error. */
  enter(request: Request): void {
    // Without a signal to listen to, and a loss to hear of, no code of others runs between the call and its question.
    const isNow = request.options.signal === undefined && this.held.length === 0;
    loseExpired(this.held, this.#parts.clock);
    // The listeners of a loss may have aborted or closed anything.
    if (request.settled) return;
    if (!request.waits) return (this.#tries ??= new Tries(this.name, this.#parts, this)).enter(request);
    this.#line.push(request);
    this.serve(isNow ? request.enteredMs : undefined);
    if (!request.inLine) return;
    // Who is in its way may be done early; where several may hold, the oldest is asked.
    if (request.options.limit > 1) this.held[0]?.hearWanted();
    else for (const hold of this.held) hold.hearWanted();
    if (request.event !== undefined && (this.held.length > 0 || this.#line.first !== request))
      request.noteContended(this.blockers());
  }

  override hearWanted(claimId: string): void {
    super.hearWanted(claimId);
    this.#tries?.hearWanted(claimId);
  }

  publish(onlyLess = false): void {
    publish(this.claims, this.held, this.#parts.watchdog, onlyLess);
  }

  leave(request: Request): void {
    if (!request.waits) return this.#tries?.leave(request);
    this.#line.remove(request);
    if (request.scope !== undefined) publishLess(this);
    return this.serve();
  }

  blockers(): Blockers {
    const nowMs = this.#parts.clock.now();
    return this.refusedBy(nowMs) ?? { heldBy: this.held.map((hold) => describe(hold, nowMs)) };
  }

  refusalOf(request: Request): Asked | undefined {
    return request.waits ? undefined : this.#tries?.refusalOf(request);
  }

  trouble(waits: boolean): unknown {
    const nowMs = this.#parts.clock.now();
    // Those who wait and have a claim at the store are not held up by a try; without one, they let a try go first.
    if (waits && this.claims.length > 0) return this.troubleAt(nowMs);
    return this.#tries?.trouble() ?? this.troubleAt(nowMs);
  }

  /** A claim whose question was perhaps lost is called off, and a new one takes its place: no claim has two questions out. */
  nudge(): void {
    this.#replace((acquisition, among) => among.isSilent(acquisition, WANTED_SILENCE_MS));
    this.serve();
  }

  /** News of a claim whose grant is not here yet: whatever grant comes is older than the news. A new claim takes its place. */
  distrust(claimId: string): boolean {
    return this.#replace(({ claim }) => claim.id === claimId);
  }

  #replace(isWorthless: Judgement): boolean {
    const isOfATry = this.#tries?.replace(isWorthless) === true;
    const found = this.callOffWhere(isWorthless).length > 0 || isOfATry;
    if (found) this.serve();
    return found;
  }

  /** A hold is no longer used. From its release to here no other code has run, so that it is still `nowMs`. */
  over(hold: Hold, nowMs: number): ReleaseResult | Promise<ReleaseResult> {
    if (hold.state === "lost") return this.#parts.releases.freeLost(hold);
    if (hold.state === "ending") return "lost";
    const next = this.#line.first;
    if (next !== undefined && !this.#closed && mayLend(hold, next, nowMs)) {
      this.lend(hold, next);
      // Its own question may be out: the answer is not needed now.
      if (this.claims.length > 0) this.serve();
      return "released";
    }
    const isAlone = next === undefined && this.claims.length === 0 && this.#tries?.idle !== false;
    if (!isAlone || this.#closed || !mayLinger(hold, nowMs)) return this.#passOn(hold, nowMs);
    this.#parts.lingering.begin(hold, nowMs);
    return "released";
  }

  endIdle(hold: Hold): void {
    this.#passOn(hold).catch(() => {});
  }

  /** With a claim of theirs at the store, that shows them. Most often there is none: thousands of holds are asked for each renewal. */
  behind(hold: Hold): LocalFacts | undefined {
    if (this.#line.length === 0 || this.claims.length > 0) return undefined;
    return this.#factsFor(hold, this.held.findLast(isRenewed), 0);
  }

  get isAwaited(): boolean {
    return this.#line.first !== undefined;
  }

  /**
   * Serves the line from its head, as far as it goes now. Subscribers may hear of leases that begin: all is looked at anew.
   * `sentMs`: the instant that is now, where the caller has just read it. After a subscriber it is read again.
   */
  serve(sentMs?: number): void {
    if (this.#closed) return this.callOffSpare(this.#line);
    for (let request = this.#line.first; request !== undefined && !this.#closed; request = this.#line.first) {
      const hold = this.joinable(request);
      if (hold === undefined) break;
      this.lend(hold, request);
      sentMs = undefined;
    }
    if (this.claims.length > 0) this.callOffSpare(this.#line);
    const head = this.#line.first;
    if (head !== undefined) {
      // What lingers is of no use to it. All is looked at again when that has gone out.
      if (this.held.length > 0 && this.held.some((hold) => hold.isIdle)) return this.letGo();
      // A try's question may be lost. Nothing else would look then.
      if (this.isHeldUp) head.wakeSoon(this.#parts.clock.now());
      else if (this.#tries?.isAheadOf(head) !== true) {
        const seats = seatsFor(head, this.#line, this.held);
        for (let spare = seats - this.claims.length; spare > 0; spare--) this.seek(head, sentMs);
      }
    }
    return this.#tries?.serve();
  }

  get isHeldUp(): boolean {
    const head = this.#line.first;
    return head !== undefined && this.claims.length === 0 && this.#tries?.isAheadOf(head) === true;
  }

  joinable(request: Request): Hold | undefined {
    if (this.held.length === 0) return undefined;
    const isShared = request.options.mode === "shared";
    const { clock } = this.#parts;
    return this.held.find((hold) => (isShared || hold.isIdle) && mayLend(hold, request, clock.now()));
  }

  lend(hold: Hold, request: Request): void {
    const lease = new HeldLease(hold, this.#parts);
    hold.meta = request.options.meta;
    this.#line.remove(request);
    if (request.scope !== undefined) publishLess(this);
    request.grant(lease);
  }

  protected granted(acquisition: Acquisition<Request>, grant: Grant): void {
    const head = this.#line.first;
    this.begin(acquisition, head?.options.shareKey === acquisition.request.options.shareKey ? head : undefined, grant);
    // Mostly there is no other.
    if (this.#line.first !== undefined || this.claims.length > 0 || this.#tries !== undefined) this.serve();
  }

  begin(acquisition: Acquisition<Request>, request: Request | undefined, grant: Grant): boolean {
    const { claim, questions } = acquisition;
    const hold = new Hold(this, this.#parts.sleep, claim, acquisition.request.options, grant);
    // A grant of which nothing is left, or that no request waits for now, goes straight back.
    if (isOver(hold, this.held) || request === undefined || this.#closed) {
      hold.claim = unused(claim);
      this.endIdle(hold);
      return false;
    }
    this.held = this.held.length === 0 ? [hold] : [...this.held, hold];
    this.#parts.watchdog.keep(hold, hold.trustedUntilMs);
    this.lend(hold, request);
    // Only now: a subscriber may have made its event such that this runs code of its own, and a backend may run any. That may give the
    // request up, or end the hold.
    request.noteAsked(questions);
    if (hold.lingers) expectWanted(this.#parts.backend, claim);
    if (acquisition.isWanted) hold.hearNews(hold.grantedAtMs);
    if (this.held.length > 1) loseOlder(hold, this.held);
    return true;
  }

  protected refused(): void {
    this.serve();
  }

  /** The lock's work was done: all who stood here before that was asked, and want to know, know. */
  protected done({ request }: Acquisition<Request>, { outcome, sentAtMs }: Done): void {
    for (const each of this.#line.all()) {
      const isMeant = each === request || (each.options.wantsOutcome && each.enteredMs < sentAtMs);
      if (isMeant && this.#line.remove(each)) each.finish(outcome);
    }
    this.serve();
  }

  protected failed({ request }: Acquisition<Request>, error: unknown): void {
    const head = this.#line.first;
    const failed = request.inLine || head?.options.shareKey !== request.options.shareKey ? request : head;
    if (this.#line.remove(failed)) failed.fail(asBackendError(this.#parts.backend.name, this.name, error));
    this.serve();
  }

  protected heard(acquisition: Acquisition<Request>): void {
    this.#line.first?.noteHeard(acquisition, this.#parts.clock);
    this.serve();
  }

  protected facts(acquisition: Acquisition<Request>): LocalFacts | undefined {
    return this.#factsFor(acquisition, this.claims.at(-1), this.claims.length);
  }

  /** All show what those behind them hold. Of several, only the last says how many these are: each is counted once. */
  #factsFor<T>(one: T, last: T | undefined, ahead: number): LocalFacts | undefined {
    return factsOf(this.#line, one === last ? ahead : Infinity, this.#parts.locks);
  }

  /** Ends the hold in the store; where a request waits here, the next claim goes out in the same step. */
  #passOn(hold: Hold, nowMs: number = this.#parts.clock.now()): Promise<ReleaseResult> {
    hold.end("ending");
    this.drop(hold);
    const { backend, releases, sleep } = this.#parts;
    const head = this.#closed ? undefined : this.#line.first;
    const isSwapped = head !== undefined && canSwap(hold, backend, nowMs);
    if (!isSwapped || seatsFor(head, this.#line, this.held) <= this.claims.length) {
      // The next claim may leave right behind the release: the store takes them in order, or refuses the second and queues it.
      hold.released = releases.release(hold, nowMs);
      this.serve();
      return hold.released;
    }
    const acquisition = this.add(head);
    const sent = sleep.sentNow();
    hold.released = releases.swap(hold, nowMs, acquisition.claim, (answer) => this.follow(acquisition, answer, sent));
    return hold.released;
  }
}
