/** Values in error messages: what the caller passed, so that he finds it in his code. */
import { clipped, printable } from "./foreign.ts";

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
