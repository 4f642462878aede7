/** BullMQ 6: processors whose jobs hold locks, one at a time for each key, or a few. */
import { assertSupported } from "../supported.ts";

export { lockedProcessor } from "./locked-processor.ts";
export type { LockedWork, WorkerProcessor } from "./locked-processor.ts";
export type { LockedProcessorOptions } from "./options.ts";

assertSupported("bullmq", import.meta.url);
