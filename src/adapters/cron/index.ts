/** Jobs that run once per slot, whichever process is first: with node-cron 4, croner 11, @nestjs/schedule, and plain timers. */
export { runSlot } from "./run-slot.ts";
export { runCoordinator } from "./node-cron.ts";
export { withCroner } from "./croner.ts";
export { everySlot } from "./timer.ts";
export { OncePerSlot, runMissed } from "./nest.ts";
export type { JobOptions, Missed, SlotOptions } from "./options.ts";
export type { SlotResult, SlotRun, SlotWork } from "./run-slot.ts";
export type { CoordinatorOptions, SlotCoordinator } from "./node-cron.ts";
export type { CronerJob } from "./schedule.ts";
export type { SlotTimer, TimerOptions } from "./timer.ts";
export type { OncePerSlotOptions } from "./nest.ts";
