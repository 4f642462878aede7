/**
 * The queue in front of one lock inside this process. First come, first served; only the head goes to the store.
 * When a holder is done and the next wants the same, the hold changes hands in memory, with a fence of its own from the
 * run that the store reserved; after the run, or a few milliseconds, the store decides again, so that others get their turn.
 */
import type { ReleaseResult } from "./api.ts";
import { departure, type Grant, Seeker } from "./acquire.ts";
import type { Claim, Holding } from "./backend.ts";
import { Exit, type ExitHome } from "./exit.ts";
import { Hold, type HoldHome } from "./hold.ts";
import { HeldLease, type LeaseHome } from "./lease.ts";
import { added, remove } from "./short-list.ts";
import type { Spec } from "./spec.ts";
import { Line, type Ticket } from "./ticket.ts";

/** How long one process may pass a hold around before the store is asked who is next. */
const TURN_MS = 10;

export interface TurnstileHome extends ExitHome {
  newClaim(name: string, spec: Spec, queues: boolean): Claim;
  /** A hold begins: watch over it. */
  keep(hold: Hold): void;
  /** Its release began, or it was lost: stop renewing it. */
  drop(hold: Hold): void;
  doubt(): void;
}

export class Turnstile implements LeaseHome, HoldHome {
  readonly name: string;
  readonly clock: TurnstileHome["clock"];
  readonly backendName: string;
  readonly #home: TurnstileHome;
  readonly #line: Line = new Line();
  #holds: Hold[] = []; // Arrays: they nearly always have at most one element.
  #seekers: Seeker[] = [];
  readonly #exit: Exit;

  constructor(name: string, home: TurnstileHome) {
    this.name = name;
    this.clock = home.clock;
    this.backendName = home.backend.name;
    this.#home = home;
    this.#exit = new Exit(home);
  }

  /** Nothing is held, sought or waited for, and no release is under way. */
  get idle(): boolean {
    return (
      this.#line.first === undefined &&
      this.#holds.length === 0 &&
      this.#seekers.length === 0 &&
      this.#exit.pending === 0
    );
  }

