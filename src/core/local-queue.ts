/**
 * The queue in front of one lock inside this process. First come, first served; only the head goes to the store. (Those who do
 * not wait pass it by: see tries.ts.)
 * When a holder is done and the next wants the same, the hold changes hands in memory, with a fence of its own from the
 * run that the store reserved; after the run, or a few milliseconds, the store decides again, so that others get their turn.
 *
 * User code runs in the middle of ours: abort listeners, when a lease is lost. Before any of it is called the state here is
 * consistent, and afterwards everything is looked at again.
 */
import type { ReleaseResult } from "./api.ts";
import type { Acquisition } from "./acquisition.ts";
import { mayLend, seatsFor } from "./admission.ts";
import type { Holding } from "../contract/backend.ts";
import { settleDoubt } from "./doubt.ts";
import { asBackendError, messageOf } from "../contract/errors.ts";
import { lostChannel } from "../contract/events.ts";
import { type Grant, Hold, type HoldHome, unused } from "./hold.ts";
import { HeldLease, type LeaseHome, reportLost } from "./lease.ts";
import { type Hearer, Acquisitions, type AcquisitionsHome, type Judgement, WANTED_SILENCE_MS } from "./acquisitions.ts";
import { added, remove } from "./short-list.ts";
import { RequestList, type Queue, type Request } from "./request.ts";
import { Tries, type TriesHome } from "./tries.ts";

export interface QueueHome extends AcquisitionsHome {
  /** True: nothing is granted any more. */
  readonly closed: boolean;
  /** A hold begins: watch over it. */
  keep(hold: Hold): void;
  /** Its release began, or it was lost: stop renewing it. */
  drop(hold: Hold): void;
  /** A lost hold is used by nobody any more. True: it should be released. */
  abandon(hold: Hold): boolean;
  /** The hold is in doubt: ask the store. */
  confirm(hold: Hold): void;
}

export class LocalQueue implements Queue, LeaseHome, HoldHome, Hearer, TriesHome {
  readonly name: string;
  readonly clock: QueueHome["clock"];
  readonly backendName: string;
  readonly #home: QueueHome;
  readonly #line: RequestList = new RequestList();
  #holds: Hold[] = []; // Arrays: they nearly always have at most one element.
  /** Of those who wait. */
  readonly #acquisitions: Acquisitions;
  /** Made for the first of them: most locks never see one. */
  #tries: Tries | undefined;

  constructor(name: string, home: QueueHome) {
    this.name = name;
    this.clock = home.clock;
    this.backendName = home.backend.name;
    this.#home = home;
    this.#acquisitions = new Acquisitions(home, this);
  }

