/**
 * Those in front of one lock who do not wait: tryAcquire(), and `wait: 0`. Their answers are linearizable: whoever is told
 * that the lock is busy, it was at some instant between the call and the answer. Only two things prove that:
 *
 * - this process holds the lock for sure, now;
 * - the store has refused a question that left after the call.
 *
 * An older answer proves nothing, also where somebody here waits in the store's queue by its word: the lock may have become free
 * since, or that claim's grant may be on its way and leave room. So a try neither takes the word of those who wait
 * nor stands behind them: it is asked for on its own, as soon as a question of theirs that is out has come back.
 *
 * A refusal speaks for everybody who wants the same and stood here when its question left: a thousand tries are two questions.
 */
import type { Seeker } from "./acquire.ts";
import { isBusyFor } from "./admission.ts";
import type { Holding } from "./backend.ts";
import { asBackendError } from "./errors.ts";
import type { Grant, Hold } from "./hold.ts";
import { type Hearer, Seekers, type SeekersHome } from "./seekers.ts";
import { Line, type Ticket } from "./ticket.ts";

/** The queue that the tries pass by. */
export interface TriesHome {
  readonly name: string;
  readonly holds: readonly Hold[];
  /** A question of those who wait is out. */
  readonly isAsking: boolean;
  heldBy(): readonly Holding[];
  /** A shared hold that the ticket may use together with others. */
  joinable(ticket: Ticket): Hold | undefined;
  lend(hold: Hold, ticket: Ticket): void;
  /** A hold begins, and the ticket has it first. `false`: it was over before it began. */
  begin(seeker: Seeker<Ticket>, ticket: Ticket, grant: Grant): boolean;
  /** Something has changed: everybody is looked at again, those who wait first. */
  serve(): void;
}

export class Tries implements Hearer {
  readonly name: string;
  readonly #around: SeekersHome & { readonly closed: boolean };
  readonly #home: TriesHome;
  /** Those for whom no question of their own is out. */
  readonly #line: Line = new Line();
  readonly #seekers: Seekers;
  #entered = 0;
  /** The store's last answer was a no. */
  #full = false;

  constructor(around: SeekersHome & { readonly closed: boolean }, home: TriesHome) {
    this.name = home.name;
    this.#around = around;
    this.#home = home;
    this.#seekers = new Seekers(around, this);
  }

  get idle(): boolean {
    return this.#line.first === undefined && this.#seekers.all.length === 0;
  }

  /** Whether those who wait let a question come back first: its answer may be what they wait for. Not where there is room for several. */
  isAheadOf({ spec: { limit } }: Ticket): boolean {
    return limit === 1 && this.#seekers.all.length > 0;
  }

  enter(ticket: Ticket): void {
    ticket.number = ++this.#entered;
    this.#line.push(ticket);
    // Others may be before it, for whom the store is asked; what is held here is known at once.
    if (!this.#settle(ticket)) this.serve();
  }

  leave(ticket: Ticket): void {
    if (!this.#line.remove(ticket)) {
      const seeker = this.#seekers.all.find((one) => one.ticket === ticket);
      if (seeker !== undefined) this.#bequeath(seeker);
    }
    this.#home.serve();
  }

  /** Looks at everybody from the first on, as far as it goes now. */
  serve(): void {
    for (let ticket = this.#line.first; ticket !== undefined && !this.#around.closed; ticket = this.#line.first) {
      if (this.#settle(ticket)) continue;
      if (!this.#mayAsk(ticket)) return;
      const upTo = this.#entered;
      this.#line.remove(ticket);
      this.#seekers.seek(ticket).upTo = upTo;
    }
  }

  /** Questions whose answer would be worth nothing are asked anew when everybody is served next. `false`: there are none. */
  replace(isWorthless: (seeker: Seeker<Ticket>) => boolean): boolean {
    const worthless = this.#seekers.callOffWhere(isWorthless);
    for (const { ticket } of worthless) this.#line.push(ticket);
    return worthless.length > 0;
  }

  trouble(nowMs: number): unknown {
    return this.#seekers.trouble(nowMs);
  }

  granted(seeker: Seeker<Ticket>, grant: Grant): void {
    this.#full = false;
    if (!this.#home.begin(seeker, seeker.ticket, grant)) this.#line.push(seeker.ticket);
    this.#home.serve();
  }

  refused(seeker: Seeker<Ticket>): void {
    this.#full = true;
    const { mode, limit } = seeker.claim;
    const heldBy = seeker.heldBy(this.#around.clock.now());
    // Who fits beside whom depends on nothing else.
    const isSame = ({ spec }: Ticket): boolean => spec.mode === mode && spec.limit === limit;
    this.#answer(seeker, isSame, (ticket) => ticket.refuse(heldBy));
  }

  failed(seeker: Seeker<Ticket>, error: unknown): void {
    const { shape } = seeker.ticket.spec;
    const failure = asBackendError(this.#around.backend.name, this.name, error);
    // Another shape may be what the store wants.
    this.#answer(
      seeker,
      ({ spec }) => spec.shape === shape,
      (ticket) => ticket.fail(failure),
    );
  }

  /** The answer to a question is for those who stood here when it left and have none of their own out. */
  #answer(seeker: Seeker<Ticket>, isSame: (ticket: Ticket) => boolean, settle: (ticket: Ticket) => void): void {
    // One of them, unless it came later and took another's place: then it is asked for again.
    this.#line.push(seeker.ticket);
    let next: Ticket | undefined;
    for (let ticket = this.#line.first; ticket !== undefined; ticket = next) {
      ({ next } = ticket);
      if (ticket.number > seeker.upTo || !isSame(ticket)) continue;
      this.#line.remove(ticket);
      settle(ticket);
    }
    this.#home.serve();
  }

  /** What is known here without the store: that the lock is busy, or that it may be shared. */
  #settle(ticket: Ticket): boolean {
    const isBusy = isBusyFor(ticket, this.#home.holds, this.#around.clock.now());
    const hold = isBusy ? undefined : this.#home.joinable(ticket);
    if (!isBusy && hold === undefined) return false;
    this.#line.remove(ticket);
    if (hold === undefined) ticket.refuse(this.#home.heldBy());
    else this.#home.lend(hold, ticket);
    return true;
  }

  /** One at a time where one would be in the other's way: a try is never refused for another that was given up. */
  #mayAsk({ spec: { mode, limit, shape } }: Ticket): boolean {
    const out = this.#seekers.all;
    // For as many as there may be room for, until the store says that there is none.
    if (limit > 1) return out.length < (this.#full ? 1 : Math.max(1, limit - this.#home.holds.length));
    if (this.#home.isAsking) return false;
    if (mode === "exclusive") return out.length === 0;
    // Of one shape, all may share what one of them gets.
    return out.every(({ claim, ticket }) => claim.mode === "shared" && ticket.spec.shape !== shape);
  }

  /** Whose question it was has left. The next takes its place, if it wants the same. */
  #bequeath(seeker: Seeker<Ticket>): void {
    const heir = this.#line.first;
    if (heir?.spec.shape !== seeker.ticket.spec.shape) return this.#seekers.callOff(seeker);
    this.#line.remove(heir);
    seeker.ticket = heir;
    return undefined;
  }
}
