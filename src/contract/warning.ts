/** Warnings of the process, in one form: a type and a code to filter by, and the page of the code below the message. */
import { helpFor } from "./help.ts";

export type WarningCode =
  | "HOLDFAST_CLOSE"
  | "HOLDFAST_CONSOLE"
  | "HOLDFAST_EVEN_QUORUM"
  | "HOLDFAST_MAX_TTL"
  | "HOLDFAST_POSTGRES_POOLER"
  | "HOLDFAST_REMOTE_DIRECTORY"
  | "HOLDFAST_SEQUENCE"
  | "HOLDFAST_TELEMETRY"
  | "HOLDFAST_UNREADABLE_LOCK";

export function warn(code: WarningCode, message: string): void {
  process.emitWarning(message, { type: "HoldfastWarning", code, detail: `More: ${helpFor(code)}` });
}
