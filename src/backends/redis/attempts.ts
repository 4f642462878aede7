/** How claims come in: attempts and swaps. Until the store has answered, close() waits for them, because a late grant is given back. */
import type { Claim, Granted, Refused, Released, Swapped } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { type Caller, TooFewReplicas } from "./caller.ts";
import type { Connection } from "./connection.ts";
import { LimitConflict, toBackendError } from "./errors.ts";
import type { Fitness } from "./server-checks.ts";
import { attempt, swap } from "./generated/scripts.ts";
import { FOLLOWS_MAX, type Leaving, leavingId } from "./release.ts";
import type { Names } from "./keys.ts";
import type { Settings } from "./options.ts";
import type { Post } from "./messages.ts";
import type { Terms } from "./records.ts";
import { isBusy, isYoung, toRefused, toReleased, toRun } from "./replies.ts";
import type { Entry } from "./local-claims.ts";
import { ENTERING, type Underway } from "./pending-calls.ts";

/** How long the first claim of a process waits for its inbox at most. */
const INBOX_WAIT_MS = 1000;

/** When to ask again for a lock that is still busy with lapsed tickets. */
const BUSY_MS = 100;

export interface Doorway {
  readonly connection: Connection;
  readonly names: Names;
  readonly settings: Settings;
  readonly caller: Caller;
  readonly terms: Terms;
  readonly fitness: Fitness;
  readonly post: Post;
  readonly leaving: Leaving;
  readonly underway: Underway;
}

export class Entering {
  readonly #at: Doorway;
  /** Nothing but the script itself is needed for an answer. */
  readonly #plain: boolean;

  constructor(at: Doorway) {
    this.#at = at;
    this.#plain = at.settings.quarantineMs === 0 && at.settings.durability === undefined;
  }

  // No async functions on the hot path: each costs a promise and a turn of the microtask queue.

  attempt(claim: Claim): Promise<Granted | Refused> {
    const { connection, names, settings, terms, post, underway } = this.#at;
    if (!this.#plain || !post.inbox.ready) return this.#firstAttempt(claim);
    const key = names.lock(claim.name);
    const text = terms.of(claim, claim.queues, "calm");
    const sentMs = settings.clock.now();
    const entry = post.roster.add(claim, sentMs);
    underway.begin(entry, ENTERING);
    return connection.evalshaOn(attempt.sha, key, names.markerBeside(key, false), claim.id, text).then(
      (reply) => this.#answered(claim, entry, key, reply, claim.queues, sentMs),
      (error: unknown) => this.#attemptAgain(claim, entry, key, text, error, sentMs),
    );
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    const { connection, post } = this.#at;
    post.queue.forget(held.id);
    const breaks = connection.breaks();
    let released: Released | undefined;
    const answer = await this.#enter(next, next.queues, { id: leavingId(held), was: (known) => (released = known) });
    post.roster.left(post.roster.get(held), true);
    // An "absent" may follow a "held" that nobody heard: see leaving.ts.
    return released === "absent" && connection.breaks() !== breaks ? answer : { ...answer, released };
  }

  /** A process's first attempt, and every one that needs more than the script. */
  async #firstAttempt(claim: Claim): Promise<Granted | Refused> {
    const { post } = this.#at;
    if (post.inbox.ready || post.inbox.tried) return this.#enter(claim, claim.queues);
    void post.inbox.open();
    const answer = await this.#enter(claim, false);
    // A holder must be told at once when its lease is ended by force; and a claim that is queued before it can be told
    // might be taken for one whose process is gone. Without messages all works too, so nobody waits long for them.
    await post.inbox.openWithin(Math.min(INBOX_WAIT_MS, claim.ttlMs / 4));
    return answer.granted || !claim.queues ? answer : this.#enter(claim, true);
  }

