/** The claims of one local queue that are on their way through the store. Those that nobody wants are called off, and tracked until gone. */
import { Acquisition } from "./acquisition.ts";
import type { Claim, Granted, Holding, Refused } from "../contract/backend.ts";
import type { Grant } from "./hold.ts";
import type { Releases } from "./release.ts";
import { added, remove } from "./short-list.ts";
import type { CheckedOptions } from "./options.ts";
import type { SentAt } from "./sleep.ts";
import type { Runtime } from "./surroundings.ts";
import type { RequestList, Request } from "./request.ts";

/** A question that is out for this long, or longer where others were too, has nothing to pass on: whoever is next asks anew. */
const SILENCE_MS = 2000;
/** The same for a claim that is still wanted. */
export const WANTED_SILENCE_MS = 30_000;

export interface AcquisitionsHome extends Runtime {
  readonly releases: Releases;
  newClaim(name: string, options: CheckedOptions, queues: boolean): Claim;
}

/** Who hears what becomes of the claims. One that was called off is not heard of again. */
export interface Hearer {
  readonly name: string;
  granted(acquisition: Acquisition<Request>, grant: Grant): void;
  /** For good: the claim was only a try. */
  refused(acquisition: Acquisition<Request>): void;
  /** The store says that asking again cannot help, or a try could not be asked. */
  failed(acquisition: Acquisition<Request>, error: unknown): void;
  /** A question has come back without a grant, and the claim waits on. A try does not. */
  readonly heard?: () => void;
}

/** Whether the answer to a claim's question would be worth nothing. */
export type Judgement = (acquisition: Acquisition<Request>, among: Acquisitions) => boolean;

export class Acquisitions {
  readonly #home: AcquisitionsHome;
  readonly #hearer: Hearer;
  #list: Acquisition<Request>[] = []; // An array: it nearly always has at most one element.
  /** How many in a row were called off because the store did not answer them. */
  #silences = 0;

  constructor(home: AcquisitionsHome, hearer: Hearer) {
    this.#home = home;
    this.#hearer = hearer;
  }

  get all(): readonly Acquisition<Request>[] {
    return this.#list;
  }

  /** A question of one of them is out, and its answer is worth waiting for. */
  get isAsking(): boolean {
    return this.#list.some((acquisition) => acquisition.isAsking && !this.isSilent(acquisition));
  }

  /**
   * Its question was perhaps lost: nobody inherits it. Each that is given up makes the next wait twice as long, up to its ttl,
   * so that a store that is only slow gets to answer, and one that hangs is not flooded. Those that are still wanted, and would
   * lose a place in the store's queue, get more time.
   */
  isSilent(acquisition: Acquisition<Request>, firstMs: number = SILENCE_MS): boolean {
    const patienceMs = Math.min(acquisition.claim.ttlMs, firstMs * 2 ** this.#silences);
    return acquisition.unansweredMs(this.#home.clock.now()) >= Math.max(SILENCE_MS, patienceMs);
  }

  /** A claim for the request, which the caller asks for. */
  add(request: Request): Acquisition<Request> {
    const claim = this.#home.newClaim(this.#hearer.name, request.options, request.waits);
    const acquisition = new Acquisition(this.#home, claim, request);
    acquisition.onHeard = this.#onHeard;
    this.#list = added(this.#list, acquisition);
    return acquisition;
  }

  /** Asks the store for the request. */
  seek(request: Request): Acquisition<Request> {
    const acquisition = this.add(request);
    const sent = this.#home.sleep.sentNow();
    const answer = acquisition.ask(sent);
    const goOn = (): void => this.follow(acquisition, answer, sent);
    // Nearly always the first answer is the grant, and then the acquisition's loop would only cost promises.
    answer.then((first) => {
      const granted = acquisition.grantIn(first, sent);
      if (granted === undefined) goOn();
      else this.#answered(acquisition, acquisition.took(granted, sent));
    }, goOn);
    return acquisition;
  }

  /** Goes on with a claim whose first question is out. */
  follow(acquisition: Acquisition<Request>, answer: Promise<Granted | Refused>, sent: SentAt): void {
    acquisition.seek({ answer, sent }).then(
      (grant) => this.#answered(acquisition, grant),
      (error: unknown) => this.#failed(acquisition, error),
    );
  }

  callOff(acquisition: Acquisition<Request>): void {
    remove(this.#list, acquisition);
    if (this.isSilent(acquisition)) this.#silences++;
    this.#home.releases.track(acquisition.claim.name, acquisition.callOff());
  }

  /** More claims at the store than requests that want them: the youngest go, and those that nobody wants, or should inherit. */
  callOffSpare(line: RequestList): void {
    const head = line.first;
    let spare = this.#list.length - (head === undefined ? 0 : line.countSame(head, this.#list.length));
    for (let at = this.#list.length - 1; at >= 0; at--) {
      const acquisition = this.#list[at]!;
      const { options, inLine } = acquisition.request;
      const isWanted = options.shareKey === head?.options.shareKey && (inLine || !this.isSilent(acquisition));
      if (spare <= 0 && isWanted) continue;
      spare--;
      this.callOff(acquisition);
    }
  }

  /** Calls off those whose answer would be worth nothing, and says which. */
  callOffWhere(isWorthless: Judgement): readonly Acquisition<Request>[] {
    const worthless = this.#list.filter((acquisition) => isWorthless(acquisition, this));
    for (const acquisition of worthless) this.callOff(acquisition);
    return worthless;
  }

  /** Who is in the way, by the store's last word. */
  heldBy(nowMs: number): readonly Holding[] {
    return this.#list.map((acquisition) => acquisition.heldBy(nowMs)).find((heldBy) => heldBy.length > 0) ?? [];
  }

  /** Why the store could not be asked. */
  trouble(nowMs: number): unknown {
    return this.#list.map((acquisition) => acquisition.troubleAt(nowMs)).find((trouble) => trouble !== undefined);
  }

  readonly #onHeard = (): void => {
    this.#silences = 0;
    this.#hearer.heard?.();
  };

  #answered(acquisition: Acquisition<Request>, grant: Grant | undefined): void {
    if (!remove(this.#list, acquisition)) return;
    this.#silences = 0;
    if (grant === undefined) this.#hearer.refused(acquisition);
    else this.#hearer.granted(acquisition, grant);
  }

  #failed(acquisition: Acquisition<Request>, error: unknown): void {
    if (!remove(this.#list, acquisition)) return;
    this.#silences = 0;
    this.callOff(acquisition);
    this.#hearer.failed(acquisition, error);
  }
}
