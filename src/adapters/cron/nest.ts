/** @nestjs/schedule: a decorator for the methods of `@Cron()`. It takes the schedule from that, so that the slot is the scheduled time. */
import { createRequire } from "node:module";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import type { Locks } from "../../core/api.ts";
import { assertSupported } from "../supported.ts";
import { Job } from "./job.ts";
import type { JobOptions } from "./options.ts";
import type { SlotResult, SlotRun } from "./run-slot.ts";
import { cronTimeSchedule, type CronTimeLike, type Schedule } from "./schedule.ts";

export interface OncePerSlotOptions<S> extends JobOptions {
  /** The job's name, the same in all processes. */
  readonly name: string;
  /** Where the locks are: in a property of the service, for example. */
  readonly locks: (service: S) => Locks;
}

/** A method of a service under `@Cron()`, which gets the run of its slot. */
type Method<S> = (this: S, run: SlotRun) => unknown;

/** What `@Cron()` of @nestjs/schedule keeps at the method. */
interface CronMetadata {
  readonly cronTime: unknown;
  readonly timeZone?: string | null;
  readonly utcOffset?: number | null;
}

interface CronPackage {
  readonly CronTime: new (source: unknown, timeZone?: string | null, utcOffset?: number | null) => CronTimeLike;
}

type JobOf = (service: object) => Job<unknown>;
const jobs = new WeakMap<object, JobOf>();

/**
 * Write it under `@Cron()`, next to the method, which then gets a {@link SlotRun}. A call by hand counts for the last slot: it runs where
 * that was not done.
 */
export function OncePerSlot<S extends object>(
  options: OncePerSlotOptions<S>,
): (target: object, key: string | symbol, descriptor: PropertyDescriptor) => void {
  assertSupported("@nestjs/schedule", import.meta.url);
  const { name, locks, ...rest } = options;
  if (typeof locks !== "function") {
    throw new ArgumentError(`Expected \`locks\` to be a function that gives the locks of a service, got ${got(locks)}`);
  }
  return (_target, key, descriptor) => {
    const method = descriptor.value as Method<S>;
    if (typeof method !== "function") throw new ArgumentError("Expected @OncePerSlot() to be at a method");
    // One for each instance: several applications may be in one process.
    const known = new WeakMap<object, Job<unknown>>();
    const jobOf: JobOf = (service) => {
      const job =
        known.get(service) ??
        new Job(locks(service as S), name, scheduleOf(ours, String(key)), rest, (run) =>
          method.call(service as S, run),
        );
      known.set(service, job);
      return job;
    };
    const ours = async function (this: object): Promise<SlotResult<unknown>> {
      return await jobOf(this).due();
    };
    Object.defineProperty(ours, "name", { value: method.name });
    jobs.set(ours, jobOf);
    descriptor.value = ours;
  };
}

/** Runs the slots of a method under `@OncePerSlot()` that were missed: for `onApplicationBootstrap()`. */
export async function runMissed(service: object, method: string): Promise<readonly SlotResult<unknown>[]> {
  const fn = (service as Readonly<Record<string, unknown>>)[method];
  const jobOf = typeof fn === "function" ? jobs.get(fn) : undefined;
  if (jobOf === undefined)
    throw new ArgumentError(`Expected the name of a method under @OncePerSlot(), got ${got(method)}`);
  return await jobOf(service).missed();
}

function scheduleOf(method: object, key: string): Schedule {
  const { getMetadata } = Reflect as { readonly getMetadata?: (name: string, target: object) => unknown };
  const cron = getMetadata?.("SCHEDULE_CRON_OPTIONS", method) as CronMetadata | undefined;
  if (cron === undefined) {
    throw new ArgumentError(`Expected ${key}() to have @Cron() of @nestjs/schedule, above @OncePerSlot()`);
  }
  const { CronTime } = cronPackage();
  const { cronTime, timeZone, utcOffset } = cron;
  return cronTimeSchedule(
    typeof utcOffset === "number"
      ? new CronTime(cronTime, null, utcOffset)
      : new CronTime(cronTime, timeZone ?? undefined),
  );
}

/** The package `cron` that @nestjs/schedule itself uses: it is a dependency of that one, not of ours. */
function cronPackage(): CronPackage {
  const here = createRequire(import.meta.url);
  return createRequire(here.resolve("@nestjs/schedule"))("cron") as CronPackage;
}
