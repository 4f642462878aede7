/**
 * The Redis backend: every operation is one script on the server's clock. Waiting is a queue in the store; release hands
 * the lock to the next waiter in the same script and tells its process. docs/backends/redis.md says what holds when.
 */
import { randomBytes } from "node:crypto";
import type {
  Claim,
  Granted,
  Listener,
  Member,
  MemberFacts,
  MemberTerms,
  Refused,
  Released,
  Renewal,
  Snapshot,
  Swapped,
  Vote,
} from "../backend.ts";
import { LockBackendError, quote } from "../errors.ts";
import { portions } from "./batch.ts";
import { sendBeat } from "./beats.ts";
import { Caller, TooFewReplicas } from "./caller.ts";
import type { Connection } from "./connection.ts";
import { Departures } from "./departures.ts";
import { LimitConflict, toBackendError } from "./fault.ts";
import { Fitness, unfit } from "./fitness.ts";
import { attempt } from "./generated/attempt.ts";
import { force } from "./generated/force.ts";
import { swap } from "./generated/swap.ts";
import { Inbox } from "./inbox.ts";
import { FORCED_MS, identify, type Identity, query } from "./inspect.ts";
import { type Names, namesOf } from "./names.ts";
import type { Settings } from "./options.ts";
import { Queue } from "./queue.ts";
import { forcedReason } from "./record.ts";
import { Renewals } from "./renewal.ts";
import { Replicator } from "./replicated.ts";
import { toRefused, toRun } from "./reply.ts";
import type { Script } from "./script.ts";
import { Terms } from "./terms.ts";
import { Voter } from "./voter.ts";

/** How long the first claim of a process waits for its inbox at most. */
const INBOX_WAIT_MS = 1000;

/** What comes with a connection that was opened for this backend, and not lent to it. */
export interface Own {
  readonly renewer: { readonly module: string; readonly data: unknown };
  close(): Promise<void>;
}

