/** An advisory lock of a transaction, for work that is nothing but that transaction: it needs no lease, and gets none. */
import type { Mode } from "../../contract/backend.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import { LockTimeoutError } from "../../contract/errors.ts";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type AdvisoryKey, advisoryKey } from "./advisory-key.ts";
import { isPool, isPostgresJs } from "./clients/structure.ts";
import { codeOf, toBackendError } from "./errors.ts";

export interface TransactionLockOptions {
  /** How long to wait for it; 0 tries once. @default "10s" */
  readonly wait?: Duration | undefined;
  /** Readers together, writers alone. @default "exclusive" */
  readonly mode?: Mode | undefined;
}

/** A client of `pg` after BEGIN, or the `sql` that `begin()` of postgres.js hands to its function. */
export type TransactionClient =
  | { query(text: string, values?: unknown[]): PromiseLike<{ readonly rows: readonly unknown[] }> }
  | { unsafe(text: string, values?: never[]): PromiseLike<Iterable<unknown>> };

const DEFAULTS = { wait: "10s", mode: "exclusive" } as const satisfies TransactionLockOptions;
const NOT_AVAILABLE = "55P03";
const NO_TRANSACTION = "25P01";
const SAVEPOINT = "holdfast_transaction_lock";

/**
 * Takes the lock in the transaction that `client` has begun, and holds it exactly until that ends: what the transaction writes and the lock
 * live and die together. It returns no lease: there is no fence, no ttl and no signal, and nothing outside of the transaction is protected.
 * Rejects with `LockTimeoutError`, after which the transaction can go on.
 */
export async function withTransactionLock(
  client: TransactionClient,
  name: string,
  options: TransactionLockOptions = {},
): Promise<void> {
  const waitMs = toMs(options.wait ?? DEFAULTS.wait, "wait", { minMs: 0, maxMs: Infinity });
  const mode = options.mode ?? DEFAULTS.mode;
  if (mode !== "exclusive" && mode !== "shared") {
    throw new ArgumentError(`Expected \`mode\` to be "exclusive" or "shared", got ${got(mode)}`);
  }
  if (typeof name !== "string") throw new ArgumentError(`Expected the lock's name to be a text, got ${got(name)}`);
  const ask = askerOf(client);
  const startedMs = performance.now();
  // What is taken after a savepoint goes with it: also a lock that is granted in the instant in which the wait ends.
  await ask(`savepoint ${SAVEPOINT}`).catch((error: unknown) => {
    throw codeOf(error) === NO_TRANSACTION ? outside() : toBackendError(error, name);
  });
  try {
    if (await take(ask, statement(advisoryKey(name), mode, waitMs), waitMs)) {
      await ask(`release savepoint ${SAVEPOINT}`);
      return;
    }
  } catch (error) {
    await ask(`rollback to savepoint ${SAVEPOINT}`).catch(() => undefined);
    if (codeOf(error) !== NOT_AVAILABLE) throw toBackendError(error, name);
  }
  await ask(`release savepoint ${SAVEPOINT}`);
  throw new LockTimeoutError(name, performance.now() - startedMs);
}

type Ask = (text: string) => Promise<readonly unknown[]>;

function askerOf(client: unknown): Ask {
  // A pool, and postgres.js outside of begin(), may run each statement on another connection.
  if (isPool(client)) throw outside();
  const { unsafe, query, savepoint } = client as { unsafe?: unknown; query?: unknown; savepoint?: unknown };
  if (isPostgresJs(client) || typeof unsafe === "function") {
    if (typeof savepoint !== "function") throw outside();
    const sql = client as { unsafe(text: string): PromiseLike<Iterable<unknown>> };
    return async (text) => Array.from(await sql.unsafe(text));
  }
  if (typeof query !== "function") {
    throw new ArgumentError(
      `Expected a client of \`pg\`, or \`sql\` of a transaction of postgres.js, got ${got(client)}`,
    );
  }
  const single = client as { query(text: string): PromiseLike<{ readonly rows: readonly unknown[] }> };
  return async (text) => (await single.query(text)).rows;
}

function outside(): ArgumentError {
  return new ArgumentError(
    "Expected the one client that runs a transaction, after BEGIN, or `sql` of begin(): elsewhere the lock would be gone with the statement that took it",
  );
}

/** Numbers and fixed words only. */
function statement(key: AdvisoryKey, mode: Mode, waitMs: number): string {
  const verb = waitMs === 0 ? "pg_try_advisory_xact_lock" : "pg_advisory_xact_lock";
  const which = key.space === "one" ? `${key.key}::bigint` : `${key.high}::integer, ${key.low}::integer`;
  return `pg_catalog.${verb}${mode === "shared" ? "_shared" : ""}(${which})`;
}

/** False: another transaction has it. */
async function take(ask: Ask, call: string, waitMs: number): Promise<boolean> {
  if (waitMs === 0) {
    const [row] = await ask(`select (${call})::text as answer`);
    return (row as { answer?: unknown } | undefined)?.answer === "true";
  }
  const [before] = await ask("select pg_catalog.current_setting('lock_timeout') as answer");
  const usual = String((before as { answer?: unknown } | undefined)?.answer);
  if (!/^\d+(?:us|ms|s|min|h|d)?$/u.test(usual)) throw new Error("unexpected reply: lock_timeout");
  const limit = waitMs === Infinity ? 0 : Math.min(waitMs, 2 ** 31 - 1);
  await ask(`set local lock_timeout = ${limit}`);
  await ask(`select ${call}`);
  await ask(`set local lock_timeout = '${usual}'`);
  return true;
}
