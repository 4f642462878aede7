/** Plain timers: a job that is due at every multiple of an interval. */
import { ArgumentError, got } from "../../contract/argument-error.ts";
import { type Duration, toMs } from "../../contract/duration.ts";
import type { Locks } from "../../core/api.ts";
import { onAbort } from "../../contract/on-abort.ts";
import { Job } from "./job.ts";
import type { JobOptions } from "./options.ts";
import type { SlotWork } from "./run-slot.ts";
import { everyMs } from "./schedule.ts";

export interface TimerOptions extends JobOptions {
  /** The job is due at all multiples of this since 1970, by UTC: 1 s to a year. */
  readonly every: Duration;
  /** Gets what the job's function has thrown, lost slots, and errors of the store: there is no other place for them. */
  readonly onError: (error: unknown) => void;
}

export interface SlotTimer {
  /** No slot begins any more. Resolves when what runs has ended. */
  stop(): Promise<void>;
}

const EVERY_MIN_MS = 1000;
const EVERY_MAX_MS = 366 * 86_400_000;
/** The clock is looked at again at least this often: it may be set, and a machine may sleep. */
const TIMER_MAX_MS = 60_000;

/** Runs `work` once per slot. The process stays alive until it is stopped. */
export function everySlot<T>(locks: Locks, name: string, options: TimerOptions, work: SlotWork<T>): SlotTimer {
  const { every, onError, signal, ...rest } = options;
  const intervalMs = toMs(every, "every", { minMs: EVERY_MIN_MS, maxMs: EVERY_MAX_MS });
  if (typeof onError !== "function") {
    throw new ArgumentError(`Expected \`onError\` to be a function, got ${got(onError)}`);
  }
  const stopping = new AbortController();
  const job = new Job(locks, name, everyMs(intervalMs), { ...rest, signal: stopping.signal }, work);
  const running = new Set<Promise<void>>();
  let timer: NodeJS.Timeout | undefined;

  const run = (begin: () => Promise<unknown>): void => {
    const ended = begin().then(
      () => undefined,
      (error: unknown) => {
        // What was waited for when it was stopped is no error.
        if (!stopping.signal.aborted || error !== stopping.signal.reason) onError(error);
      },
    );
    running.add(ended);
    void ended.finally(() => running.delete(ended));
  };

  const nextAfter = (now: number): number => (Math.floor(now / intervalMs) + 1) * intervalMs;
  const arm = (slotMs: number): void => {
    timer = setTimeout(
      () => {
        const now = Date.now();
        // A clock that was early, and was set back, has slots before that one.
        if (now < slotMs) return arm(nextAfter(now));
        arm(nextAfter(now));
        return run(() => job.due());
      },
      Math.min(Math.max(slotMs - Date.now(), 0), TIMER_MAX_MS),
    );
  };

  let unlisten = (): void => undefined;
  const stop = async (): Promise<void> => {
    unlisten();
    clearTimeout(timer);
    stopping.abort();
    await Promise.all(running);
  };
  unlisten = onAbort(signal, () => void stop());
  // By a signal that has aborted before.
  if (stopping.signal.aborted) return { stop };
  arm(nextAfter(Date.now()));
  run(() => job.missed());
  return { stop };
}
