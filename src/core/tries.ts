/**
 * Those in front of one lock who do not wait: tryAcquire(), and `wait: 0`. Their answers are linearizable: where a try learns
 * that the lock is busy, it was so at some instant between the call and the answer. Only two things prove that:
 *
 * - this process holds the lock for sure, now;
 * - the store has refused a question that left after the call.
 *
 * An older answer proves nothing, also where another request here waits in the store's queue because of it: the lock may
 * have become free since, or that claim's grant may be on its way and leave room. So a try neither takes the word of those who wait
 * nor stands behind them: it is asked for on its own, as soon as a question of theirs that is out has come back.
 *
 * A refusal speaks for all that want the same and stood here when its question left: a thousand tries on a busy lock are
 * a few questions, whatever else they ask for.
 */
import type { Acquisition } from "./acquisition.ts";
import type { Blockers } from "../contract/answer.ts";
import { asBackendError } from "../contract/errors.ts";
import type { Done, Grant } from "./grant.ts";
import type { Hold } from "./hold.ts";
import { Acquisitions, type ClaimParts, type Judgement } from "./acquisitions.ts";
import { type Asked, RequestList, type Request } from "./request.ts";

/** How many questions may be out before the store has said anything, and at most. */
const ASKED_FIRST = 8;
const ASKED_MAX = 64;

interface TriesParts extends ClaimParts {
  /** Closed: nothing is granted any more. */
  readonly closing: { readonly closed: boolean };
}

/** The queue that the tries pass by. */
export interface TriesFront {
  readonly holds: readonly Hold[];
  /** A question of those who wait is out, and its answer is worth waiting for. */
  readonly isAsking: boolean;
  /** The first of those who wait is asked for as soon as the tries' questions have come back. */
  readonly isHeldUp: boolean;
  blockers(): Blockers;
  /** A shared hold that the request may use together with others, or one that nothing uses. */
  joinable(request: Request): Hold | undefined;
  lend(hold: Hold, request: Request): void;
  /** A hold that lingers goes back to the store. */
  letGo(): void;
  /** A hold begins, and the request has it first. `false`: it was over before it began. */
  begin(acquisition: Acquisition<Request>, request: Request, grant: Grant): boolean;
  /** Something has changed: all are looked at again, those who wait first. */
  serve(): void;
}

export class Tries extends Acquisitions {
  readonly #parts: TriesParts;
  readonly #front: TriesFront;
  /** Those for whom no question of their own is out. */
  readonly #line: RequestList = new RequestList();
  #entered = 0;
  /** How many questions may be out, where claims can hold beside each other: one after a refusal, more after each grant. */
  #most = ASKED_FIRST;

  constructor(name: string, parts: TriesParts, front: TriesFront) {
    super(name, parts);
    this.#parts = parts;
    this.#front = front;
  }

  get idle(): boolean {
    return this.#line.first === undefined && this.claims.length === 0;
  }

  /** Whether those who wait let a question come back first: its answer may be what they wait for. Not where there is room for several. */
  isAheadOf({ options: { limit } }: Request): boolean {
    return limit === 1 && this.claims.some((one) => !one.isComingBack && !this.isSilent(one));
  }