export class RedisBackend implements Member {
  readonly name = "redis";
  readonly #connection: Connection;
  readonly #settings: Settings;
  readonly #names: Names;
  readonly #caller: Caller;
  readonly #renewals: Renewals;
  readonly #terms: Terms;
  readonly #voter: Voter;
  readonly #inbox: Inbox;
  readonly #queue: Queue;
  readonly #replicator: Replicator | undefined;
  readonly #fitness: Fitness;
  readonly #departures: Departures;
  readonly #stopWatching: () => void;
  readonly #own: Own | undefined;
  /** Nothing but the script itself is needed for an answer. */
  readonly #plain: boolean;
  #listener: Listener | undefined;
  #closed: Promise<void> | undefined;

  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#settings = settings;
    this.#own = own;
    this.#plain = settings.quarantineMs === 0 && settings.durability === undefined;
    this.#names = namesOf(settings.prefix, connection.topology === "cluster");
    this.#replicator = settings.durability && new Replicator(connection, settings.durability);
    this.#fitness = new Fitness(connection, this.#names, settings);
    this.#caller = new Caller(connection, this.#names, settings, this.#replicator);
    this.#departures = new Departures(connection, this.#names, this.#caller, settings);
    this.#renewals = new Renewals(connection, this.#names, settings, this.#replicator);
    const inbox = this.#names.inbox(randomBytes(12).toString("base64url"));
    this.#terms = new Terms(inbox, settings);
    this.#voter = new Voter(connection, this.#names, this.#terms, this.#caller);
    this.#voter.quarantineMs = settings.voteQuarantineMs;
    this.#queue = new Queue({
      clock: settings.clock,
      confirms: settings.durability !== undefined,
      portions: (waiters) => portions(waiters, connection.topology, this.#names),
      beat: (portion) => sendBeat(connection, this.#names, settings.quarantineMs, portion),
      abandon: (key, id) => void this.#departures.abandon(key, id),
    });
    this.#inbox = new Inbox(connection, inbox, {
      granted: (id, fences, sure, key) => this.#queue.granted(id, fences, sure, key.slice(connection.keyPrefix.length)),
      forced: (id, json) => this.#listener?.lost(id, forcedReason(json)),
      listening: () => this.#doubt(),
    });
    this.#stopWatching = connection.onReconnect(() => this.#doubt());
  }

  /** Not a field, so that nobody who prints the backend sees the URL, which may hold a password. */
  get renewer(): Own["renewer"] | undefined {
    return this.#own?.renewer;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  // No async functions on the hot paths: each costs a promise and a turn of the microtask queue.

  attempt(claim: Claim): Promise<Granted | Refused> {
    if (!this.#plain || !this.#inbox.ready) return this.#firstAttempt(claim);
    const key = this.#names.lock(claim.name);
    const terms = this.#terms.of(claim, claim.queues, "calm");
    const sentMs = this.#settings.clock.now();
    this.#departures.underway.enter(claim);
    return this.#connection.evalshaOn(attempt.sha, key, claim.id, terms).then(
      (reply) => this.#answered(claim, key, reply, sentMs),
      (error: unknown) => this.#attemptAgain(claim, key, terms, error, sentMs),
    );
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    this.#queue.forget(held.id);
    const breaks = this.#connection.breaks();
    let known = false;
    const answer = await this.#enter(swap, next, next.queues, held.id, (told) => (known = told));
    // A "no" may follow a "yes" that nobody heard: see departures.ts.
    const unsure = !known && breaks !== this.#connection.breaks();
    return unsure ? answer : { ...answer, released: known ? "held" : "absent" };
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#queue.watch(claim, signal);
  }

  renew(claims: readonly Claim[]): Promise<readonly Renewal[]> {
    this.#queue.touch(claims);
    return this.#renewals.renew(claims);
  }

  release(claim: Claim): Promise<Released> {
    this.#queue.forget(claim.id);
    return this.#departures.release(claim);
  }

  query(prefix: string): Promise<Snapshot> {
    return query(this.#connection, this.#names, prefix).catch(this.#caller.explained(""));
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    const args = [String(fence), JSON.stringify({ by, reason }), String(FORCED_MS)];
    const asked = this.#caller.run(force, this.#names.lock(name), args);
    return (await asked.catch(this.#caller.explained(name))) === 1;
  }

  vote(claim: Claim, ballot: bigint): Promise<Vote> {
    // So that the holder hears of a forced end; the vote itself does not need it.
    if (!this.#inbox.ready) void this.#inbox.open();
    return this.#voter.ask(claim, ballot);
  }

  async join(terms: MemberTerms): Promise<MemberFacts> {
    const identity = await this.identify();
    const trouble = unfit(identity, terms.allowEviction);
    if (trouble !== undefined) {
      throw new LockBackendError("redis", "", `This Redis cannot be a quorum member: ${trouble}.`, { fatal: true });
    }
    this.#voter.quarantineMs = terms.quarantineMs;
    return { id: identity.runId };
  }

  isDown(): boolean {
    return this.#connection.isDown();
  }

  freed(name: string, wake: () => void): () => void {
    return this.#inbox.onFreed(this.#connection.keyPrefix + this.#names.lock(name), wake);
  }

  /** An operator says that no lease which this server may have forgotten is alive: ends its quarantine. */
  admit(): Promise<void> {
    return this.#fitness.vouch().catch(this.#caller.explained(""));
  }

  /** Tells what server this is; in a cluster, of one of its primaries. */
  identify(): Promise<Identity> {
    return identify(this.#connection).catch(this.#caller.explained(""));
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#stopWatching();
    this.#queue.close();
    this.#inbox.close();
    const left = await this.#departures.settled();
    this.#replicator?.close();
    await this.#own?.close();
    if (left !== undefined) throw left;
  }

  /** A process's first attempt, and every one that needs more than the script. */
  async #firstAttempt(claim: Claim): Promise<Granted | Refused> {
    if (this.#settings.quarantineMs > 0) await this.#fitness.check(claim).catch(this.#caller.explained(claim.name));
    if (this.#inbox.ready || this.#inbox.tried) return this.#enter(attempt, claim, claim.queues);
    void this.#inbox.open();
    const answer = await this.#enter(attempt, claim, false);
    // A holder must be told at once when its lease is ended by force; and a claim that is queued before it can be told
    // might be taken for one whose process is gone. Without messages all works too, so nobody waits long for them.
    await this.#inbox.openWithin(this.#settings.clock, Math.min(INBOX_WAIT_MS, claim.ttlMs / 4));
    return answer.granted || !claim.queues ? answer : this.#enter(attempt, claim, true);
  }

  async #attemptAgain(
    claim: Claim,
    key: string,
    terms: string,
    error: unknown,
    sentMs: number,
  ): Promise<Granted | Refused> {
    const reply = await this.#caller.afterNoScript(error, attempt, key, [claim.id, terms]).catch((known: unknown) => {
      this.#departures.underway.entered(claim);
      throw this.#failed(claim, key, claim.queues, known);
    });
    return this.#answered(claim, key, reply, sentMs);
  }

  async #enter(
    script: Script,
    claim: Claim,
    queues: boolean,
    heldId?: string,
    released?: (known: boolean) => void,
  ): Promise<Granted | Refused> {
    const key = this.#names.lock(claim.name);
    const args = [claim.id, this.#terms.of(claim, queues, heldId === undefined ? "calm" : "crowded")];
    if (heldId !== undefined) args.push(heldId);
    const sentMs = this.#settings.clock.now();
    let reply: unknown;
    this.#departures.underway.enter(claim);
    try {
      reply = await this.#caller.runDurably(script, key, args);
    } catch (error) {
      this.#departures.underway.entered(claim);
      // Not believed, so it is given back: nothing is left held.
      if (error instanceof TooFewReplicas) await this.release(claim);
      throw this.#failed(claim, key, queues, error);
    }
    if (heldId !== undefined && Array.isArray(reply)) {
      released?.(reply[0] === 1);
      reply = reply[1];
    }
    return this.#answered(claim, key, reply, sentMs);
  }

  #answered(claim: Claim, key: string, reply: unknown, sentMs: number): Granted | Refused {
    this.#departures.underway.entered(claim);
    this.#caller.wrote = true; // A refusal is written down too.
    const fences = toRun(reply);
    if (fences !== undefined) {
      this.#queue.settled(claim.id);
      return { granted: true, fence: fences.fence, run: fences.run, fromMs: sentMs };
    }
    const { refused, headMs } = toRefused(claim.name, reply);
    // A fail-over, perhaps: whether the new primary is fit is another question.
    if (Array.isArray(reply) && reply[3] === "young") this.#fitness.forget();
    if (refused.position === undefined) return refused;
    const ticketMs = this.#terms.ticketMs(claim);
    this.#queue.queued(claim, key, ticketMs, sentMs, headMs);
    return { ...refused, retryMs: ticketMs };
  }

  #failed(claim: Claim, key: string, queues: boolean, error: unknown): LockBackendError {
    if (queues) this.#queue.unsure(claim, key, this.#terms.ticketMs(claim));
    if (error instanceof TooFewReplicas) {
      const text = `${error.message}, so it was given back. Check the replicas, or ask for fewer`;
      return new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
    }
    const known = toBackendError(error, claim.name, this.#caller.wrote);
    return known instanceof LimitConflict ? new LimitConflict(claim.name, known.inForce, claim.limit) : known;
  }

  /** Messages may have been missed, and the server may be another: everything is asked about at once. */
  #doubt(): void {
    if (this.#closed !== undefined) return;
    this.#fitness.forget();
    this.#queue.beatAll();
    this.#listener?.doubt();
  }
}
