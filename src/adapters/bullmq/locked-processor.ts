/**
 * BullMQ: a processor whose jobs hold locks. A job that finds its lock busy goes back to BullMQ as a delayed one, so that the worker is free
 * for other jobs, as does one whose turn it is not; one that was delayed often waits in the lock's own queue, so that it is not overtaken for ever.
 */
import type { Job } from "bullmq";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { onAbort } from "../../contract/on-abort.ts";
import type { Lease, Locks } from "../../core/api.ts";
import { checkName } from "../../core/options.ts";
import { giveBack } from "./generated/scripts.ts";
import { type CheckedProcessor, checkProcessor, type LockedProcessorOptions } from "./options.ts";
import { isOurs, redisOf, runScript, workerOf } from "./worker-of.ts";

/** As a processor of BullMQ, with the lease. `signal` aborts when the lock was lost, or BullMQ cancels the job. */
export type LockedWork<D, R, N extends string> = (
  job: Job<D, R, N>,
  token: string,
  signal: AbortSignal,
  lease: Lease | undefined,
) => Promise<R>;

/** What a worker of BullMQ is given. */
export type WorkerProcessor<D, R, N extends string> = (
  job: Job<D, R, N>,
  token?: string,
  signal?: AbortSignal,
) => Promise<R>;

/** BullMQ knows it by its name, in whichever copy of the package the worker is: the job is delayed, and has not failed. */
class DelayedError extends Error {
  override readonly name = "DelayedError";
}

/** The worker is being closed. */
const CLOSING: unique symbol = Symbol("closing");

/** A job that has many before it is delayed for so many times `delay`. */
const AHEAD_MAX = 30;

/** Why nothing was begun, and for how long the job is delayed. */
interface Busy {
  readonly delayMs: number;
}

export function lockedProcessor<D = unknown, R = unknown, N extends string = string>(
  locks: Locks,
  options: LockedProcessorOptions<D, R, N>,
  processor: LockedWork<D, R, N>,
): WorkerProcessor<D, R, N> {
  const checked = checkProcessor(locks, options, processor);
  const line: Line = { isTaken: false, resting: new Map() };
  // Three parameters: BullMQ makes a signal only for a processor that has them.
  return async (job, token, signal) => {
    const takenMs = performance.now();
    const cancelled = signal ?? new AbortController().signal;
    const name = await checked.key(job);
    if (name === undefined) return await processor(job, token ?? "", cancelled, undefined);
    if (typeof name !== "string" || name === "") {
      throw new ArgumentError(`Expected the name of a lock for job ${job.id}, got ${got(name)}`);
    }
    // Before it has a place: what cannot be locked has none.
    checkName(name);
    const later = await checked.order?.turn(job as Job, name);
    if (later !== undefined) {
      await delay(job, token, checked.delayMs * Math.min(later.ahead, AHEAD_MAX), takenMs);
      // Only now: its turn may have come before it was delayed, and no job could wake it then.
      await checked.order?.wake(job as Job, name);
      throw new DelayedError(`Other jobs of lock ${name} are before it`);
    }
    const checkOurs = async (): Promise<void> => {
      if (await isOurs(job as Job, token)) return;
      throw new Error(
        `Job ${job.id} was not begun: BullMQ believed that its worker had stalled, and has taken it away`,
      );
    };
    const turn = await take(locks, name, checked, job, cancelled, line, checkOurs, (lease) =>
      processor(job, token ?? "", AbortSignal.any([lease.signal, cancelled]), lease),
    );
    if ("value" in turn) return turn.value;
    await delay(job, token, turn.delayMs, takenMs);
    throw new DelayedError(`Lock ${name} is busy`);
  };
}

/** With the token, and without counting an attempt: in BullMQ, and in its limiter, which counts jobs that are taken. */
async function delay(job: Job, token: string | undefined, delayMs: number, takenMs: number): Promise<void> {
  const worker = workerOf(job);
  const moved = job.moveToDelayed(Date.now() + delayMs, token);
  if (worker === undefined || redisOf(worker) === undefined) return await moved;
  const sinceMs = Math.floor(performance.now() - takenMs);
  const keys = [worker.toKey("limiter"), worker.toKey("meta")];
  await Promise.all([moved, runScript(worker, giveBack, keys, [worker.opts?.limiter?.duration ?? "", sinceMs])]);
}

