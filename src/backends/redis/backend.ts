/**
 * The Redis backend: every operation is one script, by the server's clock. Waiting is a queue in the store; a release passes the lock to the
 * next waiter in the same script and notifies its process. docs/backends/redis.md says what holds when.
 */
import { randomBytes } from "node:crypto";
import type {
  Abilities,
  Claim,
  Granted,
  Listener,
  LockState,
  Member,
  MemberFacts,
  MemberTerms,
  Outcome,
  Recalled,
  Refused,
  Released,
  Renewal,
  Snapshot,
  Swapped,
  Vote,
} from "../../contract/backend.ts";
import { Attempts } from "./attempts.ts";
import { RedisHeartbeats } from "./batches.ts";
import type { Connection } from "./connection.ts";
import { Replicator } from "./durability.ts";
import { forceRelease } from "./force-release.ts";
import { forgetOutcome } from "./forget.ts";
import { Inbox } from "./inbox.ts";
import { type Names, namesOf } from "./keys.ts";
import { LEAVING, LocalClaims } from "./local-claims.ts";
import type { Settings } from "./options.ts";
import { identify, type Identity, inspect, query } from "./query.ts";
import { Terms } from "./records.ts";
import { Releases } from "./release.ts";
import { Renewals } from "./renewals.ts";
import { Scripts } from "./scripts.ts";
import { ServerChecks } from "./server-checks.ts";
import { Voter } from "./vote.ts";
import { Waiters } from "./waiting.ts";

/** What belongs to a connection that was opened for this backend, and not passed in by the user. */
export interface Own {
  readonly renewer: { readonly module: string; readonly data: unknown };
  close(): Promise<void>;
}

/** The others learn it from their renewals. */
const UNHEARD_MAX = 1000;

const CAN: Abilities = { outcomes: true, wanted: true, otherTtl: true, steal: true, waiters: true, linger: true };

export class RedisBackend implements Member {
  readonly name = "redis";
  readonly can: Abilities = CAN;
  readonly #connection: Connection;
  readonly #clock: Settings["clock"];
  readonly #names: Names;
  readonly #scripts: Scripts;
  readonly #renewals: Renewals;
  readonly #voter: Voter;
  readonly #claims: LocalClaims;
  readonly #waiters: Waiters;
  readonly #inbox: Inbox;
  readonly #attempts: Attempts;
  readonly #releases: Releases;
  readonly #replicator: Replicator | undefined;
  readonly #checks: ServerChecks;
  readonly #stopWatching: () => void;
  readonly #own: Own | undefined;
  /** They expect to learn that they are wanted, and the inbox did not listen yet. */
  readonly #unheard: Set<Claim> = new Set();
  #listener: Listener | undefined;
  #closed: Promise<void> | undefined;

  constructor(connection: Connection, settings: Settings, own?: Own) {
    const { clock, durability } = settings;
    const names = namesOf(settings.prefix, connection.topology === "cluster");
    const channel = names.inbox(randomBytes(12).toString("base64url"));
    const replicator = durability && new Replicator(connection, durability);
    const scripts = new Scripts(connection, names, settings, replicator);
    const checks = new ServerChecks(connection, names, settings);
    const renewals = new Renewals(connection, names, settings, replicator);
    const claims = new LocalClaims(clock, () => renewals.renewed());
    const waiters = new Waiters(clock, durability !== undefined, new RedisHeartbeats(connection, names, settings));
    const releases = new Releases(connection, names, settings, scripts, claims, waiters);
    const doubt = (claim?: Claim): void => (claim === undefined ? this.#doubtAll() : this.#listener?.doubt(claim.id));
    const wanted = ({ id }: Claim): void => this.#listener?.wanted?.(id);
    const inbox = new Inbox(connection, channel, clock, { claims, waiters, releases, doubt, wanted });
    const terms = new Terms(channel, settings);
    this.#connection = connection;
    this.#clock = clock;
    this.#names = names;
    this.#scripts = scripts;
    this.#renewals = renewals;
    this.#voter = new Voter(connection, names, settings, terms, scripts);
    this.#claims = claims;
    this.#waiters = waiters;
    this.#inbox = inbox;
    this.#releases = releases;
    this.#replicator = replicator;
    this.#checks = checks;
    this.#own = own;
    const parts = { connection, names, settings, scripts, terms, checks, claims, waiters, releases, inbox };
    this.#attempts = new Attempts(parts);
    this.#stopWatching = connection.onReconnect(() => this.#doubtAll());
  }

  /** Not a field, so that printing the backend does not show the URL, which may contain a password. */
  get renewer(): Own["renewer"] | undefined {
    return this.#own?.renewer;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    return this.#attempts.attempt(claim);
  }

  swap(held: Claim, next: Claim): Promise<Swapped> {
    return this.#attempts.swap(held, next);
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#waiters.watch(claim, signal);
  }

  renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return this.#renewals.renew(claims, fences);
  }

