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
import { type Own, Requests } from "../redis/layouts/requests.ts";
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
  readonly #requests: Requests;
  /** When this process last released a lock, by its key. */
  readonly #left: Map<string, number> = new Map();

  /** @internal */
  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#settings = settings;
    this.#names = new Names(settings.prefix, connection.keyPrefix);
    this.#waiting = new Waiting(connection, settings.clock, settings.events);
    this.#voter = new Voter(connection, this.#names, settings);
    const doubt = (): void => this.#voter.doubt();
    this.#requests = new Requests(connection, { clock: settings.clock, errors, own, doubt });
  }

  /** Not a field, so that printing the backend does not show the URL, which may contain a password. */
  get renewer(): Own["renewer"] | undefined {
    return this.#requests.renewer;
  }

  listen(listener: Listener): void {
    this.#requests.listen(listener);
  }

  async attempt(claim: Claim): Promise<Granted | Refused> {
    return await this.#requests.step(claim.name, () => {
      this.#check(claim);
      const { lock, notes } = this.#names.of(claim.name);
      const { ttlMs, lockDelayMs, minHoldMs } = claim;
      const times = [ttlMs + lockDelayMs, Math.ceil(minHoldMs), lockDelayMs, this.#settings.idleMs];
      const args = [claim.id, ...times.map(String), String(this.#gapFor(claim, lock)), whoText(claim)];
      return this.#requests.attempt(
        claim,
        () => runScript(this.#connection, attemptScript, [lock, notes], args),
        (reply, tries) => this.#refused(claim, lock, reply, tries),
      );
    });
  }

  watch(claim: Claim, signal: AbortSignal): Promise<undefined> {
    return this.#requests.watch(claim, signal, (sinceMs, wake) => this.#onEnd(claim.name, sinceMs, wake));
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return await this.#requests.step("", () => renew(this.#connection, this.#names, claims, fences));
  }

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    if (outcome !== undefined) refuseOutcomes(this.name, CAN, claim, outcome);
    return await this.#requests.step(claim.name, async () => {
      const { lock, notes } = this.#names.of(claim.name);
      const minHoldMs = claim.resumes === true ? -1 : Math.ceil(claim.minHoldMs);
      const args = [claim.id, String(minHoldMs), String(this.#settings.idleMs)];
      const released = await this.#requests.release(claim, "the key", () =>
        runScript(this.#connection, releaseScript, [lock, notes], args),
      );
      if (released === "held") this.#hasLeft(lock);
      return released;
    });
  }

  async query(prefix: string): Promise<Snapshot> {
    return await this.#requests.step("", () => query(this.#connection, this.#names, prefix));
  }

  async inspect(name: string): Promise<LockState> {
    return await this.#requests.step(name, async () => {
      const state = await inspect(this.#connection, this.#names, name);
      const quarantineMs = await this.#voter.abstainsMs();
      return quarantineMs > 0 ? { ...state, quarantineMs } : state;
    });
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return await this.#requests.step(name, () =>
      forceRelease(this.#connection, this.#names, { name, fence }, by, reason),
    );
  }

  async vote(claim: Claim, ballot: bigint): Promise<Vote> {
    return await this.#requests.step(claim.name, () => {
      this.#check(claim);
      return this.#requests.send(claim, () => this.#voter.ask(claim, ballot));
    });
  }

  async join(terms: MemberTerms): Promise<MemberFacts> {
    return await this.#requests.step("", () => this.#voter.join(terms));
  }

  freed(name: string, wake: () => void): () => void {
    return this.#onEnd(name, this.#settings.clock.now(), wake);
  }

  isDown(): boolean {
    return this.#connection.isDown();
  }

  readonly endQuarantine = (): Promise<void> => this.#requests.step("", () => this.#voter.endQuarantine());

  /** What server this is; in a cluster, one of its primaries. */
  async identify(): Promise<Identity> {
    return await this.#requests.step("", () => identify(this.#connection));
  }

  /** Whether the server sends the keyspace events that wake waiting claims. `undefined`: it does not say. For the doctor. */
  sendsEvents(): Promise<boolean | undefined> {
    return this.#waiting.areSent();
  }

  close(): Promise<void> {
    return this.#requests.close(() => this.#waiting.close());
  }

  /** Who waits, or has just released the lock, leaves it free for a moment: others only poll, and would never meet it free. */
  #gapFor(claim: Claim, lock: string): number {
    const { gapMs, clock } = this.#settings;
    if (!claim.queues || gapMs === 0) return 0;
    const leftMs = this.#left.get(lock);
    return this.#requests.waits(claim) || (leftMs !== undefined && clock.now() - leftMs < gapMs) ? gapMs : 0;
  }

  #onEnd(name: string, sinceMs: number, wake: () => void): () => void {
    const { lock } = this.#names.of(name);
    return this.#waiting.onEnd(lock, this.#names.full(lock), sinceMs, wake);
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
}
