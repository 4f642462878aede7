/** The claims of one local queue that are on their way through the store. Those that are no longer wanted are called off, and tracked until gone. */
import { Acquisition } from "./acquisition.ts";
import type { AcquisitionFront } from "./acquisition-front.ts";
import type { Shown } from "./shown.ts";
import type { Blockers } from "../contract/answer.ts";
import type { Claim, Granted, LocalFacts, Refused } from "../contract/backend.ts";
import type { SentAt } from "../contract/clock.ts";
import type { Done, Grant } from "./grant.ts";
import { remove } from "./list.ts";
import { toClaim } from "./options.ts";
import type { Releases } from "./release.ts";
import type { Runtime } from "./release-until.ts";
import { type RequestList, type Request, SILENCE_MS } from "./request.ts";

/** What claims need of what is around them. */
export interface ClaimParts extends Runtime {
  /** Who claims, for people. */
  readonly holder: string;
  readonly releases: Releases;
  /** Whose locks these are, for those who hold several. */
  readonly locks: object;
  /** While the store is asked what it knows, each claim that is made is noted: see picture.ts. */
  readonly looks: ReadonlySet<(claim: Claim) => void>;
}

/** Whether the answer to a claim's question would be worth nothing. */
export type Judgement = (acquisition: Acquisition<Request>, among: Acquisitions) => boolean;

export abstract class Acquisitions implements AcquisitionFront<Acquisition<Request>> {
  readonly name: string;
  readonly #parts: ClaimParts;
  /** An array: it nearly always has at most one element. */
  protected claims: Acquisition<Request>[] = [];
  /** How many in a row were called off because the store did not answer them. */
  #silences = 0;

  constructor(name: string, parts: ClaimParts) {
    this.name = name;
    this.#parts = parts;
  }

  // What becomes of a claim. One that was called off is not heard of again.

  protected abstract granted(acquisition: Acquisition<Request>, grant: Grant): void;

  /** The claim wanted an outcome, and there is one. */
  protected abstract done(acquisition: Acquisition<Request>, done: Done): void;

  /** For good: the claim was only a try. */
  protected abstract refused(acquisition: Acquisition<Request>): void;

  /** The store says that asking again cannot help, or a try could not be asked. */
  protected abstract failed(acquisition: Acquisition<Request>, error: unknown): void;

  /** A question has come back without a grant, and the claim waits on. A try does not. */
  protected abstract heard(acquisition: Acquisition<Request>): void;

  /** What a claim shows in the store of those who wait behind it here. */
  protected abstract facts(acquisition: Acquisition<Request>): LocalFacts | undefined;

  /** A question of one of them is out, and its answer is worth waiting for. */
  get isAsking(): boolean {
    return this.claims.some((acquisition) => acquisition.isAsking && !this.isSilent(acquisition));
  }

  /**
   * Its question was perhaps lost: no other request inherits it. Each that is given up makes the next wait twice as long, up to its ttl,
   * so that a store that is only slow gets to answer, and one that hangs is not flooded. One that is still wanted, and would
   * lose its place in the store's queue, gets more time at first.
   */
  isSilent(acquisition: Acquisition<Request>, firstMs: number = SILENCE_MS): boolean {
    const patienceMs = Math.min(acquisition.claim.ttlMs, firstMs * 2 ** this.#silences);
    return acquisition.unansweredMs(this.#parts.clock.now()) >= Math.max(SILENCE_MS, patienceMs);
  }

  /** The store says that a claim is wanted whose grant is not here yet. */
  hearWanted(claimId: string): void {
    for (const acquisition of this.claims) if (acquisition.claim.id === claimId) acquisition.isWanted = true;
  }

  /** Asks the store for the request. `sentMs`: now, where the caller knows it. */
  protected seek(request: Request, sentMs?: number): Acquisition<Request> {
    const acquisition = this.add(request);
    acquisition.start(sentMs);
    return acquisition;
  }

  /** The question of a claim goes out by another way, in a swap. */
  protected follow(acquisition: Acquisition<Request>, answer: Promise<Granted | Refused>, sent: SentAt): void {
    acquisition.goOn(answer, sent);
  }

  /** A claim for the request, which is still to be asked for. */
  protected add(request: Request): Acquisition<Request> {
    const { chance, holder } = this.#parts;
    const claim = toClaim(chance.id(), this.name, holder, request.options, request.waits);
    const acquisition = new Acquisition(this.#parts, claim, request, this);
    acquisition.untilMs = request.untilMs;
    for (const note of this.#parts.looks) note(claim);
    if (this.claims.length === 0) this.claims = [acquisition];
    else this.claims.push(acquisition);
    // What its caller holds is looked for by those who find deadlocks: it is there from the start.
    if (request.scope !== undefined && request.waits) acquisition.show();
    return acquisition;
  }

  protected callOff(acquisition: Acquisition<Request>): void {
    remove(this.claims, acquisition);
    if (this.isSilent(acquisition)) this.#silences++;
    this.#parts.releases.track(acquisition.claim, acquisition.callOff());
  }

  /** More claims at the store than requests that want them: the youngest go, and those that no request wants, or should inherit. */
  protected callOffSpare(line: RequestList): void {
    // Looked for anew each time: what the backend runs when it is released may call off others.
    for (let spare = this.#spare(line); spare !== undefined; spare = this.#spare(line)) this.callOff(spare);
  }

  #spare(line: RequestList): Acquisition<Request> | undefined {
    const head = line.first;
    const isTooMany = this.claims.length > (head === undefined ? 0 : line.countSame(head, this.claims.length));
    return this.claims.findLast((acquisition) => {
      const { options, inLine } = acquisition.request;
      return isTooMany || options.shareKey !== head?.options.shareKey || !(inLine || !this.isSilent(acquisition));
    });
  }

  /** Calls off those whose answer would be worth nothing, and says which. */
  protected callOffWhere(isWorthless: Judgement): readonly Acquisition<Request>[] {
    const worthless = this.claims.filter((acquisition) => isWorthless(acquisition, this));
    for (const acquisition of worthless) this.callOff(acquisition);
    return worthless;
  }

  /** Who is in the way, by the store's last word. */
  protected refusedBy(nowMs: number): Blockers | undefined {
    const all = this.claims.map((acquisition) => acquisition.blockers(nowMs));
    return all.find(({ heldBy, quarantineMs }) => heldBy.length > 0 || quarantineMs !== undefined);
  }

  /** Why the store could not be asked. */
  protected troubleAt(nowMs: number): unknown {
    return this.claims.map((acquisition) => acquisition.troubleAt(nowMs)).find((trouble) => trouble !== undefined);
  }

  shownOf(acquisition: Acquisition<Request>): Shown {
    return { meta: acquisition.request.options.meta, local: this.facts(acquisition) };
  }

  onAsked({ request, questions }: Acquisition<Request>): void {
    request.noteAsked(questions);
  }

  onHeard(acquisition: Acquisition<Request>): void {
    this.#silences = 0;
    this.heard(acquisition);
  }

  onEnded(
    acquisition: Acquisition<Request>,
    grant: Grant | Done | undefined,
    failure?: { readonly error: unknown },
  ): void {
    // Mostly it is the only one.
    if (this.claims.at(-1) === acquisition) this.claims.pop();
    else if (!remove(this.claims, acquisition)) return;
    this.#silences = 0;
    if (grant !== undefined && "outcome" in grant) this.done(acquisition, grant);
    else if (grant !== undefined) this.granted(acquisition, grant);
    else if (failure === undefined) this.refused(acquisition);
    else {
      this.callOff(acquisition);
      this.failed(acquisition, failure.error);
    }
  }
}