  release(claim: Claim, outcome?: Outcome): Promise<Released> {
    return outcome === undefined ? this.#releases.release(claim) : this.#releases.finish(claim, outcome);
  }

  inspect(name: string): Promise<LockState> {
    return inspect(this.#names, this.#scripts, name, this.#voter.joinedMs);
  }

  query(prefix: string): Promise<Snapshot> {
    return query(this.#connection, this.#names, prefix).catch(this.#scripts.explained(""));
  }

  forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return forceRelease(this.#connection, this.#names, this.#scripts, { name, fence }, by, reason);
  }

  steal(claim: Claim, reason: string): Promise<Granted | Refused> {
    return this.#attempts.steal(claim, reason);
  }

  forget(name: string, fence: bigint): Promise<boolean> {
    return forgetOutcome(this.#connection, this.#names, this.#scripts, name, fence);
  }

  /** The store reports it to the inbox of every holder's process. What comes before that listens is looked for when it does. */
  expectWanted(claim: Claim): void {
    if (this.#inbox.ready || this.#unheard.size >= UNHEARD_MAX) return;
    this.#unheard.add(claim);
    void this.#inbox.open();
  }

  vote(claim: Claim, ballot: bigint): Promise<Vote> {
    // So that the holder hears of a forced end; the vote itself does not need it.
    if (!this.#inbox.ready) void this.#inbox.open();
    this.#claims.add(claim, this.#clock.now());
    return this.#voter.ask(claim, ballot);
  }

  async join(terms: MemberTerms): Promise<MemberFacts> {
    const facts = await this.#voter.join(terms).catch(this.#scripts.explained(""));
    this.#renewals.asksWho = true;
    return facts;
  }

  async withdraw(claim: Claim): Promise<Released> {
    const entry = this.#claims.add(claim, this.#clock.now());
    this.#claims.begin(entry, LEAVING);
    try {
      const was = await this.#voter.withdraw(claim);
      this.#claims.left(entry, true);
      return was;
    } finally {
      this.#claims.end(entry, LEAVING);
    }
  }

  readonly recall = (name: string, id: string): Promise<Recalled | undefined> => this.#voter.recall(name, id);

  isDown(): boolean {
    return this.#connection.isDown();
  }

  freed(name: string, wake: () => void): () => void {
    return this.#inbox.onFreed(this.#connection.keyPrefix + this.#names.lock(name), wake);
  }

  async want(name: string): Promise<void> {
    await this.#voter.want(name);
  }

  /** An operator says that no lease which this server may have lost is still alive: ends its quarantine. */
  readonly endQuarantine = (): Promise<void> => this.#voter.endQuarantine().catch(this.#scripts.explained(""));

  /** What server this is; in a cluster, one of its primaries. */
  identify(): Promise<Identity> {
    return identify(this.#connection, this.#names.markers()[0]).catch(this.#scripts.explained(""));
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#stopWatching();
    this.#waiters.close();
    const left = await this.#claims.settled();
    this.#inbox.close();
    this.#replicator?.close();
    await this.#own?.close();
    if (left !== undefined) throw left;
  }

  /** Messages may have been missed, and the server may be another one: everything is checked at once. */
  #doubtAll(): void {
    if (this.#closed !== undefined) return;
    this.#checks.forget();
    this.#waiters.beatAll();
    this.#listener?.doubt();
    if (!this.#inbox.ready) return;
    for (const claim of this.#unheard) void this.#lookForWaiters(claim).catch(() => {});
    this.#unheard.clear();
  }

  async #lookForWaiters({ id, name }: Claim): Promise<void> {
    const { held, pending } = await this.inspect(name);
    const holders = held.filter(({ remainder }) => remainder !== "minHold");
    const isInTheWay = holders[0]?.mode === "shared" ? holders.some((one) => one.id === id) : holders[0]?.id === id;
    if (pending.length > 0 && isInTheWay && this.#closed === undefined) this.#listener?.wanted?.(id);
  }
}
