/**
 * The Postgres backend: every operation is one statement that calls one function, by the server's clock, so it works behind poolers. Waiting is
 * a queue in the store; a release passes the lock to the next waiter in the same step and notifies its process.
 * docs/backends/postgres.md says what holds when, and decision 18 why no step grants twice.
 */
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
  Swapped,
} from "../../contract/backend.ts";
import { LockBackendError } from "../../contract/errors.ts";
import { Attempts } from "./attempts.ts";
import { Cleanup } from "./cleanup.ts";
import { connectionOf } from "./clients/choose.ts";
import { within } from "./clients/limit.ts";
import type { PostgresClient } from "./clients/structure.ts";
import type { Connection } from "./connection.ts";
import { toBackendError } from "./errors.ts";
import { forceRelease } from "./force-release.ts";
import { CALL_BEAT } from "./generated/sql.ts";
import { Inbox } from "./inbox.ts";
import { CLOSE_MS, LocalClaims } from "./local-claims.ts";
import { type PostgresOptions, type Settings, toSettings } from "./options.ts";
import { inspect, query } from "./query.ts";
import { toArray, toBytesArray, toRun } from "./records.ts";
import { ReleaseBatches } from "./release-batches.ts";
import { forget, release, type ReleaseParts } from "./release.ts";
import { Renewals } from "./renewals.ts";
import { setUp } from "./setup.ts";
import { Waiters } from "./waiting.ts";
import { WantedNews } from "./wanted-news.ts";

/** Makes a backend over a pool or a client of `pg`, or over `sql` of postgres.js. It never closes what it was given. */
export function postgres(client: PostgresClient, options: PostgresOptions = {}): Backend {
  const settings = toSettings(options);
  return new PostgresBackend(connectionOf(client, settings.clock, settings.answerMs), settings);
}

/** What belongs to a connection that was opened for this backend, and not passed in by the user. */
export interface Own {
  readonly renewer: { readonly module: string; readonly data: unknown };
}

const CAN: Abilities = { outcomes: true, wanted: true, otherTtl: true, steal: true, waiters: true, linger: true };

export class PostgresBackend implements Backend {
  readonly name = "postgres";
  readonly can: Abilities = CAN;
  readonly #connection: Connection;
  readonly #settings: Settings;
  readonly #renewals: Renewals;
  readonly #claims: LocalClaims;
  readonly #waiters: Waiters;
  readonly #inbox: Inbox;
  readonly #attempts: Attempts;
  readonly #leaving: ReleaseParts;
  readonly #wanted: WantedNews;
  readonly #cleanup: Cleanup;
  readonly #own: Own | undefined;
  #setUp: Promise<void> | undefined;
  #listener: Listener | undefined;
  /** A statement that writes was answered: from then on, a server that only lets us read means a fail-over, and not a wrong address. */
  #wrote = false;
  /** The last statement got no answer: the next one that does may come from another server. */
  #failed = false;
  #closed: Promise<void> | undefined;

