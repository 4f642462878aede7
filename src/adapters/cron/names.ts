/** The names of the locks of a job. */
import { checkName } from "../../core/options.ts";

/** Held while any slot of the job runs. */
export function jobName(name: string): string {
  return `cron:job:${name}`;
}

/** Held while the slot runs; what came of it is kept there. */
export function slotName(name: string, slot: Date): string {
  return `cron:slot:${slot.toISOString()}:${name}`;
}

/** One of the two places of the last slot that was done. */
export function lastName(name: string, place: number): string {
  return `cron:last:${place}:${name}`;
}

/** The longest of them must be a name: else that is known only when the first slot is due. */
export function checkJobName(name: string): void {
  checkName(slotName(name, new Date(0)));
}