  /** Joins the line. The ticket is settled later: with a lease, with `null` for a try, or with an error. */
  enter(ticket: Ticket): void {
    const alone = this.#line.first === undefined;
    this.#line.push(ticket);
    this.#admit();
    // Whoever does not wait is refused when anybody is ahead of it.
    if (!ticket.settled && !ticket.waits && !(alone && this.#seekers.length > 0 && this.#line.first === ticket)) {
      this.#line.remove(ticket);
      ticket.refuse(this.heldBy());
    }
  }

  /** The ticket's owner has stopped waiting. */
  leave(ticket: Ticket): void {
    this.#line.remove(ticket);
    this.#admit();
    this.#callOffSpare();
  }

  /** Who is in the way, for messages: the store's last word, or the local holder. */
  heldBy(): readonly Holding[] {
    for (const seeker of this.#seekers) {
      if (seeker.refused !== undefined && seeker.refused.heldBy.length > 0) return seeker.refused.heldBy;
    }
    const nowMs = this.clock.now();
    return this.#holds.map((hold) => hold.describe(nowMs));
  }

  /** Why the store could not be asked, if that is what the line waits for. */
  trouble(): unknown {
    const nowMs = this.clock.now();
    for (const seeker of this.#seekers) {
      const trouble = seeker.troubleAt(nowMs);
      if (trouble !== undefined) return trouble;
    }
    return undefined;
  }

  /** A question that got no answer for a whole ttl is worth nothing even if one comes: a new one goes out in its place. */
  nudge(nowMs: number): void {
    for (const seeker of this.#seekers.slice()) {
      if (seeker.unansweredMs(nowMs) < seeker.claim.ttlMs) continue;
      remove(this.#seekers, seeker);
      seeker.callOff();
    }
    this.#admit();
  }

  /** A hold is over though nobody released it. Its leases learn of it; the line goes on without it. */
  lose(hold: Hold, reason: string): void {
    if (hold.state === "lost") return;
    hold.state = "lost";
    hold.lostBecause = reason;
    remove(this.#holds, hold);
    this.#home.drop(hold);
    for (const borrower of hold.borrowers) borrower.lose(reason);
    this.#admit();
  }

  /** Ends a hold in use. */
  async forceEnd(hold: Hold, reason: string): Promise<void> {
    for (const borrower of hold.borrowers) borrower.lose(reason);
    await this.#passOn(hold);
  }

  doubt(): void {
    this.#home.doubt();
  }

  giveBack(lease: HeldLease, hold: Hold): ReleaseResult | Promise<ReleaseResult> {
    hold.takeBack(lease);
    if (hold.borrowers.length > 0) return hold.state === "lost" ? "lost" : "released";
    if (hold.state === "ending") return "released";
    if (!hold.trusted(this.clock.now())) return this.#giveBackLost(hold);
    const next = this.#line.first;
    if (next !== undefined && this.#mayLend(hold, next)) {
      this.#lend(hold);
      return "released";
    }
    return this.#passOn(hold);
  }

  /** Believed no longer, but perhaps still in the store: freed early, unless a delay after an unclean end was asked for. */
  async #giveBackLost(hold: Hold): Promise<ReleaseResult> {
    this.lose(hold, hold.lostBecause === "" ? "its ttl passed before it was released" : hold.lostBecause);
    if (hold.claim.lockDelayMs === 0) await this.#exit.release(hold);
    return "lost";
  }

  /** Serves the line from its head, as far as it goes now. */
  #admit(): void {
    for (let ticket = this.#line.first; ticket !== undefined; ticket = this.#line.first) {
      const hold = this.#joinable(ticket);
      if (hold === undefined) break;
      this.#lend(hold);
    }
    const head = this.#line.first;
    if (head === undefined) return;
    for (let spare = this.#seats(head) - this.#seekers.length; spare > 0; spare--) this.#seek(head.spec, head.waits);
  }

  /** A shared hold that the ticket may use together with others. */
  #joinable(ticket: Ticket): Hold | undefined {
    if (ticket.spec.mode !== "shared") return undefined;
    for (const hold of this.#holds) if (this.#mayLend(hold, ticket)) return hold;
    return undefined;
  }

  /** How many claims may be at the store for the head of the line. */
  #seats(head: Ticket): number {
    const { mode, limit } = head.spec;
    if (limit > 1) return Math.min(limit - this.#holds.length, this.#line.countSame(head, limit));
    for (const hold of this.#holds) {
      // Without a run there is nothing to hand over in memory: the next claim may queue in the store at once.
      if (hold.claim.mode === "exclusive" && (hold.run > 1 || mode === "shared")) return 0;
    }
    return 1;
  }

  #mayLend(hold: Hold, ticket: Ticket): boolean {
    const { spec } = hold;
    if (hold.state !== "held" || !spec.lendable || spec.shape !== ticket.spec.shape) return false;
    if (spec.mode === "exclusive" && (hold.lent >= hold.run || hold.borrowers.length > 0)) return false;
    const nowMs = this.clock.now();
    return nowMs - hold.grantedAtMs < TURN_MS && hold.isSure(nowMs);
  }

  /** Gives the hold to the head of the line. */
  #lend(hold: Hold): void {
    const ticket = this.#line.shift()!;
    const lease = new HeldLease(this.name, hold.nextFence(), hold, this);
    hold.lend(lease);
    ticket.grant(lease);
  }

  #seek(spec: Spec, queues: boolean): void {
    const seeker = new Seeker(this.#home, this.#home.newClaim(this.name, spec, queues), spec.shape);
    this.#seekers = added(this.#seekers, seeker);
    const sent = departure(this.clock);
    const answer = seeker.ask(sent);
    const goOn = (): void => this.#follow(seeker, spec, seeker.seek({ answer, sent }));
    // Nearly always the first answer is the grant, and then the seeker's loop would only cost promises.
    answer.then((first) => {
      if (first.granted) this.#answered(seeker, spec, seeker.took(first, sent));
      else goOn();
    }, goOn);
  }

