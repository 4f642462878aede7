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
import { type Own, Requests } from "../redis/layouts/requests.ts";
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
  readonly #requests: Requests;

  /** @internal */
  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#settings = settings;
    this.#names = new Names(connection, settings);
    this.#waiting = new Waiting(connection, settings.clock);
    this.#requests = new Requests(connection, { clock: settings.clock, errors, own });
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
      const place = this.#place(claim);
      const { lock, notes, field, step, start } = place;
      const { ttlMs, lockDelayMs, minHoldMs } = claim;
      const third = place.token ?? place.deadline;
      const times = [ttlMs + lockDelayMs, Math.ceil(minHoldMs), lockDelayMs, this.#settings.idleMs].map(String);
      const gapMs = String(claim.queues ? this.#settings.gapMs : 0);
      const keys = third === undefined ? [lock, notes] : [lock, notes, third];
      return this.#requests.attempt(
        claim,
        () => runScript(this.#connection, attemptScript, keys, [field, step, ...times, whoText(claim), start, gapMs]),
        (reply, tries) => {
          const shown = toShown(claim.name, reply);
          if (shown === undefined) throw errors.unexpected(claim.name);
          return { granted: false, heldBy: shown.held, retryMs: this.#waiting.retryMs(place, shown, tries) };
        },
      );
    });
  }

  watch(claim: Claim, signal: AbortSignal): Promise<undefined> {
    return this.#requests.watch(claim, signal, (sinceMs, wake) =>
      this.#waiting.onEnd(this.#names.of(claim.name), sinceMs, wake),
    );
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return await this.#requests.step("", () => renew(this.#connection, this.#names, this.#settings, claims, fences));
  }

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    if (outcome !== undefined) refuseOutcomes(this.name, CAN, claim, outcome);
    return await this.#requests.step(claim.name, () => {
      const { lock, notes, field, start, channel } = this.#names.at(claim);
      const minHoldMs = claim.resumes === true ? -1 : Math.ceil(claim.minHoldMs);
      const request = randomBytes(REQUEST_BYTES).toString("base64url");
      const sharded = this.#connection.topology === "cluster" ? "1" : "0";
      const args = [field, String(minHoldMs), request, String(this.#settings.idleMs), start, channel, sharded];
      return this.#requests.release(claim, "the lock", () =>
        runScript(this.#connection, releaseScript, [lock, notes], args),
      );
    });
  }

  async query(prefix: string): Promise<Snapshot> {
    return await this.#requests.step("", () => query(this.#connection, this.#names, prefix));
  }

  async inspect(name: string): Promise<LockState> {
    return await this.#requests.step(name, () => inspect(this.#connection, this.#names, name));
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return await this.#requests.step(name, () =>
      forceRelease(this.#connection, this.#names, { name, fence }, by, reason),
    );
  }

  /** What server this is; in a cluster, one of its primaries. For the doctor. */
  async identify(): Promise<Identity> {
    return await this.#requests.step("", () => identify(this.#connection));
  }

  close(): Promise<void> {
    return this.#requests.close(() => this.#waiting.close());
  }

  #place(claim: Claim): Place {
    refuseOutcomes(this.name, CAN, claim);
    const place = this.#names.at(claim);
    const trouble = whyTooLong(claim, place, this.#settings);
    if (trouble !== undefined) throw errors.refusal(claim.name, trouble);
    return place;
  }
}
