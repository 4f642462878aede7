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
  Renewal,
  Snapshot,
  Vote,
} from "../backend.ts";
import { formatMs } from "../duration.ts";
import { LockBackendError, quote } from "../errors.ts";
import { beatAll } from "./beats.ts";
import type { Connection } from "./connection.ts";
import { LimitConflict, toBackendError } from "./fault.ts";
import { beginQuarantine, unfit } from "./fitness.ts";
import { attempt } from "./generated/attempt.ts";
import { force } from "./generated/force.ts";
import { release } from "./generated/release.ts";
import { swap } from "./generated/swap.ts";
import { vote } from "./generated/vote.ts";
import { vouch } from "./generated/vouch.ts";
import { Inbox } from "./inbox.ts";
import { FORCED_MS, identify, type Identity, query } from "./inspect.ts";
import { type Names, namesOf } from "./names.ts";
import type { Settings } from "./options.ts";
import { Queue } from "./queue.ts";
import { Terms, toForce } from "./record.ts";
import { renewAll } from "./renewal.ts";
import { toRefused, toVote } from "./reply.ts";
import { runReplicated, runScript, type Script } from "./script.ts";

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
  readonly #terms: Terms;
  readonly #inbox: Inbox;
  readonly #queue: Queue;
  readonly #stopWatching: () => void;
  readonly #own: Own | undefined;
  #listener: Listener | undefined;
  #voteQuarantineMs: number;
  #checked: Promise<void> | undefined;
  #wrote = false;
  #closed = false;

  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#own = own;
    this.renewer = own?.renewer;
    this.#settings = settings;
    this.#names = namesOf(settings.prefix, connection.topology === "cluster");
    this.#voteQuarantineMs = settings.voteQuarantineMs;
    const inbox = this.#names.inbox(randomBytes(12).toString("base64url"));
    this.#terms = new Terms(inbox, settings.idleMs, settings.ticketMs);
    this.#queue = new Queue({
      clock: settings.clock,
      confirms: settings.durability !== undefined,
      runOf: (claim) => this.#runOf(claim),
      beat: (waiters) => beatAll(connection, this.#names, settings.quarantineMs, waiters),
      abandon: (key, id) => void this.#abandon(key, id),
    });
    this.#inbox = new Inbox(connection, inbox, {
      granted: (id, fence, sure, key) => this.#queue.granted(id, fence, sure, key.slice(connection.keyPrefix.length)),
      forced: (id, json) => this.#forced(id, json),
      listening: () => this.#doubt(),
    });
    this.#stopWatching = connection.onReconnect(() => this.#doubt());
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  attempt(claim: Claim): Promise<Granted | Refused> {
    const key = this.#names.lock(claim.name);
    if (!this.#inbox.ready || this.#settings.quarantineMs > 0) return this.#firstAttempt(claim, key);
    return this.#enter(attempt, claim, key, claim.queues);
  }

  swap(held: Claim, next: Claim): Promise<Granted | Refused> {
    this.#queue.forget(held.id);
    return this.#enter(swap, next, this.#names.lock(next.name), next.queues, held.id);
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#queue.watch(claim, signal);
  }

  renew(claims: readonly Claim[]): Promise<readonly Renewal[]> {
    this.#queue.touch(claims);
    return renewAll(this.#connection, this.#names, this.#settings, claims);
  }

  release(claim: Claim): Promise<boolean> {
    this.#queue.forget(claim.id);
    return this.#run(release, this.#names.lock(claim.name), [claim.id], this.#settings.quarantineMs).then(
      isOne,
      this.#explained(claim.name),
    );
  }

  async query(prefix: string): Promise<Snapshot> {
    return query(this.#connection, this.#names, prefix).catch(this.#explained(""));
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    const args = [String(fence), JSON.stringify({ by, reason }), String(FORCED_MS)];
    return this.#run(force, this.#names.lock(name), args, this.#settings.quarantineMs).then(
      isOne,
      this.#explained(name),
    );
  }

  async vote(claim: Claim, ballot: bigint): Promise<Vote> {
    if (ballot <= 0n || ballot > BigInt(Number.MAX_SAFE_INTEGER)) {
      throw new TypeError(`Expected \`ballot\` to be from 1 to 2^53 - 1, got ${ballot}`);
    }
    if (!this.#inbox.ready) void this.#inbox.open();
    const args = [claim.id, this.#terms.of(claim, false, 0), String(ballot)];
    const asked = this.#run(vote, this.#names.lock(claim.name), args, this.#voteQuarantineMs);
    return toVote(claim.name, await asked.catch(this.#explained(claim.name)));
  }

  async join(terms: MemberTerms): Promise<MemberFacts> {
    const identity = await this.identify();
    const trouble = unfit(identity, terms.allowEviction);
    if (trouble !== undefined) {
      throw new LockBackendError("redis", "", `This Redis cannot be a quorum member: ${trouble}.`, { fatal: true });
    }
    this.#voteQuarantineMs = terms.quarantineMs;
    return { id: identity.runId };
  }

  freed(name: string, wake: () => void): () => void {
    return this.#inbox.onFreed(this.#connection.keyPrefix + this.#names.lock(name), wake);
  }

  /** An operator says that no lease which this server may have forgotten is alive: ends its quarantine. */
  async admit(): Promise<void> {
    for (const marker of this.#names.markers()) await runScript(this.#connection, vouch, [marker], []);
  }

  /** Tells what server this is; in a cluster, of one of its primaries. */
  async identify(): Promise<Identity> {
    return identify(this.#connection).catch(this.#explained(""));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopWatching();
    this.#queue.close();
    await this.#inbox.close();
    await this.#own?.close();
  }

  #explained(lock: string): (error: unknown) => never {
    return (error) => {
      throw toBackendError(error, lock, this.#wrote);
    };
  }

  #runOf(claim: Claim): number {
    // Only where one holds at a time: else a later holder of this run would be below an earlier one of the next.
    return claim.mode === "exclusive" && claim.limit === 1 ? this.#settings.run : 1;
  }

  /** The first question of a process, and every one under quarantine: what must be known before is looked up here. */
  async #firstAttempt(claim: Claim, key: string): Promise<Granted | Refused> {
    const { quarantineMs, maxTtlMs } = this.#settings;
    if (quarantineMs > 0) {
      const longestMs = Math.max(claim.ttlMs + claim.lockDelayMs, claim.minHoldMs);
      if (longestMs > maxTtlMs) {
        const text = `asked for ${formatMs(longestMs)}, but \`maxTtl\` is ${formatMs(maxTtlMs)}: after a fail-over nobody would wait that long. Ask for less, or raise \`maxTtl\` everywhere`;
        throw new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`, { fatal: true });
      }
      await this.#check();
    }
    if (this.#inbox.ready) return this.#enter(attempt, claim, key, claim.queues);
    void this.#inbox.open();
    const answer = await this.#enter(attempt, claim, key, false);
    // A holder must be told at once when its lease is ended by force; and a claim that is queued before it can be told
    // might be taken for one whose process is gone. Without messages all works too, so nobody waits long for them.
    await this.#inbox.openWithin(this.#settings.clock, Math.min(INBOX_WAIT_MS, claim.ttlMs / 4));
    return answer.granted || !claim.queues ? answer : this.#enter(attempt, claim, key, true);
  }

  #enter(script: Script, claim: Claim, key: string, queues: boolean, heldId?: string): Promise<Granted | Refused> {
    const run = this.#runOf(claim);
    const terms = this.#terms.of(claim, queues, run);
    const args = heldId === undefined ? [claim.id, terms] : [claim.id, terms, heldId];
    const sentMs = this.#settings.clock.now();
    const answered = (reply: unknown): Granted | Refused => {
      if (typeof reply === "string") {
        this.#wrote = true;
        if (queues) this.#queue.settled(claim.id);
        return { granted: true, fence: BigInt(reply), run, fromMs: sentMs };
      }
      const { refused, headMs } = toRefused(claim.name, reply);
      if (refused.position === undefined) return refused;
      const ticketMs = this.#terms.ticketMs(claim);
      this.#queue.queued(claim, key, ticketMs, sentMs, headMs);
      return { ...refused, retryMs: ticketMs };
    };
    const failed = (error: unknown): never => {
      if (queues) this.#queue.unsure(claim, key, this.#terms.ticketMs(claim));
      const known = toBackendError(error, claim.name, this.#wrote);
      throw known instanceof LimitConflict ? new LimitConflict(claim.name, known.inForce, claim.limit) : known;
    };
    if (this.#settings.durability !== undefined)
      return this.#enterReplicated(script, key, args, claim).then(answered, failed);
    return this.#run(script, key, args, this.#settings.quarantineMs).then(answered, failed);
  }

  /** Believes a grant only when enough replicas have it; else gives it back, so that nothing is left held. */
  async #enterReplicated(script: Script, key: string, args: string[], claim: Claim): Promise<unknown> {
    const { durability, quarantineMs } = this.#settings;
    if (durability === undefined) throw new TypeError("no durability asked for");
    const [keys, all] = this.#guarded(key, args, quarantineMs);
    const { replicas: asked, waitMs } = durability;
    const { reply, replicas } = await runReplicated(this.#connection, script, keys, all, asked, waitMs);
    if (typeof reply !== "string" || replicas >= asked) return reply;
    await this.release(claim);
    const text = `${replicas} of ${asked} replicas confirmed it within ${formatMs(waitMs)}, so it was given back. Check the replicas, or ask for fewer`;
    throw new LockBackendError("redis", claim.name, `Lock ${quote(claim.name)}: ${text}.`);
  }

  /** Runs a script on one lock. With a quarantine, the marker is its last key and the quarantine its last argument. */
  #run(script: Script, key: string, args: string[], quarantineMs: number): Promise<unknown> {
    if (quarantineMs === 0) return runScript(this.#connection, script, [key], args);
    const [keys, all] = this.#guarded(key, args, quarantineMs);
    return runScript(this.#connection, script, keys, all);
  }

  #guarded(key: string, args: string[], quarantineMs: number): [string[], string[]] {
    if (quarantineMs === 0) return [[key], args];
    return [
      [key, this.#names.marker(key)],
      [...args, String(quarantineMs)],
    ];
  }

  async #abandon(key: string, id: string): Promise<void> {
    // Nobody waits for this: should it fail, the lease ends by itself.
    await this.#run(release, key, [id], this.#settings.quarantineMs).catch(() => {});
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

  #check(): Promise<void> {
    this.#checked ??= beginQuarantine(this.#connection, this.#names, this.#settings).catch((error: unknown) => {
      this.#checked = undefined;
      throw toBackendError(error, "", this.#wrote);
    });
    return this.#checked;
  }
}

function isOne(reply: unknown): boolean {
  return reply === 1;
}
