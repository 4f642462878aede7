/** The claims of one local queue that are on their way through the store. Those that nobody wants are called off, and tracked until gone. */
import { Seeker } from "./acquire.ts";
import type { Claim, Granted, Holding, Refused } from "./backend.ts";
import { type Departure, departure, type Grant } from "./hold.ts";
import type { Releases } from "./release.ts";
import { added, remove } from "./short-list.ts";
import type { Spec } from "./spec.ts";
import type { Surroundings } from "./surroundings.ts";
import type { Line, Ticket } from "./ticket.ts";

export interface SeekersHome extends Surroundings {
  readonly releases: Releases;
  newClaim(name: string, spec: Spec, queues: boolean): Claim;
}

/** Who hears what becomes of the claims. One that was called off is not heard of again. */
export interface Hearer {
  readonly name: string;
  granted(seeker: Seeker<Ticket>, grant: Grant): void;
  /** For good: the claim was only a try. */
  refused(seeker: Seeker<Ticket>): void;
  /** The store says that asking again cannot help, or a try could not be asked. */
  failed(seeker: Seeker<Ticket>, error: unknown): void;
  /** A question has come back without a grant, and the claim waits on. A try does not. */
  readonly heard?: () => void;
}

export class Seekers {
  readonly #home: SeekersHome;
  readonly #hearer: Hearer;
  #list: Seeker<Ticket>[] = []; // An array: it nearly always has at most one element.

  constructor(home: SeekersHome, hearer: Hearer) {
    this.#home = home;
    this.#hearer = hearer;
  }

  get all(): readonly Seeker<Ticket>[] {
    return this.#list;
  }

  /** A question of one of them is out. */
  get isAsking(): boolean {
    return this.#list.some((seeker) => seeker.isAsking);
  }

  /** A claim for the ticket, which the caller asks for. */
  add(ticket: Ticket): Seeker<Ticket> {
    const claim = this.#home.newClaim(this.#hearer.name, ticket.spec, ticket.waits);
    const seeker = new Seeker(this.#home, claim, ticket);
    seeker.onHeard = this.#hearer.heard;
    this.#list = added(this.#list, seeker);
    return seeker;
  }

  /** Asks the store for the ticket. */
  seek(ticket: Ticket): Seeker<Ticket> {
    const seeker = this.add(ticket);
    const sent = departure(this.#home.clock);
    const answer = seeker.ask(sent);
    const goOn = (): void => this.follow(seeker, answer, sent);
    // Nearly always the first answer is the grant, and then the seeker's loop would only cost promises.
    answer.then((first) => {
      const granted = seeker.grantIn(first, sent);
      if (granted === undefined) goOn();
      else this.#answered(seeker, seeker.took(granted, sent));
    }, goOn);
    return seeker;
  }

  /** Goes on with a claim whose first question is out. */
  follow(seeker: Seeker<Ticket>, answer: Promise<Granted | Refused>, sent: Departure): void {
    seeker.seek({ answer, sent }).then(
      (grant) => this.#answered(seeker, grant),
      (error: unknown) => this.#failed(seeker, error),
    );
  }

  callOff(seeker: Seeker<Ticket>): void {
    remove(this.#list, seeker);
    this.#home.releases.track(seeker.claim.name, seeker.callOff());
  }

  /** More claims at the store than tickets that want them: the youngest go, and those that nobody wants. */
  callOffSpare(line: Line): void {
    const head = line.first;
    let spare = this.#list.length - (head === undefined ? 0 : line.countSame(head, this.#list.length));
    for (let at = this.#list.length - 1; at >= 0; at--) {
      const seeker = this.#list[at]!;
      if (spare <= 0 && seeker.ticket.spec.shape === head?.spec.shape) continue;
      spare--;
      this.callOff(seeker);
    }
  }

  /** Calls off those whose answer would be worth nothing, and says which. */
  callOffWhere(isWorthless: (seeker: Seeker<Ticket>) => boolean): readonly Seeker<Ticket>[] {
    const worthless = this.#list.filter(isWorthless);
    for (const seeker of worthless) this.callOff(seeker);
    return worthless;
  }

  /** Who is in the way, by the store's last word. */
  heldBy(nowMs: number): readonly Holding[] {
    return this.#list.map((seeker) => seeker.heldBy(nowMs)).find((heldBy) => heldBy.length > 0) ?? [];
  }

  /** Why the store could not be asked. */
  trouble(nowMs: number): unknown {
    return this.#list.map((seeker) => seeker.troubleAt(nowMs)).find((trouble) => trouble !== undefined);
  }

  #answered(seeker: Seeker<Ticket>, grant: Grant | undefined): void {
    if (!remove(this.#list, seeker)) return;
    if (grant === undefined) this.#hearer.refused(seeker);
    else this.#hearer.granted(seeker, grant);
  }

  #failed(seeker: Seeker<Ticket>, error: unknown): void {
    if (!remove(this.#list, seeker)) return;
    this.callOff(seeker);
    this.#hearer.failed(seeker, error);
  }
}
