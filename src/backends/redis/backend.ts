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
} from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { Caller } from "./caller.ts";
import type { Connection } from "./connection.ts";
import { Entering } from "./attempts.ts";
import { Fitness } from "./server-checks.ts";
import { force } from "./generated/scripts.ts";
import { FORCED_MS, identify, type Identity, query } from "./query.ts";
import { Leaving } from "./release.ts";
import { type Names, namesOf } from "./keys.ts";
import type { Settings } from "./options.ts";
import { openPost, type Post } from "./messages.ts";
import { clipped, HOLDER_MAX, REASON_MAX } from "../../contract/foreign.ts";
import { Renewals } from "./renewals.ts";
import { Replicator } from "./replicated.ts";
import { toCount } from "./replies.ts";
import { Terms } from "./records.ts";
import { LEAVING, Underway } from "./pending-calls.ts";
import { Voter } from "./vote.ts";

/** What comes with a connection that was opened for this backend, and not lent to it. */
export interface Own {
  readonly renewer: { readonly module: string; readonly data: unknown };
  close(): Promise<void>;
}

export class RedisBackend implements Member {
  readonly name = "redis";
  readonly #connection: Connection;
  readonly #clock: Settings["clock"];
  readonly #names: Names;
  readonly #caller: Caller;
  readonly #renewals: Renewals;
  readonly #voter: Voter;
  readonly #post: Post;
  readonly #entering: Entering;
  readonly #leaving: Leaving;
  readonly #underway: Underway;
  readonly #replicator: Replicator | undefined;
  readonly #fitness: Fitness;
  readonly #stopWatching: () => void;
  readonly #own: Own | undefined;
  #listener: Listener | undefined;
  #closed: Promise<void> | undefined;

  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#clock = settings.clock;
    this.#own = own;
    const names = namesOf(settings.prefix, connection.topology === "cluster");
    this.#names = names;
    this.#replicator = settings.durability && new Replicator(connection, settings.durability);
    const fitness = new Fitness(connection, names, settings);
    this.#fitness = fitness;
    const caller = new Caller(connection, names, settings, this.#replicator);
    this.#caller = caller;
    this.#renewals = new Renewals(connection, names, settings, this.#replicator);
    const inbox = names.inbox(randomBytes(12).toString("base64url"));
    const terms = new Terms(inbox, settings);
    this.#voter = new Voter(connection, names, terms, caller);
    this.#voter.quarantineMs = settings.voteQuarantineMs;
    if (settings.quarantineMs > 0) this.#voter.silenceS = settings.silenceS;
    const post = openPost(connection, names, settings, inbox, this.#renewals, {
      abandon: (claim) => void this.release(claim).catch(() => {}),
      broken: (claim) => this.#listener?.doubt(claim.id),
      listening: () => this.#doubt(),
    });
    this.#post = post;
    const underway = new Underway(settings.clock);
    this.#underway = underway;
    const leaving = new Leaving(connection, names, caller, post, underway, settings);
    this.#leaving = leaving;
    this.#entering = new Entering({ connection, names, settings, caller, terms, fitness, post, leaving, underway });
    this.#stopWatching = connection.onReconnect(() => this.#doubt());
  }

  /** Not a field, so that nobody who prints the backend sees the URL, which may hold a password. */
  get renewer(): Own["renewer"] | undefined {
    return this.#own?.renewer;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#entering.attempt(claim);
  }

  swap(held: Claim, next: Claim): Promise<Swapped> {
    return this.#entering.swap(held, next);
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#post.queue.watch(claim, signal);
  }

  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return this.#renewals.renew(claims, fences);
  }

  release(claim: Claim): Promise<Released> {
    return this.#leaving.release(claim);
  }

  query(prefix: string): Promise<Snapshot> {
    return query(this.#connection, this.#names, prefix).catch(this.#caller.explained(""));
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    const args = [
      String(fence),
      JSON.stringify({ by: clipped(by, HOLDER_MAX), reason: clipped(reason, REASON_MAX) }),
      String(FORCED_MS),
    ];
    const breaks = this.#connection.breaks();
    const asked = this.#caller.run(force, this.#names.lock(name), args);
    const ended = toCount(await asked.catch(this.#caller.explained(name))) === 1;
    if (ended || this.#connection.breaks() === breaks) return ended;
    // As with a release: a client library may have sent it twice, and a "no" may follow a "yes" that nobody heard.
    const text =
      "the connection ended while it was being ended by force, and Redis does not know this lease. Either the first of two requests ended it, or it was over before. Look at the lock, or ask again";
    throw new LockBackendError("redis", name, `Lock ${quote(name)}: ${text}.`);
  }

  vote(claim: Claim, ballot: bigint): Promise<Vote> {
    // So that the holder hears of a forced end; the vote itself does not need it.
    if (!this.#post.inbox.ready) void this.#post.inbox.open();
    this.#post.roster.add(claim, this.#clock.now());
    return this.#voter.ask(claim, ballot);
  }

  async join(terms: MemberTerms): Promise<MemberFacts> {
    const facts = await this.#voter.join(terms).catch(this.#caller.explained(""));
    this.#renewals.asksWho = true;
    return facts;
  }

  async withdraw(claim: Claim): Promise<Released> {
    const entry = this.#post.roster.add(claim, this.#clock.now());
    this.#underway.begin(entry, LEAVING);
    try {
      const was = await this.#voter.withdraw(claim);
      this.#post.roster.left(entry, true);
      return was;
    } finally {
      this.#underway.end(entry, LEAVING);
    }
  }

  readonly recall = (name: string, id: string): Promise<Recalled | undefined> => this.#voter.recall(name, id);

  isDown(): boolean {
    return this.#connection.isDown();
  }

  freed(name: string, wake: () => void): () => void {
    return this.#post.inbox.onFreed(this.#connection.keyPrefix + this.#names.lock(name), wake);
  }

  /** An operator says that no lease which this server may have forgotten is alive: ends its quarantine. */
  readonly endQuarantine = (): Promise<void> => this.#voter.vouch().catch(this.#caller.explained(""));

  /** Tells what server this is; in a cluster, of one of its primaries. */
  identify(): Promise<Identity> {
    return identify(this.#connection, this.#names.markers()[0]).catch(this.#caller.explained(""));
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#stopWatching();
    this.#post.queue.close();
    const left = await this.#underway.settled();
    this.#post.inbox.close();
    this.#replicator?.close();
    await this.#own?.close();
    if (left !== undefined) throw left;
  }

  /** Messages may have been missed, and the server may be another: everything is asked about at once. */
  #doubt(): void {
    if (this.#closed !== undefined) return;
    this.#fitness.forget();
    this.#post.queue.beatAll();
    this.#listener?.doubt();
  }
}
