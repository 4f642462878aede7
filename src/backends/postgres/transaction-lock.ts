/** An advisory lock of a transaction, for work that is nothing but that transaction: it needs no lease, and gets none. */
import type { Mode } from "../../contract/backend.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import { LockTimeoutError } from "../../contract/errors.ts";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type AdvisoryKey, advisoryKey } from "./advisory-key.ts";
import { answersOf, isPool, isPostgresJs } from "./clients/structure.ts";
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
const NO_TRANSACTION = "25P01";
const SAVEPOINT = "holdfast_transaction_lock";
/** A setting of the transaction, in which the server leaves the answer. */
const ANSWER = "holdfast.transaction_lock";

/** The last call by client: savepoints of two at once would undo each other. */
const turns = new WeakMap<object, Promise<unknown>>();

/**
 * Takes the lock in the transaction that `client` has begun, and holds it until that ends, or is rolled back to a savepoint that is older than
 * the lock (a nested transaction of an ORM is one): what was written since and the lock live and die together. It returns no lease: there is no fence, no ttl and no signal, and nothing outside of the transaction is protected.
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
  const turn = (turns.get(client) ?? Promise.resolve()).then(() => takeInTurn(ask, name, mode, waitMs));
  turns.set(
    client,
    turn.catch(() => undefined),
  );
  await turn;
}

async function takeInTurn(ask: Ask, name: string, mode: Mode, waitMs: number): Promise<void> {
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
    throw toBackendError(error, name);
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
    const [answer] = answersOf(await ask(`select (${call})::text as answer`));
    if (answer !== "true" && answer !== "false") throw new Error("unexpected reply: neither true nor false");
    return answer === "true";
  }
  const limit = waitMs === Infinity ? 0 : Math.min(Math.ceil(waitMs), 2 ** 31 - 1);
  // The server catches the end of the wait, with all that it had taken: an error would end the transaction, for postgres.js for good.
  await ask(`do $wait$
    declare usual text := pg_catalog.current_setting('lock_timeout');
    begin
      perform pg_catalog.set_config('lock_timeout', '${limit}', true);
      perform ${call};
      perform pg_catalog.set_config('lock_timeout', usual, true), pg_catalog.set_config('${ANSWER}', 'taken', true);
    exception when lock_not_available then
      perform pg_catalog.set_config('${ANSWER}', 'busy', true);
    end $wait$`);
  const [answer] = answersOf(await ask(`select pg_catalog.current_setting('${ANSWER}') as answer`));
  if (answer !== "taken" && answer !== "busy") throw new Error("unexpected reply: neither taken nor busy");
  return answer === "taken";
}
