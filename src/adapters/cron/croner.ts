/** croner 11: jobs of its own, which run once per slot. */
import type { Locks } from "../../core/api.ts";
import { assertSupported } from "../supported.ts";
import { Job } from "./job.ts";
import type { JobOptions } from "./options.ts";
import type { SlotResult, SlotWork } from "./run-slot.ts";
import { checkCroner, type CronerJob, cronerSchedule } from "./schedule.ts";

/**
 * Schedules `work` with a job of croner that has no function yet: `new Cron(pattern, options)`. Resolves to what came of slots that were
 * missed before. Errors of later slots are croner's: its option `catch` gets them.
 */
export async function withCroner<T>(
  locks: Locks,
  name: string,
  cron: CronerJob,
  options: JobOptions,
  work: SlotWork<T>,
): Promise<readonly SlotResult<T>[]> {
  assertSupported("croner", import.meta.url);
  checkCroner(cron);
  const job = new Job(locks, name, cronerSchedule(cron), options, work);
  cron.schedule(async () => {
    await job.due();
  });
  return await job.missed();
}
