/** A drop-in for redlock 5: its names over the same keys, or over Holdfast's own. */
export { Lock, Redlock, Redlock as default } from "./redlock.ts";
export { ExecutionError, ResourceLockedError } from "./errors.ts";
export type {
  Client,
  ClientExecutionResult,
  CustomScripts,
  ExecutionResult,
  ExecutionStats,
  RedlockAbortSignal,
  RedlockOptions,
  Settings,
} from "./api.ts";
