/**
 * Locks in the table of ShedLock, so that Java schedulers and Node processes keep each other out. A foreign layout: it has one row for a lock, and no
 * place for a queue, readers, limits, meta or outcomes. docs/backends/shedlock.md says what that means.
 */
import type {
  Abilities,
  Backend,
  Claim,
  Granted,
  LockState,
  Outcome,
  Refused,
  Released,
  Renewal,
  Snapshot,
} from "../../contract/backend.ts";
import { ArgumentError } from "../../contract/argument-error.ts";
import { refuseOutcomes } from "../../contract/declined.ts";
import { connectionOf } from "../postgres/clients/choose.ts";
import { isPostgresJs, type PgClient, type PgPool } from "../postgres/clients/structure.ts";
import type { Connection } from "../postgres/connection.ts";
import { LocalClaims } from "../postgres/local-claims.ts";
import { inTurn } from "../postgres/migrate.ts";
import { refusal, toBackendError, unexpected } from "./errors.ts";
import { forceRelease } from "./force-release.ts";
import { type Settings, type ShedLockOptions, toSettings } from "./options.ts";
import { inspect, query } from "./query.ts";
import { renew } from "./renewals.ts";
import { lockedBy, toFence, toHolding, toRow } from "./rows.ts";
import { type Statements, statementsFor } from "./statements.ts";
import { readTable, type Table, tableText } from "./table.ts";

/** Nothing reports that a lock has become free: who waits asks again, at the latest after this long. */
const POLL_MS = 250;

const CAN: Abilities = {
  outcomes: "ShedLock's table has no place for outcomes; use postgres:// for once()",
  wanted: "ShedLock's table has no queue, so no process knows who waits",
  otherTtl: true,
  steal: "ShedLock's table has no place to say who stole a lease; end it by force, and acquire it then",
  waiters: "ShedLock's table has no queue, so it does not show who waits, and no deadlock is found there",
  linger: "a row of ShedLock's table says to no holder that another waits for it, so that it must not be kept unused",
};

/** Makes a backend over a pool or a client of `pg`. It never closes what it was given. */
export function shedlock(client: PgPool | PgClient, options: ShedLockOptions = {}): Backend {
  const settings = toSettings(options);
  if (isPostgresJs(client)) {
    throw new ArgumentError(
      "Expected a pool or a client of `pg`: postgres.js does not say whether a connection of yours was left in a transaction, which may be rolled back. Use a URL, postgres+shedlock://…, with which postgres.js has connections of its own",
    );
  }
  return new ShedLockBackend(connectionOf(client, settings.clock, settings.answerMs), settings);
}

/** What belongs to a connection that was opened for this backend, and not passed in by the user. */
export interface Own {
  readonly renewer: { readonly module: string; readonly data: unknown };
}

export class ShedLockBackend implements Backend {
  readonly name = "shedlock";
  readonly can: Abilities = CAN;
  readonly #connection: Connection;
  readonly #settings: Settings;
  readonly #statements: Statements;
  readonly #claims: LocalClaims;
  readonly #own: Own | undefined;
  #table: Promise<Table> | undefined;
  #wrote = false;
  #closed: Promise<void> | undefined;

  constructor(connection: Connection, settings: Settings, own?: Own) {
    this.#connection = connection;
    this.#settings = settings;
    this.#statements = statementsFor(settings.table);
    this.#claims = new LocalClaims(settings.clock, () => []);
    this.#own = own;
  }

  /** Not a field, so that printing the backend does not show the URL, which may contain a password. */
  get renewer(): Own["renewer"] | undefined {
    return this.#own?.renewer;
  }

  async attempt(claim: Claim): Promise<Granted | Refused> {
    return await this.#step(claim.name, async (table) => {
      this.#check(claim, table);
      const values = [claim.name, lockedBy(claim), String(claim.ttlMs + claim.lockDelayMs), claim.id];
      const { answers, sentMs } = await this.#claims.enter(claim, () =>
        this.#connection.ask(this.#statements.attempt, values),
      );
      const row = toRow(answers[0]);
      const fence = toFence((row as { granted?: unknown } | undefined)?.granted);
      if (fence !== undefined) return { granted: true, fence, run: 1, fromMs: sentMs };
      if (row !== undefined && "granted" in row) throw unexpected(claim.name);
      this.#claims.left(claim);
      const holding = toHolding(row ?? {});
      const retryMs = Math.max(1, Math.min(POLL_MS, (holding?.remainingMs ?? 0) + 1));
      return { granted: false, heldBy: holding === undefined ? [] : [holding], retryMs };
    });
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    return await this.#step("", () => renew(this.#connection, this.#statements, claims, fences));
  }

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    if (outcome !== undefined) refuseOutcomes(this.name, CAN, claim, outcome);
    return await this.#step(claim.name, async () => {
      const minHoldMs = claim.resumes === true ? -1 : Math.ceil(claim.minHoldMs);
      const values = [claim.name, claim.id, String(minHoldMs)];
      const { answers } = await this.#claims.leave(claim, () => this.#connection.ask(this.#statements.release, values));
      this.#claims.left(claim);
      return answers[0] === "held" ? "held" : "absent";
    });
  }

  async query(prefix: string): Promise<Snapshot> {
    return await this.#step("", () => query(this.#connection, this.#statements, prefix));
  }

  async inspect(name: string): Promise<LockState> {
    return await this.#step(name, () => inspect(this.#connection, this.#statements, name));
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    return await this.#step(name, () => forceRelease(this.#connection, this.#statements, { name, fence }, by, reason));
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    const left = await this.#claims.settled();
    await this.#connection.close();
    if (left !== undefined) throw left;
  }

  #check(claim: Claim, { nameMax }: Table): void {
    refuseOutcomes(this.name, CAN, claim);
    const { name, mode, limit } = claim;
    if (mode !== "exclusive" || limit !== 1) {
      throw refusal(name, "ShedLock's table knows one holder for a lock, and neither readers nor a limit");
    }
    // Postgres would cut spaces at the end without a word, and two names would be one lock.
    if (name.includes("\0") || Array.from(name).length > nameMax) {
      throw refusal(name, `names in ShedLock's table have at most ${nameMax} characters, and none of them is NUL`);
    }
  }

  async #step<T>(lock: string, ask: (table: Table) => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw refusal(lock, "this backend is closed");
    try {
      const answer = await ask(await (this.#table ??= this.#setUp()));
      this.#wrote = true;
      return answer;
    } catch (error) {
      throw toBackendError(error, lock, this.#wrote);
    }
  }

  /** One that failed is tried again with the next step. */
  async #setUp(): Promise<Table> {
    try {
      return await setUp(this.#connection, this.#settings);
    } catch (error) {
      this.#table = undefined;
      throw error;
    }
  }
}

export async function setUp(connection: Connection, { table, migrate }: Settings): Promise<Table> {
  if (migrate) await connection.script(inTurn(tableText(table)));
  return await readTable(connection, table);
}
