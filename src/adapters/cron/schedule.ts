/** When a job is due, as schedules of different kinds say it: each gives the last slot before a time, and all else follows from that. */
import { ArgumentError, got } from "../../contract/argument-error.ts";

export interface Schedule {
  /** The last slot strictly before that time. `undefined`: there is none. */
  previous(before: Date): Date | undefined;
}

/** The slot that is due at this time: the last one that is not after it. A timer that is late by more than a slot is for the later one. */
export function slotAt(schedule: Schedule, now: Date): Date | undefined {
  return schedule.previous(new Date(now.getTime() + 1));
}

/** Slots from after `from` to `to`, of which the newest `most`, in order. */
export function slotsBetween(schedule: Schedule, from: number, to: Date, most: number): readonly Date[] {
  const found: Date[] = [];
  let slot = slotAt(schedule, to);
  while (slot !== undefined && slot.getTime() > from && found.length < most) {
    found.push(slot);
    slot = schedule.previous(slot);
  }
  return found.toReversed();
}

/** Multiples of the interval since 1970, by UTC, so that all processes have the same. */
export function everyMs(intervalMs: number): Schedule {
  return {
    previous: (before) => {
      const count = Math.ceil(before.getTime() / intervalMs) - 1;
      return new Date(count * intervalMs);
    },
  };
}

/** A job of croner, as far as it is used. Not by its class: an app has that twice, by import and by require(). */
export interface CronerJob {
  previousRuns(count: number, reference?: Date): Date[];
  schedule(work: () => Promise<void>): unknown;
}

/** Its times are whole seconds, and a slot in the second of the reference is not before it. */
export function cronerSchedule(job: Pick<CronerJob, "previousRuns">): Schedule {
  return {
    previous: (before) => {
      const [slot] = job.previousRuns(1, new Date(Math.ceil(before.getTime() / 1000) * 1000));
      return slot;
    },
  };
}

/** A time of luxon, which the package `cron` uses. */
interface ZonedTime {
  /** From UTC, in minutes. */
  readonly offset: number;
  toMillis(): number;
  minus(duration: { readonly milliseconds: number }): ZonedTime;
}

/** Of what `CronTime` of the package `cron` can do: @nestjs/schedule uses it. */
export interface CronTimeLike {
  readonly realDate: boolean;
  readonly source: unknown;
  sendAt(): ZonedTime;
  getNextDateFrom(start: ZonedTime): ZonedTime;
}

/** It only knows the next slot after a time: so from a time long enough before. What has no slot in all of these has none. */
const LOOK_BACK_MS = [2000, 60_000, 3_600_000, 86_400_000, 32 * 86_400_000, 366 * 86_400_000, 8 * 366 * 86_400_000];
/** Its slots are whole seconds. */
const SLOT_MIN_MS = 1000;
/** From before any clock is put back until after that. */
const CLOCK_CHANGE_MS = 5 * 3_600_000;
const MINUTE_MS = 60_000;

type Next = (ms: number) => number;

export function cronTimeSchedule(time: CronTimeLike): Schedule {
  if (time.realDate) {
    const ms = (time.source as ZonedTime).toMillis();
    return { previous: (before) => (ms < before.getTime() ? new Date(ms) : undefined) };
  }
  // In the time zone of the schedule, whichever that is.
  const zoned = time.sendAt();
  const at = (ms: number): ZonedTime => zoned.minus({ milliseconds: zoned.toMillis() - ms });
  const next: Next = (ms) => time.getNextDateFrom(at(ms)).toMillis();
  return {
    previous: (before) => {
      for (let end = before.getTime(); ;) {
        const low = lastStart(next, end);
        if (low === undefined) return undefined;
        const [near, from] = [next(low), low - CLOCK_CHANGE_MS];
        if (near > low && at(from).offset === at(near).offset) return new Date(near);
        // In an hour that comes twice, what is next depends on where one begins. All processes begin before it, and so find the same.
        let last: number | undefined;
        for (let slot = after(next, from); slot < end; slot = after(next, slot)) last = slot;
        if (last !== undefined) return new Date(last);
        end = from;
      }
    },
  };
}

/** The last time from which the next slot is before `end`. By halving: a schedule may have every second of a month, and none of all others. */
function lastStart(next: Next, end: number): number | undefined {
  const backMs = LOOK_BACK_MS.find((ms) => next(end - ms) < end);
  if (backMs === undefined) return undefined;
  let [low, high] = [end - backMs, end];
  while (high - low > SLOT_MIN_MS) {
    const middle = Math.floor((low + high) / 2);
    if (next(middle) < end) low = middle;
    else high = middle;
  }
  return low;
}

/** In some time zones, the slot that the package says is next is earlier, while the clock is being put back. That would never end. */
function after(next: Next, slot: number): number {
  for (let from = slot; from < slot + CLOCK_CHANGE_MS; from += MINUTE_MS) {
    const found = next(from);
    if (found > slot) return found;
  }
  return Infinity;
}

/** For schedules that are given by users of JavaScript. */
export function checkCroner(job: unknown): void {
  const { previousRuns, schedule, options } = (job ?? {}) as Partial<Record<string, unknown>>;
  if (typeof previousRuns !== "function" || typeof schedule !== "function") {
    throw new ArgumentError(`Expected a job of croner, as new Cron(pattern) makes it, got ${got(job)}`);
  }
  const { interval } = (options ?? {}) as { readonly interval?: unknown };
  if (typeof interval !== "number" || interval <= 0) return;
  throw new ArgumentError(
    `Expected a job of croner without \`interval\`, got ${got(interval)}: each process would have times of its own`,
  );
}
