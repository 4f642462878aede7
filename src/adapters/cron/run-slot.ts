/**
 * One slot of a job, run once by all processes together. Two locks: that of the slot, on which it is kept that the slot was done, and that of
 * the job, so that its slots do not overlap. The one of the slot is outside: a process that waits for it takes over where the runner dies.
 */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import type { Lease, Locks, OnceCodec } from "../../core/api.ts";
import { jobName, slotName } from "./names.ts";
import { type CheckedSlot, checkSlot, type SlotOptions } from "./options.ts";

/** What the function of a job gets. */
export interface SlotRun {
  /** The scheduled time, not the time by the clock. */
  readonly slot: Date;
  /** Aborts, with a `LockLostError` as reason, when the slot or the job was lost: another process may run it then. */
  readonly signal: AbortSignal;
  /** Greater from run to run of the job. With `overlap: "allow"`, only from run to run of the same slot. */
  readonly fence: bigint;
  /** Throws `LockLostError` unless both are surely held now. */
  readonly assertHeld: () => void;
}

export type SlotWork<T> = (run: SlotRun) => T | Promise<T>;

/**
 * `done`, `failed`: another process has run the slot, or this one before. `running`: another one still does. `overlap`: another slot of the job runs.
 */
export type SlotResult<T> =
  | { readonly ran: true; readonly slot: Date; readonly value: T }
  | { readonly ran: false; readonly slot: Date; readonly why: "done" | "failed" | "running" | "overlap" };

/** Another slot of the job runs: nothing was begun. */
class Overlap extends Error {}

/** What is kept of a slot: whether its function has failed. */
type Kept = "done" | "failed";

const CODEC: OnceCodec<Kept> = {
  encode: (kept) => kept,
  decode: (text) => (text === "failed" ? "failed" : "done"),
};

/**
 * Runs `work` for this slot, unless it was done. Rejects as `work` does, with `LockLostError` where the slot or the job was lost, and with
 * `LockBackendError` where the store could not be asked: then nothing was run.
 */
export function runSlot<T>(locks: Locks, name: string, slot: Date, work: SlotWork<T>): Promise<SlotResult<T>>;
export function runSlot<T>(
  locks: Locks,
  name: string,
  slot: Date,
  options: SlotOptions,
  work: SlotWork<T>,
): Promise<SlotResult<T>>;
export async function runSlot<T>(
  locks: Locks,
  name: string,
  slot: Date,
  options: SlotOptions | SlotWork<T>,
  work?: SlotWork<T>,
): Promise<SlotResult<T>> {
  const [given, fn] = typeof options === "function" ? [{}, options] : [options, work];
  const checked = checkSlot(locks, name, given);
  if (!(slot instanceof Date) || Number.isNaN(slot.getTime())) {
    throw new ArgumentError(`Expected the scheduled time as a date, got ${got(slot)}`);
  }
  if (typeof fn !== "function") throw new ArgumentError(`Expected a function for the slot, got ${got(fn)}`);
  return thrown(await settle(locks, name, new Date(slot), checked, fn));
}

/** The job's function has failed. Unless `onFailure` says otherwise, the slot is done. */
export interface Failed {
  readonly ran: "failed";
  readonly slot: Date;
  readonly error: unknown;
}

export function thrown<T>(settled: SlotResult<T> | Failed): SlotResult<T> {
  if (settled.ran === "failed") throw settled.error;
  return settled;
}

/** `ended`: called under the job's lease when its function has ended, and before the slot is kept. Rejects where the slot is not settled. */
export async function settle<T>(
  locks: Locks,
  name: string,
  slot: Date,
  options: CheckedSlot,
  work: SlotWork<T>,
  ended?: () => Promise<void>,
): Promise<SlotResult<T> | Failed> {
  const { lock, overlap, wait, keepMs, onFailure, signal } = options;
  const shown = { ...lock, meta: { ...lock.meta, slot: slot.toISOString() } };
  let came: { readonly value: T } | undefined;
  let failed: { readonly error: unknown } | undefined;

  const begin = async (own: Lease, job: Lease): Promise<void> => {
    const held = own === job ? own.signal : AbortSignal.any([own.signal, job.signal]);
    const run: SlotRun = {
      slot: new Date(slot),
      signal: held,
      fence: job.fence,
      assertHeld: () => {
        own.assertHeld();
        job.assertHeld();
      },
    };
    try {
      came = { value: await work(run) };
    } catch (error) {
      // What was cut off is not done: another process takes it over.
      if (held.aborted || onFailure === "retry") throw error;
      failed = { error };
    }
    await ended?.();
  };

  let lost: { readonly error: unknown } | undefined;
  const underJob = async (own: Lease): Promise<Kept> => {
    try {
      if (overlap === "allow") await begin(own, own);
      else {
        const ending = signal === undefined ? own.signal : AbortSignal.any([own.signal, signal]);
        await takeJob(locks, name, overlap, { ...shown, signal: ending }, slot, (job) => begin(own, job));
      }
    } catch (error) {
      // The work has ended, and only the job's lease was lost: the slot is done all the same.
      if (came === undefined && failed === undefined) throw error;
      lost = { error };
    }
    return failed === undefined ? "done" : "failed";
  };

  try {
    const once = { ...shown, wait, signal, keep: keepMs, codec: CODEC };
    const { value, replayed } = await locks.once<Kept>(slotName(name, slot), once, underJob);
    if (replayed) return { ran: false, slot, why: value };
  } catch (error) {
    // As run() does it, work that fails has its own error.
    if (failed !== undefined) throw failed.error;
    if (came !== undefined) throw error;
    if (error instanceof Overlap) return { ran: false, slot, why: "overlap" };
    if (isBusy(error, slotName(name, slot))) return { ran: false, slot, why: "running" };
    throw error;
  }
  if (failed !== undefined) return { ran: "failed", slot, error: failed.error };
  if (lost !== undefined) throw lost.error;
  return { ran: true, slot, value: came!.value };
}

type JobLock = CheckedSlot["lock"] & { readonly signal: AbortSignal };

async function takeJob(
  locks: Locks,
  name: string,
  overlap: "skip" | "queue",
  lock: JobLock,
  slot: Date,
  begin: (job: Lease) => Promise<void>,
): Promise<void> {
  if (overlap === "skip") {
    const turn = await locks.tryRun(jobName(name), lock, begin);
    if (turn.ran) return;
    // Its own slot holds the job: of a process that has died or lost the slot, and that is over soon.
    const another = turn.heldBy.find(({ meta }) => meta["slot"] !== slot.toISOString());
    if (another !== undefined) throw new Overlap();
  }
  await locks.run(jobName(name), { ...lock, wait: Infinity }, begin);
}

/** The slot's own lock was busy until `wait` was over: no error of the job's function, which may use locks, too. */
function isBusy(error: unknown, lock: string): boolean {
  const { code, lock: of } = (error ?? {}) as { readonly code?: unknown; readonly lock?: unknown };
  return error instanceof Error && code === "ERR_LOCK_TIMEOUT" && of === lock;
}
