/**
 * The locks of Redisson (Java), on the same keys and channels: RLock, RReadWriteLock and RFencedLock. A foreign layout: it has no place for a
 * queue, limits or outcomes. docs/backends/redisson.md says what that means beside Java.
 */
import { randomBytes } from "node:crypto";
import type {
  Abilities,
  Backend,
  Claim,
  Granted,
  Listener,
  LockState,
  Outcome,
  Refused,
  Released,
  Renewal,
  Snapshot,
} from "../../contract/backend.ts";
import { refuseOutcomes } from "../../contract/declined.ts";
import { connectionOf } from "../redis/clients/choose.ts";
import type { Connection } from "../redis/connection.ts";
import type { RedisClient } from "../redis/index.ts";
import { whoText } from "../redis/layouts/notes.ts";
import { UnderWay } from "../redis/layouts/under-way.ts";
import { identify, type Identity } from "../redis/query.ts";
import { runScript } from "../redis/scripts.ts";
import { errors } from "./errors.ts";
import { forceRelease } from "./force-release.ts";
import { attempt as attemptScript, release as releaseScript } from "./generated/scripts.ts";
import { Names, type Place } from "./keys.ts";
import { type RedissonOptions, type Settings, toSettings } from "./options.ts";
import { inspect, query } from "./query.ts";
import { toShown } from "./records.ts";
import { renew, whyTooLong } from "./renewals.ts";
import { Waiting } from "./waiting.ts";

const CAN: Abilities = {
  outcomes: "a lock of Redisson has no place for outcomes; use redis:// without layout=redisson for once()",
  wanted: "a client of Redisson that begins to wait says so to no process",
  otherTtl: true,
  steal: "a lock of Redisson may be held by Java, which would not notice that it was stolen",
  waiters: "a lock of Redisson has no queue, so it does not show who waits, and no deadlock is found there",
  linger: "a lock of Redisson says to no holder that another waits for it, so that it must not be kept unused",
};
const REQUEST_BYTES = 16;

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
export function redisson(client: RedisClient, options: RedissonOptions = {}): RedissonBackend {
  return new RedissonBackend(connectionOf(client), toSettings(options));
}

export class RedissonBackend implements Backend {
  readonly name = "redisson";
  readonly can: Abilities = CAN;
  readonly #connection: Connection;
  readonly #settings: Settings;
  readonly #names: Names;
  readonly #waiting: Waiting;
  readonly #underWay: UnderWay;
  readonly #own: Own | undefined;
  readonly #asked: WeakMap<Claim, Asked> = new WeakMap();
  readonly #stopWatching: () => void;
  #listener: Listener | undefined;
  #wrote = false;
  #closed: Promise<void> | undefined;

  /** @internal */
  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#settings = settings;
    this.#names = new Names(connection, settings);
    this.#waiting = new Waiting(connection, settings.clock);
    this.#underWay = new UnderWay(settings.clock, errors);
    this.#own = own;
    // The server may be another one now: after a restart or a fail-over it may have lost leases.
    this.#stopWatching = connection.onReconnect(() => this.#listener?.doubt());
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
      const place = this.#place(claim);
      const before = this.#asked.get(claim);
      const sentMs = this.#settings.clock.now();
      const { lock, notes, field, step, start } = place;
      const { ttlMs, lockDelayMs, minHoldMs } = claim;
      const third = place.token ?? place.deadline;
      const times = [ttlMs + lockDelayMs, Math.ceil(minHoldMs), lockDelayMs, this.#settings.idleMs].map(String);
      const reply = await this.#underWay.send(claim, () =>
        runScript(this.#connection, attemptScript, third === undefined ? [lock, notes] : [lock, notes, third], [
          field,
          step,
          ...times,
          whoText(claim),
          start,
          String(claim.queues ? this.#settings.gapMs : 0),
        ]),
      );
      if (typeof reply === "string" && /^\d{1,16}$/u.test(reply)) {
        this.#asked.delete(claim);
        return { granted: true, fence: BigInt(reply), run: 1, fromMs: sentMs };
      }
      const tries = (before?.tries ?? -1) + 1;
      this.#asked.set(claim, { sentMs, tries });
      const shown = toShown(claim.name, reply);
      if (shown === undefined) throw errors.unexpected(claim.name);
      return { granted: false, heldBy: shown.held, retryMs: this.#waiting.retryMs(place, shown, tries) };
    });
  }

  watch(claim: Claim, signal: AbortSignal): Promise<undefined> {
    return new Promise((resolve) => {
      const sinceMs = this.#asked.get(claim)?.sentMs ?? this.#settings.clock.now();
      const end = (): void => {
        stop();
        signal.removeEventListener("abort", end);
        resolve(undefined);
      };
      const stop = this.#waiting.onEnd(this.#names.of(claim.name), sinceMs, end);
      if (signal.aborted || this.#closed !== undefined) end();
      else signal.addEventListener("abort", end, { once: true });
    });
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return await this.#step("", () => renew(this.#connection, this.#names, this.#settings, claims, fences));
  }

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    if (outcome !== undefined) refuseOutcomes(this.name, CAN, claim, outcome);
    return await this.#step(claim.name, async () => {
      const { lock, notes, field, start, channel } = this.#names.at(claim);
      const minHoldMs = claim.resumes === true ? -1 : Math.ceil(claim.minHoldMs);
      const request = randomBytes(REQUEST_BYTES).toString("base64url");
      const sharded = this.#connection.topology === "cluster" ? "1" : "0";
      const args = [field, String(minHoldMs), request, String(this.#settings.idleMs), start, channel, sharded];
      const breaks = this.#connection.breaks();
      const reply = await this.#underWay.send(claim, () =>
        runScript(this.#connection, releaseScript, [lock, notes], args),
      );
      this.#asked.delete(claim);
      if (reply === 1) return "held";
      if (reply !== 0) throw errors.unexpected(claim.name);
      if (this.#connection.breaks() === breaks) return "absent";
      // A library that repeated the command was answered as before; but the server may be another one, which never had the lease.
      throw errors.unknown(
        claim.name,
        "the connection ended during the release, and the lock is no longer ours. Either the first of two requests released it, or it was over before",
      );
    });
  }

  async query(prefix: string): Promise<Snapshot> {
    return await this.#step("", () => query(this.#connection, this.#names, prefix));
  }

  async inspect(name: string): Promise<LockState> {
    return await this.#step(name, () => inspect(this.#connection, this.#names, name));
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return await this.#step(name, () => forceRelease(this.#connection, this.#names, { name, fence }, by, reason));
  }

  /** What server this is; in a cluster, one of its primaries. For the doctor. */
  async identify(): Promise<Identity> {
    return await this.#step("", () => identify(this.#connection));
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

  #place(claim: Claim): Place {
    refuseOutcomes(this.name, CAN, claim);
    const place = this.#names.at(claim);
    const trouble = whyTooLong(claim, place, this.#settings);
    if (trouble !== undefined) throw errors.refusal(claim.name, trouble);
    return place;
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
