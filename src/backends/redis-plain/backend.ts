/**
 * The common string lock of Redis: SET NX PX, and compare before deleting or renewing. A foreign layout: it has one key for a lock, and no place
 * for a queue, readers, limits or outcomes. docs/backends/redis-plain.md says what that means beside other libraries.
 */
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
  Refused,
  Released,
  Renewal,
  Snapshot,
  Vote,
} from "../../contract/backend.ts";
import { refuseOutcomes } from "../../contract/declined.ts";
import { jitter } from "../../contract/random.ts";
import { connectionOf } from "../redis/clients/choose.ts";
import type { Connection } from "../redis/connection.ts";
import type { RedisClient } from "../redis/index.ts";
import { identify, type Identity } from "../redis/query.ts";
import { runScript } from "../redis/scripts.ts";
import { errors } from "./errors.ts";
import { forceRelease } from "./force-release.ts";
import { attempt as attemptScript, release as releaseScript } from "./generated/scripts.ts";
import { Names } from "./keys.ts";
import { Voter } from "./member.ts";
import { type RedisPlainOptions, type Settings, toSettings } from "./options.ts";
import { inspect, query } from "./query.ts";
import { toShown } from "./records.ts";
import { whoText } from "../redis/layouts/notes.ts";
import { renew } from "./renewals.ts";
import { UnderWay } from "../redis/layouts/under-way.ts";
import { Waiting } from "./waiting.ts";

const CAN: Abilities = {
  outcomes: "a plain lock of Redis has no place for outcomes; use redis:// without layout=plain for once()",
  wanted: "a plain lock of Redis has no queue, so no process knows who waits",
  otherTtl: true,
  steal: "a plain lock of Redis may be held by another library, whose client would not notice that it was stolen",
  waiters: "a plain lock of Redis has no queue, so it does not show who waits, and no deadlock is found there",
  linger: "a plain lock of Redis says to no holder that another waits for it, so that it must not be kept unused",
};
/** How many of its last releases a process remembers. */
const RELEASES_MAX = 1000;

/** What belongs to a connection that was opened for this backend, and not passed in by the user. */
export interface Own {
  readonly renewer: { readonly module: string; readonly data: unknown };
  close(): Promise<void>;
}

/** When a claim that waits was last asked for, and how often. */
interface Asked {
  readonly sentMs: number;
  readonly tries: number;
}

/** Makes a backend for `createLocks()`. The client stays yours: close() does not close it. */
export function redisPlain(client: RedisClient, options: RedisPlainOptions = {}): RedisPlainBackend {
  return new RedisPlainBackend(connectionOf(client), toSettings(options));
}

export class RedisPlainBackend implements Member {
  readonly name = "redis-plain";
  readonly can: Abilities = CAN;
  readonly #connection: Connection;
  readonly #settings: Settings;
  readonly #names: Names;
  readonly #waiting: Waiting;
  readonly #voter: Voter;
  readonly #underWay: UnderWay;
  readonly #own: Own | undefined;
  readonly #asked: WeakMap<Claim, Asked> = new WeakMap();
  /** When this process last released a lock, by its key. */
  readonly #left: Map<string, number> = new Map();
  readonly #stopWatching: () => void;
  #listener: Listener | undefined;
  #wrote = false;
  #closed: Promise<void> | undefined;