  async #attemptAgain(
    claim: Claim,
    entry: Entry,
    key: string,
    terms: string,
    error: unknown,
    sentMs: number,
  ): Promise<Granted | Refused> {
    const again = this.#at.caller.afterNoScript(error, attempt, key, [claim.id, terms]);
    const reply = await again.catch((known: unknown) => {
      this.#at.underway.end(entry, ENTERING);
      throw this.#failed(claim, entry, key, claim.queues, known);
    });
    return this.#answered(claim, entry, key, reply, claim.queues, sentMs);
  }

  /**
   * The one door of every claim under a quarantine: none is asked for that a quarantine could not outlast, or where it would
   * promise nothing. `instead`: the claim that leaves in the same step (see leavingId), and who hears what it was.
   */
  async #enter(
    claim: Claim,
    queues: boolean,
    instead?: { readonly id: string; was(known: Released): void },
    follows = 0,
  ): Promise<Granted | Refused> {
    const { names, settings, caller, terms, fitness, post, leaving, underway } = this.#at;
    if (settings.quarantineMs > 0) await fitness.check(claim).catch(caller.explained(claim.name));
    const key = names.lock(claim.name);
    const args = [claim.id, terms.of(claim, queues, instead === undefined ? "calm" : "crowded")];
    if (instead !== undefined) args.push(instead.id);
    const sentMs = settings.clock.now();
    const entry = post.roster.add(claim, sentMs);
    underway.begin(entry, ENTERING);
    let reply: unknown;
    try {
      reply = await caller.runDurably(instead === undefined ? attempt : swap, key, args);
    } catch (error) {
      underway.end(entry, ENTERING);
      // Not believed, so it is given back: nothing is left held, whatever its minHold.
      if (error instanceof TooFewReplicas) await leaving.release({ ...claim, minHoldMs: 0 });
      throw this.#failed(claim, entry, key, queues, error);
    }
    if (instead !== undefined && Array.isArray(reply)) {
      instead.was(toReleased(claim.name, reply[0]));
      reply = reply[1];
    }
    return this.#answered(claim, entry, key, reply, queues, sentMs, follows);
  }

  #answered(
    claim: Claim,
    entry: Entry,
    key: string,
    reply: unknown,
    queues: boolean,
    sentMs: number,
    follows = 0,
  ): Granted | Refused | Promise<Granted | Refused> {
    const { caller, terms, fitness, post, underway } = this.#at;
    caller.wrote = true; // A refusal is written down too.
    underway.end(entry, ENTERING);
    const fences = toRun(reply);
    if (fences !== undefined) {
      post.queue.forget(claim.id);
      return { granted: true, fence: fences.fence, run: fences.run, fromMs: sentMs };
    }
    if (isBusy(reply)) return this.#follow(claim, entry, queues, follows);
    const { refused, learned, wallMs } = toRefused(claim.name, reply);
    // A fail-over, perhaps: whether the new primary is fit is another question.
    if (isYoung(reply)) fitness.forget();
    if (learned === undefined) {
      post.roster.left(entry, true);
      return refused;
    }
    const ticketMs = terms.ticketMs(claim);
    post.queue.queued(claim, key, ticketMs, sentMs, learned, wallMs);
    return { ...refused, retryMs: ticketMs };
  }

  /** Asks again for a lock that is busy with lapsed tickets, as long as anybody wants it. The store knows nothing of the claim. */
  #follow(claim: Claim, entry: Entry, queues: boolean, follows: number): Refused | Promise<Granted | Refused> {
    const { post, underway } = this.#at;
    const isWanted = entry.state === "wanted";
    if (isWanted && !underway.isClosing && follows < FOLLOWS_MAX)
      return this.#enter(claim, queues, undefined, follows + 1);
    if (isWanted) post.roster.left(entry, true);
    return { granted: false, heldBy: [], retryMs: BUSY_MS };
  }

  #failed(claim: Claim, entry: Entry, key: string, queues: boolean, error: unknown): LockBackendError {
    const { caller, terms, post } = this.#at;
    if (queues) post.queue.unsure(claim, key, terms.ticketMs(claim));
    if (error instanceof TooFewReplicas) {
      const text = `${error.message}, so it was given back. Check the replicas, or ask for fewer`;
      return new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
    }
    const known = toBackendError(error, claim.name, caller.wrote);
    if (known.fatal) post.roster.left(entry, true);
    return known instanceof LimitConflict ? new LimitConflict(claim.name, known.inForce, claim.limit) : known;
  }
}