  /** Nothing is held, sought or waited for. */
  get idle(): boolean {
    if (this.#line.first !== undefined || this.#holds.length > 0 || this.#acquisitions.all.length > 0) return false;
    return this.#tries === undefined || this.#tries.idle;
  }

  get holds(): readonly Hold[] {
    return this.#holds;
  }

  get isAsking(): boolean {
    return this.#acquisitions.isAsking;
  }

  /** The request is settled later: with a lease, with `null` for a try, or with an error. */
  enter(request: Request): void {
    this.#loseExpired();
    if (!request.waits) return (this.#tries ??= new Tries(this.#home, this)).enter(request);
    this.#line.push(request);
    return this.serve();
  }

  leave(request: Request): void {
    if (!request.waits) return this.#tries?.leave(request);
    this.#line.remove(request);
    return this.serve();
  }

  heldBy(): readonly Holding[] {
    const nowMs = this.clock.now();
    const heldBy = this.#acquisitions.heldBy(nowMs);
    return heldBy.length > 0 ? heldBy : this.#holds.map((hold) => hold.describe(nowMs));
  }

  trouble(waits: boolean): unknown {
    const nowMs = this.clock.now();
    // Those who wait and have a claim at the store are not held up by a try; without one, they let a try go first.
    if (waits && this.#acquisitions.all.length > 0) return this.#acquisitions.trouble(nowMs);
    return this.#tries?.trouble(nowMs) ?? this.#acquisitions.trouble(nowMs);
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
    const found = this.#acquisitions.callOffWhere(isWorthless).length > 0 || isOfATry;
    if (found) this.serve();
    return found;
  }

  /** A hold is over though nobody released it. Its leases learn of it; the line goes on without it. */
  lose(hold: Hold, reason: string): void {
    if (!hold.end("lost")) return;
    remove(this.#holds, hold);
    this.#home.drop(hold);
    // In words, whatever the backend gave.
    const why = messageOf(reason);
    reportLost(hold.leases, why);
    if (lostChannel.hasSubscribers) {
      lostChannel.publish({ backend: this.backendName, name: this.name, fence: hold.firstFence, reason: why });
    }
    this.serve();
  }

  /** Ends a hold that may be in use. */
  async forceEnd(hold: Hold, reason: string): Promise<void> {
    if (!hold.end("ending")) return;
    remove(this.#holds, hold);
    this.#home.drop(hold);
    hold.released = this.#home.releases.release(hold);
    reportLost(hold.leases, reason);
    await hold.released.catch(() => {});
  }

  confirm(hold: Hold): void {
    this.#home.confirm(hold);
  }

  giveBack(lease: HeldLease, hold: Hold): ReleaseResult | Promise<ReleaseResult> {
    hold.takeBack(lease);
    if (hold.leases.length > 0) return this.leftToOthers(hold);
    if (hold.state === "lost") return this.#freeEarly(hold);
    if (hold.state === "ending") return "lost";
    const next = this.#line.first;
    if (next !== undefined && !this.#home.closed && mayLend(hold, next, this.clock.now())) {
      this.#lendToFirst(hold);
      // Its own question may be out: nobody needs the answer now.
      if (this.#acquisitions.all.length > 0) this.serve();
      return "released";
    }
    return this.#passOn(hold);
  }

  leftToOthers(hold: Hold): ReleaseResult | Promise<ReleaseResult> {
    if (hold.state !== "held") return "lost";
    if (!hold.inDoubt(this.clock.now())) return "released";
    return settleDoubt(hold, this.clock, this.#home);
  }

  /** Believed no longer, but perhaps still in the store: freed early, unless a delay after an unclean end was asked for. */
  async #freeEarly(hold: Hold): Promise<ReleaseResult> {
    if (this.#home.abandon(hold)) await this.#home.releases.free(hold);
    return "lost";
  }

  /** A hold whose time is over though no timer has noticed yet is in nobody's way. */
  #loseExpired(): void {
    if (this.#holds.length === 0) return;
    const nowMs = this.clock.now();
    for (const hold of this.#holds.slice()) {
      if (!hold.trusted(nowMs)) this.lose(hold, "its ttl passed before it could be renewed");
    }
  }

  /** Serves the line from its head, as far as it goes now. Subscribers may hear of leases that begin: all is looked at anew. */
  serve(): void {
    if (this.#home.closed) return this.#acquisitions.callOffSpare(this.#line);
    for (let request = this.#line.first; request !== undefined && !this.#home.closed; request = this.#line.first) {
      const hold = this.joinable(request);
      if (hold === undefined) break;
      this.#lendToFirst(hold);
    }
    if (this.#acquisitions.all.length > 0) this.#acquisitions.callOffSpare(this.#line);
    const head = this.#line.first;
    if (head !== undefined && this.#tries?.isAheadOf(head) !== true) {
      const seats = seatsFor(head, this.#line, this.#holds);
      for (let spare = seats - this.#acquisitions.all.length; spare > 0; spare--) this.#acquisitions.seek(head);
    }
    return this.#tries?.serve();
  }

  joinable(request: Request): Hold | undefined {
    if (request.options.mode !== "shared") return undefined;
    return this.#holds.find((hold) => mayLend(hold, request, this.clock.now()));
  }

  lend(hold: Hold, request: Request): void {
    const lease = new HeldLease(this.name, hold.nextFence(), hold, this);
    hold.lend(lease);
    request.grant(lease);
    lease.announce();
  }

  #lendToFirst(hold: Hold): void {
    this.lend(hold, this.#line.shift()!);
  }

  granted(acquisition: Acquisition<Request>, grant: Grant): void {
    const head = this.#line.first;
    this.begin(acquisition, head?.options.shareKey === acquisition.request.options.shareKey ? head : undefined, grant);
    this.serve();
  }

  begin({ claim, request: { options } }: Acquisition<Request>, request: Request | undefined, grant: Grant): boolean {
    const hold = new Hold(this, this.#home, claim, options, grant);
    // A grant that took so long that nothing is left of it, or that nobody waits for now, goes straight back.
    if (!hold.trusted(hold.grantedAtMs) || request === undefined || this.#home.closed) {
      hold.claim = unused(claim);
      this.#passOn(hold).catch(() => {});
      return false;
    }
    this.#line.remove(request);
    this.#holds = added(this.#holds, hold);
    this.#home.keep(hold);
    this.lend(hold, request);
    return true;
  }

  refused(): void {
    this.serve();
  }

  failed({ request }: Acquisition<Request>, error: unknown): void {
    const head = this.#line.first;
    const failed = request.inLine || head?.options.shareKey !== request.options.shareKey ? request : head;
    if (this.#line.remove(failed)) failed.fail(asBackendError(this.backendName, this.name, error));
    this.serve();
  }

  readonly heard = (): void => this.serve();

  /** Ends the hold in the store; where somebody waits here, the next claim goes out in the same step. */
  #passOn(hold: Hold): Promise<ReleaseResult> {
    hold.end("ending");
    this.#home.drop(hold);
    remove(this.#holds, hold);
    const { backend, releases, closed } = this.#home;
    const head = closed ? undefined : this.#line.first;
    // What is in doubt is asked for first, which a swap cannot do.
    const canSwap = backend.swap !== undefined && hold.claim.minHoldMs === 0 && !hold.inDoubt(this.clock.now());
    if (!canSwap || head === undefined || seatsFor(head, this.#line, this.#holds) <= this.#acquisitions.all.length) {
      // The next claim may leave right behind the release: the store takes them in order, or refuses the second and queues it.
      hold.released = releases.release(hold);
      this.serve();
      return hold.released;
    }
    const acquisition = this.#acquisitions.add(head);
    const sent = this.#home.sleep.sentNow();
    hold.released = releases.swap(hold, acquisition.claim, (asked) =>
      this.#acquisitions.follow(acquisition, acquisition.follow(asked, sent), sent),
    );
    return hold.released;
  }
}