  #follow(seeker: Seeker, spec: Spec, seeking: Promise<Grant | undefined>): void {
    seeking.then(
      (grant) => this.#answered(seeker, spec, grant),
      (error: unknown) => this.#failed(seeker, error),
    );
  }

  #answered(seeker: Seeker, spec: Spec, grant: Grant | undefined): void {
    // One that was called off speaks for nobody.
    if (!remove(this.#seekers, seeker)) return;
    if (grant !== undefined) this.#begin(seeker, spec, grant);
    else this.#turnedDown(seeker);
    this.#admit();
    this.#callOffSpare();
  }

  #begin(seeker: Seeker, spec: Spec, grant: Grant): void {
    const hold = new Hold(this, this.clock, seeker.claim, spec, grant);
    this.#holds = added(this.#holds, hold);
    this.#home.keep(hold);
    const head = this.#line.first;
    // A grant that took so long that nothing is left of it, or that nobody waits for now, goes straight back.
    if (!hold.trusted(hold.grantedAtMs) || head === undefined || head.spec.shape !== spec.shape) {
      void this.#passOn(hold);
      return;
    }
    this.#lend(hold);
  }

  /** Refused for good: the head was only trying. (A seeker that was called off has no ticket left.) */
  #turnedDown(seeker: Seeker): void {
    const head = this.#line.first;
    if (head === undefined || head.waits || seeker.claim.queues) return;
    this.#line.shift();
    head.refuse(seeker.refused?.heldBy ?? []);
  }

  /** The store says that asking again cannot help, or a try could not be asked. */
  #failed(seeker: Seeker, error: unknown): void {
    if (!remove(this.#seekers, seeker)) return;
    const head = this.#line.first;
    if (head !== undefined && head.spec.shape === seeker.shape) {
      this.#line.shift();
      head.fail(error);
    }
    this.#admit();
  }

  /** More claims at the store than people in line: the youngest go. */
  #callOffSpare(): void {
    const head = this.#line.first;
    const wanted = head === undefined ? 0 : this.#line.countSame(head, this.#seekers.length);
    let spare = this.#seekers.length - wanted;
    for (const seeker of this.#seekers.toReversed()) {
      if (spare <= 0 && seeker.shape === head?.spec.shape) continue;
      spare--;
      remove(this.#seekers, seeker);
      seeker.callOff();
    }
    if (head !== undefined && this.#seekers.length === 0) this.#admit();
  }

  /** Ends the hold in the store; where somebody waits here, the next claim goes out in the same step. */
  #passOn(hold: Hold): Promise<ReleaseResult> {
    hold.state = "ending";
    this.#home.drop(hold);
    remove(this.#holds, hold);
    const head = this.#line.first;
    const canSwap = this.#home.backend.swap !== undefined && hold.claim.minHoldMs === 0;
    if (!canSwap || head === undefined || this.#seats(head) <= this.#seekers.length) {
      // The next claim may leave right behind the release: the store takes them in order, or refuses the second and queues it.
      const released = this.#exit.release(hold);
      this.#admit();
      return released;
    }
    return this.#swap(hold, head.spec, head.waits);
  }

  async #swap(hold: Hold, spec: Spec, queues: boolean): Promise<ReleaseResult> {
    const { backend, clock } = this.#home;
    const next = this.#home.newClaim(this.name, spec, queues);
    const seeker = new Seeker(this.#home, next, spec.shape);
    const sent = departure(clock);
    const answer = backend.swap!(hold.claim, next);
    this.#seekers = added(this.#seekers, seeker);
    this.#follow(seeker, spec, seeker.seek({ answer, sent }));
    try {
      const { released } = await answer;
      if (released !== undefined && released !== "held") return "lost";
      return hold.isSure(clock.now()) ? "released" : "unknown";
    } catch {
      // The seeker asks again for the next claim; the old one is released on its own.
      return await this.#exit.again(hold);
    }
  }
}
