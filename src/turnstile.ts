/**
 * The queue in front of one lock inside this process. First come, first served; only the head goes to the store.
 * When a holder is done and the next wants the same, the hold changes hands in memory, with a fence of its own from the
 * run that the store reserved; after the run, or a few milliseconds, the store decides again, so that others get their turn.
 *
 * User code runs in the middle of ours: abort listeners, when a lease is lost. Before any of it is called the state here is
 * consistent, and afterwards everything is looked at again.
 */
import type { ReleaseResult } from "./api.ts";
import type { Seeker } from "./acquire.ts";
import { isBusyFor, mayLend, seatsFor } from "./admission.ts";
import type { Claim, Holding } from "./backend.ts";
import { asBackendError, messageOf } from "./errors.ts";
import { lostChannel } from "./events.ts";
import { departure, type Grant, Hold, type HoldHome } from "./hold.ts";
import { HeldLease, type LeaseHome, tellLost } from "./lease.ts";
import type { Releases } from "./release.ts";
import { Seekers } from "./seekers.ts";
import { added, remove } from "./short-list.ts";
import type { Spec } from "./spec.ts";
import type { Surroundings } from "./surroundings.ts";
import { isSame, Line, type Queue, type Ticket } from "./ticket.ts";

export interface TurnstileHome extends Surroundings {
  readonly releases: Releases;
  /** True: nothing is granted any more. */
  readonly closed: boolean;
  newClaim(name: string, spec: Spec, queues: boolean): Claim;
  /** A hold begins: watch over it. */
  keep(hold: Hold): void;
  /** Its release began, or it was lost: stop renewing it. */
  drop(hold: Hold): void;
  /** A lost hold is used by nobody any more. True: it should be released. */
  abandon(hold: Hold): boolean;
  /** The hold is in doubt: ask the store. */
  confirm(hold: Hold): void;
}

export class Turnstile implements Queue, LeaseHome, HoldHome {
  readonly name: string;
  readonly clock: TurnstileHome["clock"];
  readonly backendName: string;
  readonly #home: TurnstileHome;
  readonly #line: Line = new Line();
  #holds: Hold[] = []; // Arrays: they nearly always have at most one element.
  readonly #seekers: Seekers;

  constructor(name: string, home: TurnstileHome) {
    this.name = name;
    this.clock = home.clock;
    this.backendName = home.backend.name;
    this.#home = home;
    this.#seekers = new Seekers(home, () => this.#serve("all"));
  }

  /** Nothing is held, sought or waited for. */
  get idle(): boolean {
    return this.#line.first === undefined && this.#holds.length === 0 && this.#seekers.count === 0;
  }

  /** Joins the line. The ticket is settled later: with a lease, with `null` for a try, or with an error. */
  enter(ticket: Ticket): void {
    this.#loseExpired();
    this.#line.push(ticket);
    this.#serve(ticket);
  }

  leave(ticket: Ticket): void {
    this.#line.remove(ticket);
    this.#serve();
  }

  heldBy(): readonly Holding[] {
    const nowMs = this.clock.now();
    const heldBy = this.#seekers.heldBy(nowMs);
    return heldBy.length > 0 ? heldBy : this.#holds.map((hold) => hold.describe(nowMs));
  }

  trouble(): unknown {
    return this.#seekers.trouble(this.clock.now());
  }

  /** A new question goes out in the place of one that the store does not answer. */
  nudge(nowMs: number): void {
    this.#seekers.callOffSilent(nowMs);
    this.#serve();
  }

  /** News of a claim whose grant is not here yet: whatever grant comes is older than the news. A new claim takes its place. */
  distrust(claimId: string): boolean {
    const seeker = this.#seekers.find(claimId);
    if (seeker === undefined) return false;
    this.#seekers.callOff(seeker);
    this.#serve();
    return true;
  }