  /** @internal */
  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#settings = settings;
    this.#names = new Names(settings.prefix, connection.keyPrefix);
    this.#waiting = new Waiting(connection, settings.clock, settings.events);
    this.#voter = new Voter(connection, this.#names, settings);
    this.#underWay = new UnderWay(settings.clock, errors);
    this.#own = own;
    // The server may be another one now: after a restart or a fail-over it may have lost leases.
    this.#stopWatching = connection.onReconnect(() => {
      this.#voter.doubt();
      this.#listener?.doubt();
    });
  }

  /** Not a field, so that printing the backend does not show the URL, which may contain a password. */
  get renewer(): Own["renewer"] | undefined {
    return this.#own?.renewer;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  async attempt(claim: Claim): Promise<Granted | Refused> {
    return await this.#step(claim.name, async () => {
      this.#check(claim);
      const { lock, notes } = this.#names.of(claim.name);
      const { ttlMs, lockDelayMs, minHoldMs } = claim;
      const before = this.#asked.get(claim);
      const times = [ttlMs + lockDelayMs, Math.ceil(minHoldMs), lockDelayMs, this.#settings.idleMs];
      const args = [claim.id, ...times.map(String), String(this.#gapFor(claim, lock, before)), whoText(claim)];
      const sentMs = this.#settings.clock.now();
      const reply = await this.#underWay.send(claim, () =>
        runScript(this.#connection, attemptScript, [lock, notes], args),
      );
      if (typeof reply === "string" && /^\d{1,16}$/u.test(reply)) {
        this.#asked.delete(claim);
        return { granted: true, fence: BigInt(reply), run: 1, fromMs: sentMs };
      }
      const tries = (before?.tries ?? -1) + 1;
      this.#asked.set(claim, { sentMs, tries });
      return this.#refused(claim, lock, reply, tries);
    });
  }

  watch(claim: Claim, signal: AbortSignal): Promise<undefined> {
    return new Promise((resolve) => {
      const { lock } = this.#names.of(claim.name);
      const sinceMs = this.#asked.get(claim)?.sentMs ?? this.#settings.clock.now();
      const end = (): void => {
        stop();
        signal.removeEventListener("abort", end);
        resolve(undefined);
      };
      const stop = this.#waiting.onEnd(lock, this.#names.full(lock), sinceMs, end);
      if (signal.aborted || this.#closed !== undefined) end();
      else signal.addEventListener("abort", end, { once: true });
    });
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return await this.#step("", () => renew(this.#connection, this.#names, claims, fences));
  }

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    if (outcome !== undefined) refuseOutcomes(this.name, CAN, claim, outcome);
    return await this.#step(claim.name, async () => {
      const { lock, notes } = this.#names.of(claim.name);
      const minHoldMs = claim.resumes === true ? -1 : Math.ceil(claim.minHoldMs);
      const args = [claim.id, String(minHoldMs), String(this.#settings.idleMs)];
      const breaks = this.#connection.breaks();
      const reply = await this.#underWay.send(claim, () =>
        runScript(this.#connection, releaseScript, [lock, notes], args),
      );
      this.#asked.delete(claim);
      if (reply === 1) {
        this.#hasLeft(lock);
        return "held";
      }
      if (reply !== 0) throw errors.unexpected(claim.name);
      if (this.#connection.breaks() === breaks) return "absent";
      // Some client libraries repeat a command whose connection ended: then "no" may follow a "yes" that was lost.
      throw errors.unknown(
        claim.name,
        "the connection ended during the release, and the key is no longer ours. Either the first of two requests released it, or it was over before",
      );
    });
  }

  async query(prefix: string): Promise<Snapshot> {
    return await this.#step("", () => query(this.#connection, this.#names, prefix));
  }

  async inspect(name: string): Promise<LockState> {
    return await this.#step(name, async () => {
      const state = await inspect(this.#connection, this.#names, name);
      const quarantineMs = await this.#voter.abstainsMs();
      return quarantineMs > 0 ? { ...state, quarantineMs } : state;
    });
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return await this.#step(name, () => forceRelease(this.#connection, this.#names, { name, fence }, by, reason));
  }

  async vote(claim: Claim, ballot: bigint): Promise<Vote> {
    return await this.#step(claim.name, () => {
      this.#check(claim);
      return this.#underWay.send(claim, () => this.#voter.ask(claim, ballot));
    });
  }

  async join(terms: MemberTerms): Promise<MemberFacts> {
    return await this.#step("", () => this.#voter.join(terms));
  }

  freed(name: string, wake: () => void): () => void {
    const { lock } = this.#names.of(name);
    return this.#waiting.onEnd(lock, this.#names.full(lock), this.#settings.clock.now(), wake);
  }

  isDown(): boolean {
    return this.#connection.isDown();
  }

  readonly endQuarantine = (): Promise<void> => this.#step("", () => this.#voter.endQuarantine());

  /** What server this is; in a cluster, one of its primaries. */
  async identify(): Promise<Identity> {
    return await this.#step("", () => identify(this.#connection));
  }

  /** Whether the server sends the keyspace events that wake waiting claims. `undefined`: it does not say. For the doctor. */
  sendsEvents(): Promise<boolean | undefined> {
    return this.#waiting.areSent();
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#stopWatching();
    this.#waiting.close();
    const left = await this.#underWay.settled();
    await this.#own?.close();
    if (left !== undefined) throw left;
  }

  /** Who waits, or has just released the lock, leaves it free for a moment: others only poll, and would never meet it free. */
  #gapFor(claim: Claim, lock: string, before: Asked | undefined): number {
    const { gapMs, clock } = this.#settings;
    if (!claim.queues || gapMs === 0) return 0;
    const leftMs = this.#left.get(lock);
    return before !== undefined || (leftMs !== undefined && clock.now() - leftMs < gapMs) ? gapMs : 0;
  }

  #hasLeft(lock: string): void {
    if (this.#settings.gapMs === 0) return;
    if (this.#left.size >= RELEASES_MAX) this.#left.clear();
    this.#left.set(lock, this.#settings.clock.now());
  }

  #refused({ name }: Claim, lock: string, reply: unknown, tries: number): Refused {
    const [left, now, text]: unknown[] = Array.isArray(reply) ? reply : [];
    if (typeof left !== "number" || typeof now !== "number" || typeof text !== "string") throw errors.unexpected(name);
    const shown = toShown(name, now, left, text);
    if (shown === undefined) return { granted: false, heldBy: [], retryMs: left + jitter(2, 0.1, 1) };
    return { granted: false, heldBy: [shown.holding], retryMs: this.#waiting.retryMs(lock, left, tries) };
  }

  #check(claim: Claim): void {
    refuseOutcomes(this.name, CAN, claim);
    if (claim.mode === "exclusive" && claim.limit === 1) return;
    throw errors.refusal(
      claim.name,
      "a plain lock of Redis has one holder, and knows neither readers nor a limit. Use redis:// without layout=plain",
    );
  }

  async #step<T>(lock: string, ask: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw errors.refusal(lock, "this backend is closed");
    try {
      const answer = await ask();
      this.#wrote = true;
      return answer;
    } catch (error) {
      throw errors.toBackendError(error, lock, this.#wrote);
    }
  }
}