  constructor(connection: Connection, settings: Settings, own?: Own) {
    const { clock } = settings;
    const watched: Connection = {
      ask: async (text, values) => {
        const reply = await this.#watch(connection.ask(text, values));
        this.#wrote = true;
        return reply;
      },
      read: (text, values) => this.#watch(connection.read(text, values)),
      script: (text) => this.#watch(connection.script(text)),
      listen: (channel, events, signal) => connection.listen(channel, events, signal),
      close: () => connection.close(),
    };
    this.#connection = watched;
    this.#settings = settings;
    this.#own = own;
    this.#renewals = new Renewals(watched, settings);
    this.#claims = new LocalClaims(clock, () => this.#renewals.renewed());
    this.#waiters = new Waiters(
      clock,
      () => this.#inbox.isLive,
      (claims) => this.#beat(claims),
    );
    this.#inbox = new Inbox(watched, clock, settings.listen, {
      claimOf: (shown, isSealed) => this.#claims.find(shown, isSealed),
      granted: ({ id }, run) => this.#waiters.granted(id, run),
      forced: ({ id }) => this.#listener?.doubt(id),
      wanted: (claim) => {
        const all = claim.mode === "shared" ? this.#claims.readersLike(claim) : [claim];
        for (const { id } of all) this.#listener?.wanted?.(id);
      },
      outcome: ({ name }) => this.#waiters.outcome(name),
      changed: () => this.#doubtAll(),
    });
    this.#wanted = new WantedNews(watched, clock, this.#inbox, (id) => this.#listener?.wanted?.(id));
    this.#cleanup = new Cleanup(watched, clock, settings.idleMs);
    const parts = { connection: watched, settings, claims: this.#claims, waiters: this.#waiters };
    this.#attempts = new Attempts({ ...parts, inbox: this.#inbox });
    this.#leaving = { ...parts, batches: new ReleaseBatches(watched, settings.quarantineMs) };
  }

  /** Not a field, so that printing the backend does not show the URL, which may contain a password. */
  get renewer(): Own["renewer"] | undefined {
    return this.#own?.renewer;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  async attempt(claim: Claim): Promise<Granted | Refused> {
    return await this.#step(claim.name, () => {
      this.#cleanup.attempted();
      return this.#attempts.attempt(claim);
    });
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    return await this.#step(held.name, () => this.#attempts.swap(held, next));
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return this.#waiters.watch(claim, signal);
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return await this.#step(claims[0]?.name ?? "", () => this.#renewals.renew(claims, fences));
  }

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    this.#wanted.forget(claim.id);
    return await this.#step(claim.name, () => release(this.#leaving, claim, outcome));
  }

  async query(prefix: string): Promise<Snapshot> {
    return await this.#step("", () => query(this.#connection, prefix));
  }

  async inspect(name: string): Promise<LockState> {
    return await this.#step(name, () => inspect(this.#connection, this.#settings, name));
  }

  async steal(claim: Claim, reason: string): Promise<Granted | Refused> {
    return await this.#step(claim.name, () => this.#attempts.steal(claim, reason));
  }

  async forget(name: string, fence: bigint): Promise<boolean> {
    return await this.#step(name, () => forget(this.#connection, name, fence));
  }

  /** The store reports it to the inbox of a holder that wants to know. Where none is heard, it is asked for. */
  expectWanted(claim: Claim): void {
    this.#wanted.expect(claim);
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return await this.#step(name, () => forceRelease(this.#connection, this.#settings, { name, fence }, by, reason));
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#waiters.close();
    this.#wanted.close();
    const left = await this.#claims.settled();
    // Nothing depends on these: what hangs is left to its own limit.
    const rest = Promise.all([this.#inbox.close(), this.#cleanup.settled()]);
    await within(this.#settings.clock, CLOSE_MS, rest).catch(() => undefined);
    await this.#connection.close();
    if (left !== undefined) throw left;
  }

  async #step<T>(lock: string, ask: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) {
      throw new LockBackendError("postgres", lock, "The Postgres backend is closed.", { fatal: true });
    }
    try {
      if (this.#settings.migrate) await (this.#setUp ??= this.#migrate());
      return await ask();
    } catch (error) {
      throw toBackendError(error, lock, this.#wrote);
    }
  }

  /** One that failed is tried again with the next step. */
  async #migrate(): Promise<void> {
    try {
      await setUp(this.#connection);
    } catch (error) {
      this.#setUp = undefined;
      throw error;
    }
  }

  async #beat(claims: readonly Claim[]): Promise<{ readonly answers: readonly unknown[]; readonly sentMs: number }> {
    const values = [
      toBytesArray(claims.map(({ name }) => name)),
      toArray(claims.map(({ id }) => id)),
      this.#inbox.address,
      String(this.#settings.quarantineMs),
    ];
    const { answers, sentMs } = await this.#connection.ask(CALL_BEAT, values);
    const parsed: unknown = JSON.parse(answers[0] ?? "[]");
    const list: unknown[] = Array.isArray(parsed) ? parsed : [];
    // A message should have said it before.
    if (list.some((answer) => toRun(answer) !== undefined)) void this.#inbox.check();
    return { answers: list, sentMs };
  }

  async #watch<T>(asked: Promise<T>): Promise<T> {
    try {
      const answer = await asked;
      if (this.#failed) this.#doubtAll();
      return answer;
    } catch (error) {
      // An answer with an error is an answer.
      this.#failed ||= !toBackendError(error, "").fatal && !("severity" in (error as object));
      throw error;
    }
  }

  /** Messages may have been missed, and the server may be another one: everything is checked at once. */
  #doubtAll(): void {
    this.#failed = false;
    if (this.#closed !== undefined) return;
    this.#waiters.beatAll();
    this.#listener?.doubt();
  }
}
