/**
 * A wrong argument, option or URL: a `TypeError` that says what was expected. Its `code` tells it from a `TypeError` that is a
 * fault of the program, so nothing has to read the message.
 */
import { clipped, printable } from "./foreign.ts";
import { helpFor } from "./help.ts";

const CODE = "ERR_LOCK_ARGUMENT";

export class ArgumentError extends TypeError {
  readonly code: typeof CODE = CODE;
  /** The page that explains the code. */
  readonly help: string = helpFor(CODE);
}

/** By the code, since the error may come from another copy of the library. */
export function isArgumentError(error: unknown): boolean {
  return error instanceof TypeError && (error as Partial<ArgumentError>).code === CODE;
}

/** A value for an error message, such that `"3"` and 3, and null and an object, differ. */
export function got(value: unknown): string {
  if (typeof value === "string") {
    return printable(JSON.stringify(clipped(value, 40))) + (value.length > 40 ? ` (${value.length} characters)` : "");
  }
  if (Array.isArray(value)) return "an array";
  return value !== null && /object|function/.test(typeof value)
    ? `${typeof value === "object" ? "an" : "a"} ${typeof value}`
    : String(value);
}