/** One job of a processor at a time waits for its lock: the other places of the worker stay free. */
interface Line {
  isTaken: boolean;
  /** Locks for which one has waited without success, and until when no other job does: else the jobs of one such lock would always be in line. */
  readonly resting: Map<string, number>;
}

function rest({ resting }: Line, name: string, restMs: number): void {
  const now = performance.now();
  for (const [other, untilMs] of resting) if (untilMs <= now) resting.delete(other);
  resting.set(name, now + restMs);
}

async function take<D, R, N extends string>(
  locks: Locks,
  name: string,
  options: CheckedProcessor<D, R, N>,
  job: Job<D, R, N>,
  cancelled: AbortSignal,
  line: Line,
  checkOurs: () => Promise<void>,
  work: (lease: Lease) => Promise<R>,
): Promise<{ readonly value: R } | Busy> {
  const { lock, delayMs, patience } = options;
  let began = false;
  const begin = async (lease: Lease): Promise<R> => {
    // Now that no other run of it can begin: it may have run to its end elsewhere while this process was stopped.
    await checkOurs();
    began = true;
    return await work(lease);
  };
  const rests = (line.resting.get(name) ?? 0) > performance.now();
  const waits = !line.isTaken && !rests && delaysOf(job) >= patience;
  try {
    if (waits) return await waitInLine(locks, name, options, job, cancelled, line, begin);
    const turn = await locks.tryRun(name, { ...lock, signal: cancelled }, begin);
    return turn.ran ? turn : { delayMs: Math.max(delayMs, turn.quarantineMs ?? 0) };
  } catch (error) {
    if (began) throw error;
    if (cancelled.aborted) throw asError(cancelled.reason);
    if (error === CLOSING || isUnavailable(error)) return { delayMs };
    throw error;
  }
}

async function waitInLine<D, R, N extends string>(
  locks: Locks,
  name: string,
  { lock, delayMs, waitMs }: CheckedProcessor<D, R, N>,
  job: Job<D, R, N>,
  cancelled: AbortSignal,
  line: Line,
  begin: (lease: Lease) => Promise<R>,
): Promise<{ readonly value: R } | Busy> {
  const ending = new AbortController();
  const offs = [onAbort(cancelled, (reason) => ending.abort(reason)), onClosing(job, () => ending.abort(CLOSING))];
  let isOut = false;
  const leave = (): void => {
    if (isOut) return;
    isOut = true;
    line.isTaken = false;
    for (const off of offs) off();
  };
  line.isTaken = true;
  let began = false;
  try {
    const value = await locks.run(name, { ...lock, wait: waitMs, signal: ending.signal }, async (lease) => {
      began = true;
      leave();
      return await begin(lease);
    });
    return { value };
  } catch (error) {
    // As long away as it was in line: a lock that is not released takes up half of one place, not all of it.
    if (began || codeOf(error) !== "ERR_LOCK_TIMEOUT") throw error;
    rest(line, name, waitMs);
    return { delayMs: Math.max(delayMs, waitMs) };
  } finally {
    leave();
  }
}

/** How often it was delayed since its last attempt began. What BullMQ moved for other reasons counts, too. */
function delaysOf({ attemptsStarted, attemptsMade }: Job): number {
  return Math.max(0, attemptsStarted - attemptsMade - 1);
}

/** A worker that says nothing is waited for. */
function onClosing(job: object, closing: () => void): () => void {
  const worker = workerOf(job);
  if (worker?.closing !== undefined) closing();
  worker?.once("closing", closing);
  return () => void worker?.off("closing", closing);
}

/** The store could not be asked, or the locks are closed: the job is not at fault, and no attempt of it is counted. */
function isUnavailable(error: unknown): boolean {
  if (codeOf(error) === "ERR_LOCK_CLOSED") return true;
  return codeOf(error) === "ERR_LOCK_BACKEND" && (error as { readonly fatal?: boolean }).fatal !== true;
}

function codeOf(error: unknown): unknown {
  return error instanceof Error ? (error as { readonly code?: unknown }).code : undefined;
}

/** BullMQ's reasons are texts, and jobs fail with errors. */
function asError(reason: unknown): Error {
  return reason instanceof Error
    ? reason
    : new Error(`The job was cancelled${typeof reason === "string" ? `: ${reason}` : ""}`);
}
