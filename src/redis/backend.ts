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
  Recalled,
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
import { LimitConflict, toBackendError } from "./fault.ts";
import { beginQuarantine, checkOutlasted } from "./fitness.ts";
import { attempt } from "./generated/attempt.ts";
import { force } from "./generated/force.ts";
import { release } from "./generated/release.ts";
import { swap } from "./generated/swap.ts";
import { Inbox } from "./inbox.ts";
import { FORCED_MS, identify, type Identity, query } from "./inspect.ts";
import { type Names, namesOf } from "./names.ts";
import type { Settings } from "./options.ts";
import { Queue } from "./queue.ts";
import { toForce } from "./record.ts";
import { Renewals } from "./renewal.ts";
import { toRefused, toReleased, toRun } from "./reply.ts";
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
  readonly renewer: Own["renewer"] | undefined;
  readonly #connection: Connection;
  readonly #settings: Settings;
  readonly #names: Names;
  readonly #caller: Caller;
  readonly #renewals: Renewals;
  readonly #terms: Terms;
  readonly #voter: Voter;
  readonly #inbox: Inbox;
  readonly #queue: Queue;
  readonly #stopWatching: () => void;
  readonly #own: Own | undefined;
  /** Nothing but the script itself is needed for an answer. */
  readonly #plain: boolean;
  #listener: Listener | undefined;
  #checked: Promise<void> | undefined;
  #closed = false;

  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#settings = settings;
    this.#own = own;
    this.renewer = own?.renewer;
    this.#plain = settings.quarantineMs === 0 && settings.durability === undefined;
    this.#names = namesOf(settings.prefix, connection.topology === "cluster");
    this.#caller = new Caller(connection, this.#names, settings);
    this.#renewals = new Renewals(connection, this.#names, settings);
    const inbox = this.#names.inbox(randomBytes(12).toString("base64url"));
    this.#terms = new Terms(inbox, settings);
    this.#voter = new Voter(connection, this.#names, this.#terms, this.#caller);
    this.#voter.quarantineMs = settings.voteQuarantineMs;
    this.#queue = new Queue({
      clock: settings.clock,
      confirms: settings.durability !== undefined,
      portions: (waiters) => portions(waiters, connection.topology, this.#names),
      beat: (portion) => sendBeat(connection, this.#names, settings.quarantineMs, portion),
      // Nobody waits for this: should it fail, the lease ends by itself.
      abandon: (key, id) => void this.#caller.run(release, key, [id]).catch(() => {}),
    });
    this.#inbox = new Inbox(connection, inbox, {
      granted: (id, fences, sure, key) => this.#queue.granted(id, fences, sure, key.slice(connection.keyPrefix.length)),
      forced: (id, json) => this.#forced(id, json),
      listening: () => this.#doubt(),
    });
    this.#stopWatching = connection.onReconnect(() => this.#doubt());
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
    return this.#connection.evalshaOn(attempt.sha, key, this.#names.markerBeside(key, false), claim.id, terms).then(
      (reply) => this.#answered(claim, key, reply, sentMs),
      (error: unknown) => this.#attemptAgain(claim, key, terms, error, sentMs),
    );
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    this.#queue.forget(held.id);
    let released: Released | undefined;
    const answer = await this.#enter(
      swap,
      next,
      next.queues,
      held.id,
      (known) => (released = known ? "held" : "absent"),
    );
    return { ...answer, released };
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
    const key = this.#names.lock(claim.name);
    const released = this.#plain
      ? this.#connection.evalshaOn(release.sha, key, this.#names.markerBeside(key, false), claim.id, undefined)
      : this.#caller.run(release, key, [claim.id]);
    return released.then(toReleased, async (error: unknown) => {
      const again = this.#caller.afterNoScript(error, release, key, [claim.id]);
      return toReleased(await again.catch(this.#caller.explained(claim.name)));
    });
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
    const facts = await this.#voter.join(terms).catch(this.#caller.explained(""));
    this.#renewals.asksWho = true;
    return facts;
  }

  readonly withdraw = (claim: Claim): Promise<Released> => this.#voter.withdraw(claim);
  readonly recall = (name: string, id: string): Promise<Recalled | undefined> => this.#voter.recall(name, id);

  isDown(): boolean {
    return this.#connection.isDown();
  }

  freed(name: string, wake: () => void): () => void {
    return this.#inbox.onFreed(this.#connection.keyPrefix + this.#names.lock(name), wake);
  }

  /** An operator says that no lease which this server may have forgotten is alive: ends its quarantine. */
  readonly admit = (): Promise<void> => this.#voter.vouch().catch(this.#caller.explained(""));

  /** Tells what server this is; in a cluster, of one of its primaries. */
  identify(): Promise<Identity> {
    return identify(this.#connection, this.#names.markers()[0]).catch(this.#caller.explained(""));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopWatching();
    this.#queue.close();
    await this.#inbox.close();
    await this.#own?.close();
  }

  /** A process's first attempt, and every one that needs more than the script. */
  async #firstAttempt(claim: Claim): Promise<Granted | Refused> {
    if (this.#settings.quarantineMs > 0) await this.#mayAsk(claim);
    if (this.#inbox.ready) return this.#enter(attempt, claim, claim.queues);
    void this.#inbox.open();
    const answer = await this.#enter(attempt, claim, false);
    // A holder must be told at once when its lease is ended by force; and a claim that is queued before it can be told
    // might be taken for one whose process is gone. Without messages all works too, so nobody waits long for them.
    await this.#inbox.openWithin(this.#settings.clock, Math.min(INBOX_WAIT_MS, claim.ttlMs / 4));
    return answer.granted || !claim.queues ? answer : this.#enter(attempt, claim, true);
  }

  /** Under a quarantine: refuses what it could not outlast, and makes sure once that it promises something. */
  async #mayAsk(claim: Claim): Promise<void> {
    checkOutlasted(claim, this.#settings.maxTtlMs);
    this.#checked ??= beginQuarantine(this.#connection, this.#names, this.#settings).catch((error: unknown) => {
      this.#checked = undefined;
      throw toBackendError(error, claim.name, this.#caller.wrote);
    });
    await this.#checked;
  }

  async #attemptAgain(
    claim: Claim,
    key: string,
    terms: string,
    error: unknown,
    sentMs: number,
  ): Promise<Granted | Refused> {
    const reply = await this.#caller.afterNoScript(error, attempt, key, [claim.id, terms]).catch((known: unknown) => {
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
    try {
      reply = await this.#caller.runDurably(script, key, args);
    } catch (error) {
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
    const fences = toRun(reply);
    if (fences !== undefined) {
      this.#caller.wrote = true;
      this.#queue.settled(claim.id);
      return { granted: true, fence: fences.fence, run: fences.run, fromMs: sentMs };
    }
    const { refused, headMs } = toRefused(claim.name, reply);
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

  #forced(id: string, json: string): void {
    const { by, reason } = toForce(json);
    this.#listener?.lost(id, `${by} ended it by force: ${reason}`);
  }

  /** Messages may have been missed, and the server may be another: everything is asked about at once. */
  #doubt(): void {
    if (this.#closed) return;
    this.#checked = undefined;
    this.#queue.beatAll();
    this.#listener?.doubt();
  }
}
