/** The guard for any statement: the fence is checked in the transaction that does the writing. */
import { ArgumentError } from "../../contract/argument-error.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import { allFences, type Fenced, parseFence } from "../fenced.ts";
import { CHECK } from "../generated/sql.ts";
import { FenceRejectedError, reject } from "../rejected.ts";
import type { Pool, PoolClient, Queryable } from "./client.ts";

export interface WithFenceOptions {
  /**
   * How long the transaction may sit idle before the server ends it. A paused holder keeps the mark's row locked,
   * and the next holder waits for it: this is the bound. @default "30s"
   */
  readonly idle?: Duration | undefined;
}

const DEFAULTS = { idle: "30s" } as const satisfies WithFenceOptions;

/**
 * Runs `work` in a transaction that begins with the check, of every lock that the lease covers, and commits it.
 * Throws `FenceRejectedError`, with nothing written, when a later lease has been here.
 */
export async function withFence<T, C extends PoolClient>(
  pool: Pool<C>,
  offered: Fenced,
  work: (client: C) => Promise<T>,
  options: WithFenceOptions = {},
): Promise<T> {
  const fences = allFences(offered);
  const idleMs = toMs(options.idle ?? DEFAULTS.idle, "idle", { maxMs: 2 ** 31 - 1 });
  const client = await pool.connect();
  let broken: Error | undefined;
  // Without a listener, a connection that the server ends while it is idle would end this process.
  const onError = (error: Error): void => void (broken = error);
  client.on?.("error", onError);
  try {
    await client.query("begin");
    await client.query("select pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true)", [
      String(idleMs),
    ]);
    await checkAll(client, fences);
    const result = await work(client);
    const { command } = await client.query("commit");
    // The server answers a commit of a failed transaction with ROLLBACK, not with an error.
    if (command === "ROLLBACK") throw new Error("The transaction had failed and was rolled back: nothing was written");
    return result;
  } catch (error) {
    await client.query("rollback").catch((cause: unknown) => {
      broken ??= cause instanceof Error ? cause : new Error(String(cause));
    });
    throw rejectedBy(error, fences) ?? error;
  } finally {
    client.off?.("error", onError);
    client.release(broken);
  }
}

/**
 * Checks the fence in the transaction that `client` has begun, and keeps later holders out until it ends.
 * Throws `FenceRejectedError` (roll back then), or a `TypeError` when there is no transaction to protect.
 */
export async function checkFence(client: Queryable, offered: Fenced): Promise<void> {
  const fences = allFences(offered);
  try {
    await checkAll(client, fences);
  } catch (error) {
    throw rejectedBy(error, fences) ?? error;
  }
  if (await inTransaction(client)) return;
  throw new ArgumentError(
    "Expected checkFence() to be called after BEGIN, on the one client that runs the transaction, not on a pool: " +
      "outside a transaction nothing ties the check to the write. withFence(pool, lease, work) does it for you",
  );
}

/** One after the other, always in the same order, so two transactions never deadlock. */
async function checkAll(client: Queryable, fences: readonly Fenced[]): Promise<void> {
  for (const fenced of fences) await client.query(CHECK, parameters(fenced));
}

interface HasTransactionStatus {
  getTransactionStatus(): unknown;
}

async function inTransaction(client: Queryable): Promise<boolean> {
  if ("getTransactionStatus" in client) return (client as HasTransactionStatus).getTransactionStatus() === "T";
  // The check wrote a row: if that transaction is still open here, it has an id.
  const { rows } = await client.query("select pg_catalog.txid_current_if_assigned() is not null as open");
  return rows[0]?.open === true;
}

/** Raised by holdfast.check_fence() and holdfast.guard_row(). */
const FENCE_REJECTED = "LK001";

/** The error to throw instead, where the database refused an old fence; `undefined` for any other error. */
export function rejectedBy(error: unknown, fences: readonly Fenced[]): FenceRejectedError | undefined {
  if (error instanceof FenceRejectedError) return error;
  if (!(error instanceof Error) || !("code" in error) || error.code !== FENCE_REJECTED) return undefined;
  const details = "detail" in error ? parseDetail(error.detail) : {};
  const current = parseFence(details.current);
  const offered = parseFence(details.offered);
  // A row does not know which lock protects it: then it is one of the offered locks.
  const name =
    typeof details.lock === "string"
      ? details.lock
      : (fences.find(({ fence }) => fence === offered) ?? fences[0])?.name;
  if (current === undefined || offered === undefined || name === undefined) return undefined;
  return reject("postgres", { name, fence: offered }, current, error);
}

/** Lock and fence as parameters: decimal text, cast to bigint by the server. */
export function parameters({ name, fence }: Fenced): [string, string] {
  if (name.includes("\0"))
    throw new ArgumentError("Expected a lock's name without NUL: Postgres cannot store one in text");
  return [name, fence.toString()];
}

function parseDetail(detail: unknown): { lock?: unknown; current?: unknown; offered?: unknown } {
  try {
    const parsed: unknown = JSON.parse(String(detail));
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {};
  }
}