  /** A hold is over though nobody released it. Its leases learn of it; the line goes on without it. */
  lose(hold: Hold, reason: string): void {
    if (!hold.end("lost")) return;
    remove(this.#holds, hold);
    this.#home.drop(hold);
    // In words, whatever the backend gave.
    const why = messageOf(reason);
    tellLost(hold.leases, why);
    if (lostChannel.hasSubscribers) {
      lostChannel.publish({ backend: this.backendName, name: this.name, fence: hold.firstFence, reason: why });
    }
    this.#serve();
  }

  /** Ends a hold that may be in use. */
  async forceEnd(hold: Hold, reason: string): Promise<void> {
    if (!hold.end("ending")) return;
    remove(this.#holds, hold);
    this.#home.drop(hold);
    const released = this.#home.releases.free(hold);
    tellLost(hold.leases, reason);
    await released;
  }

  confirm(hold: Hold): void {
    this.#home.confirm(hold);
  }

  giveBack(lease: HeldLease, hold: Hold): ReleaseResult | Promise<ReleaseResult> {
    hold.takeBack(lease);
    if (hold.leases.length > 0) {
      if (hold.state !== "held") return "lost";
      // Where it is in doubt, nobody has asked the store yet.
      return hold.inDoubt(this.clock.now()) ? "unknown" : "released";
    }
    if (hold.state === "lost") return this.#freeEarly(hold);
    if (hold.state === "ending") return "lost";
    const next = this.#line.first;
    if (next !== undefined && !this.#home.closed && mayLend(hold, next, this.clock.now())) {
      this.#lend(hold);
      // Its own question may be out: nobody needs the answer now.
      if (this.#seekers.count > 0) this.#seekers.callOffSpare(this.#line);
      return "released";
    }
    return this.#passOn(hold);
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

  /**
   * Serves the line from its head, as far as it goes now. Subscribers may hear of leases that begin: all is looked at anew.
   * `news`: who has just entered, or `"all"` where a hold or a place in the store's queue may be in everybody's way.
   */
  #serve(news?: Ticket | "all"): void {
    if (this.#home.closed) return this.#seekers.callOffSpare(this.#line);
    for (let ticket = this.#line.first; ticket !== undefined && !this.#home.closed; ticket = this.#line.first) {
      const hold = this.#joinable(ticket);
      if (hold === undefined) break;
      this.#lend(hold);
    }
    if (this.#line.tries > 0) this.#refuseTries(news);
    if (this.#seekers.count > 0) this.#seekers.callOffSpare(this.#line);
    const head = this.#line.first;
    if (head === undefined) return undefined;
    const seats = seatsFor(head, this.#line, this.#holds);
    for (let spare = seats - this.#seekers.count; spare > 0; spare--) this.#seek(head);
    return undefined;
  }

  /** A shared hold that the ticket may use together with others. */
  #joinable(ticket: Ticket): Hold | undefined {
    if (ticket.spec.mode !== "shared") return undefined;
    return this.#holds.find((hold) => mayLend(hold, ticket, this.clock.now()));
  }

  /**
   * Refuses those that do not wait where the lock is surely busy: held here, or one that waits is before them at the store.
   * Else they stay: a try never says busy of a lock that was free all along. All are looked at only after news for all.
   */
  #refuseTries(news: Ticket | "all" | undefined): void {
    if (news !== "all" && (news?.inLine !== true || news.waits)) return;
    const isQueued = this.#seekers.isQueued(this.clock.now());
    // All others are before the one that entered last.
    let queued = isQueued && news !== "all" && this.#line.size > this.#line.tries;
    for (let ticket = news === "all" ? this.#line.first : news; ticket !== undefined;) {
      const { next } = ticket;
      if (ticket.waits) queued = isQueued;
      else if (queued || isBusyFor(ticket, this.#holds)) {
        this.#line.remove(ticket);
        ticket.refuse(this.heldBy());
      }
      ticket = next;
    }
  }

  /** Gives the hold to the head of the line. */
  #lend(hold: Hold): void {
    const ticket = this.#line.first!;
    this.#line.remove(ticket);
    const lease = new HeldLease(this.name, hold.nextFence(), hold, this);
    hold.lend(lease);
    ticket.grant(lease);
    lease.announce();
  }

  #seek(ticket: Ticket): void {
    const { spec, waits } = ticket;
    const seeker = this.#seekers.add(this.#home.newClaim(this.name, spec, waits), spec.shape);
    const sent = departure(this.clock);
    const answer = seeker.ask(sent);
    const goOn = (): void => this.#follow(seeker, ticket, seeker.seek({ answer, sent }));
    // Nearly always the first answer is the grant, and then the seeker's loop would only cost promises.
    answer.then((first) => {
      const granted = seeker.grantIn(first, sent);
      return granted === undefined ? goOn() : this.#answered(seeker, ticket, seeker.took(granted, sent));
    }, goOn);
  }

  #follow(seeker: Seeker, ticket: Ticket, seeking: Promise<Grant | undefined>): void {
    seeking.then(
      (grant) => this.#answered(seeker, ticket, grant),
      (error: unknown) => this.#failed(seeker, ticket, error),
    );
  }

  /** `ticket`: the one that the claim was made for. Another like it may have taken its place since. */
  #answered(seeker: Seeker, ticket: Ticket, grant: Grant | undefined): void {
    if (!this.#seekers.finish(seeker)) return;
    if (grant === undefined) this.#turnedDown(seeker, ticket);
    else this.#begin(seeker.claim, ticket.spec, grant);
    this.#serve(grant && "all");
  }

  #begin(claim: Claim, spec: Spec, grant: Grant): void {
    const hold = new Hold(this, this.clock, claim, spec, grant);
    const head = this.#line.first;
    // A grant that took so long that nothing is left of it, or that nobody waits for now, goes straight back.
    if (!hold.trusted(hold.grantedAtMs) || head === undefined || head.spec.shape !== spec.shape || this.#home.closed) {
      this.#passOn(hold).catch(() => {});
      return;
    }
    this.#holds = added(this.#holds, hold);
    this.#home.keep(hold);
    this.#lend(hold);
  }

  /** Refused for good, because the claim was only a try. */
  #turnedDown(seeker: Seeker, ticket: Ticket): void {
    const refused = ticket.inLine ? ticket : this.#line.first;
    if (refused === undefined || refused.waits || seeker.claim.queues) return;
    this.#line.remove(refused);
    refused.refuse(seeker.heldBy(this.clock.now()));
  }

  /** The store says that asking again cannot help, or a try could not be asked. */
  #failed(seeker: Seeker, ticket: Ticket, error: unknown): void {
    if (!this.#seekers.finish(seeker)) return;
    this.#seekers.callOff(seeker);
    const head = this.#line.first;
    const failed = ticket.inLine || head === undefined || !isSame(head, ticket) ? ticket : head;
    if (failed.inLine) {
      this.#line.remove(failed);
      failed.fail(asBackendError(this.backendName, this.name, error));
    }
    this.#serve();
  }

  /** Ends the hold in the store; where somebody waits here, the next claim goes out in the same step. */
  #passOn(hold: Hold): Promise<ReleaseResult> {
    hold.end("ending");
    this.#home.drop(hold);
    remove(this.#holds, hold);
    const { backend, releases, closed } = this.#home;
    const head = closed ? undefined : this.#line.first;
    // What is in doubt is asked for first, which a swap cannot do.
    const canSwap = backend.swap !== undefined && hold.claim.minHoldMs === 0 && !hold.inDoubt(this.clock.now());
    if (!canSwap || head === undefined || seatsFor(head, this.#line, this.#holds) <= this.#seekers.count) {
      // The next claim may leave right behind the release: the store takes them in order, or refuses the second and queues it.
      const released = releases.release(hold);
      this.#serve();
      return released;
    }
    const next = this.#home.newClaim(this.name, head.spec, head.waits);
    const seeker = this.#seekers.add(next, head.spec.shape);
    const sent = departure(this.clock);
    return releases.swap(hold, next, (asked) =>
      this.#follow(seeker, head, seeker.seek({ answer: seeker.follow(asked, sent), sent })),
    );
  }
}