  enter(request: Request): void {
    request.number = ++this.#entered;
    this.#line.push(request);
    // Others may be before it, for whom the store is asked; what is held here is known at once.
    if (!this.#settle(request)) this.serve();
  }

  leave(request: Request): void {
    if (!this.#line.remove(request)) {
      const acquisition = this.claims.find((one) => one.request === request);
      if (acquisition !== undefined) this.#bequeath(acquisition);
    }
    this.#front.serve();
  }

  /** Looks at all of them from the first on, as far as it goes now. */
  serve(): void {
    for (
      let request = this.#line.first;
      request !== undefined && !this.#parts.closing.closed;
      request = this.#line.first
    ) {
      if (this.#settle(request)) continue;
      if (!this.#mayAsk(request)) return;
      this.#front.letGo();
      if (!request.inLine) continue;
      const upTo = this.#entered;
      this.#line.remove(request);
      this.seek(request).upTo = upTo;
    }
  }

  /** Questions whose answer would be worth nothing are asked anew when all are served next. `false`: there are none. */
  replace(isWorthless: Judgement): boolean {
    const worthless = this.callOffWhere(isWorthless);
    // Its release may have run anything.
    for (const { request } of worthless) if (!request.settled) this.#line.push(request);
    return worthless.length > 0;
  }

  refusalOf(request: Request): Asked | undefined {
    const isFor = (one: Acquisition<Request>): boolean => request.number <= one.upTo && isSameTo(one, request);
    return this.claims.find((one) => one.refused !== undefined && isFor(one));
  }

  trouble(): unknown {
    return this.troubleAt(this.#parts.clock.now());
  }

  protected granted(acquisition: Acquisition<Request>, grant: Grant): void {
    this.#most = Math.min(ASKED_MAX, 2 * this.#most);
    if (!this.#front.begin(acquisition, acquisition.request, grant)) this.#line.push(acquisition.request);
    this.#front.serve();
  }

  protected done(acquisition: Acquisition<Request>, { outcome }: Done): void {
    const isSame = ({ options }: Request): boolean => options.wantsOutcome;
    this.#answer(acquisition, isSame, (request) => request.finish(outcome));
  }

  protected refused(acquisition: Acquisition<Request>): void {
    this.#most = 1;
    const blockers = acquisition.blockers(this.#parts.clock.now());
    const isSame = (request: Request): boolean => isSameTo(acquisition, request);
    this.#answer(acquisition, isSame, (request) => request.refuse(blockers, acquisition));
  }

  protected failed(acquisition: Acquisition<Request>, error: unknown): void {
    const { shareKey } = acquisition.request.options;
    const failure = asBackendError(this.#parts.backend.name, this.name, error);
    // Another shareKey may be what the store wants.
    this.#answer(
      acquisition,
      ({ options }) => options.shareKey === shareKey,
      (request) => request.fail(failure),
    );
  }

  /** A try does not wait on. */
  protected heard(): void {}

  protected facts(): undefined {
    return undefined;
  }

  /** The answer to a question is for those who stood here when it left and have none of their own out. */
  #answer(
    acquisition: Acquisition<Request>,
    isSame: (request: Request) => boolean,
    settle: (request: Request) => void,
  ): void {
    // One of them, unless it came later and took another's place: then it is asked for again.
    this.#line.push(acquisition.request);
    let next: Request | undefined;
    for (let request = this.#line.first; request !== undefined; request = next) {
      ({ next } = request);
      if (request.number > acquisition.upTo || !isSame(request)) continue;
      this.#line.remove(request);
      settle(request);
    }
    this.#front.serve();
  }

  /** What is known here without the store: that the lock is busy, or that it may be shared. */
  #settle(request: Request): boolean {
    const isBusy = isBusyFor(request, this.#front.holds, this.#parts.clock.now());
    const hold = isBusy ? undefined : this.#front.joinable(request);
    if (!isBusy && hold === undefined) return false;
    this.#line.remove(request);
    if (hold === undefined) request.refuse(this.#front.blockers());
    else this.#front.lend(hold, request);
    return true;
  }

  /** One at a time where one would be in the other's way: a try is never refused for another that was given up. */
  #mayAsk({ options: { mode, limit, shareKey } }: Request): boolean {
    const out = this.claims;
    if (out.length >= this.#most) return false;
    // For as many as there may be room for.
    if (limit > 1) return out.length < Math.max(1, limit - this.#front.holds.length);
    // Nothing more goes out while a waiter lets what is out come back first: it would wait for ever.
    if (this.#front.isAsking || this.#front.isHeldUp) return false;
    if (mode === "exclusive") return out.length === 0;
    // Of one shareKey, all may share what one of them gets.
    return out.every(({ claim, request }) => claim.mode === "shared" && request.options.shareKey !== shareKey);
  }

  /** Whose question it was has left. The next takes its place, if it wants the same and the answer may yet come. */
  #bequeath(acquisition: Acquisition<Request>): void {
    const heir = this.#line.first;
    const isSame = heir?.options.shareKey === acquisition.request.options.shareKey;
    if (!isSame || this.isSilent(acquisition)) return this.callOff(acquisition);
    this.#line.remove(heir);
    acquisition.request = heir;
    return undefined;
  }
}

/** A refusal speaks for both. Who fits beside whom depends on nothing else; but who wants an outcome may get one though the lock is busy. */
function isSameTo({ claim }: Acquisition<Request>, { options }: Request): boolean {
  const isSame = options.mode === claim.mode && options.limit === claim.limit;
  return isSame && (claim.wantsOutcome === true || !options.wantsOutcome);
}

/** True: what this process holds, for sure and now, is in this request's way. What is in doubt may be free by now. */
function isBusyFor({ options: { mode, limit } }: Request, holds: readonly Hold[], nowMs: number): boolean {
  let taken = 0;
  for (const hold of holds) {
    // What no lease uses goes back for the request.
    if (hold.isIdle) continue;
    if ((mode === "exclusive" || hold.claim.mode === "exclusive") && hold.isSure(nowMs)) taken++;
  }
  return taken >= limit;
}
