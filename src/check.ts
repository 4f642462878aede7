/** Checks on what people pass in, so that a wrong argument fails there and then, with a text that says what it was. */
import type { LocksOptions } from "./api.ts";
import type { Backend } from "./backend.ts";
import { clipped, HOLDER_MAX, printable, REASON_MAX } from "./foreign.ts";

const VERBS = ["attempt", "renew", "release", "query", "forceRelease", "close"] as const;
const OPTIONS = new Set([
  "ttl",
  "wait",
  "signal",
  "mode",
  "limit",
  "renew",
  "maxHold",
  "minHold",
  "lockDelay",
  "meta",
  "holder",
  "clock",
  "chance",
]);

export function checkBackend(backend: unknown): asserts backend is Backend {
  const isObject = typeof backend === "object" && backend !== null;
  const missing = VERBS.find((verb) => !isObject || typeof (backend as Record<string, unknown>)[verb] !== "function");
  if (missing === undefined && typeof (backend as Backend).name === "string") return;
  throw new TypeError(
    `Expected \`backend\` to be a backend such as memory() or redis(client), got ${got(backend)} without ${missing === undefined ? "a name" : `${missing}()`}. ` +
      "To open one by URL use connect(url).",
  );
}

export function checkCreateOptions(options: LocksOptions): void {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`Expected \`defaults\` to be an object, got ${got(options)}`);
  }
  for (const option in options)
    if (!OPTIONS.has(option)) throw new TypeError(`Unknown option \`${option}\` in \`defaults\``);
  const { holder } = options;
  if (holder !== undefined && (typeof holder !== "string" || holder === "" || holder.length > HOLDER_MAX)) {
    throw new TypeError(`Expected \`holder\` to be a text of 1 to ${HOLDER_MAX} characters, got ${got(holder)}`);
  }
}

/** Why a lease is ended by force: kept in the store for whoever asks, so it says something, and not a novel. */
export function checkReason(reason: unknown): asserts reason is string {
  if (typeof reason !== "string" || reason.trim() === "" || reason.length > REASON_MAX) {
    throw new TypeError(
      `Expected \`reason\` to be a text of 1 to ${REASON_MAX} characters that is not blank, got ${got(reason)}`,
    );
  }
}

/** A value for an error message, such that `"3"` and 3, and null and an object, are told apart. */
export function got(value: unknown): string {
  if (typeof value === "string") {
    return printable(JSON.stringify(clipped(value, 40))) + (value.length > 40 ? ` (${value.length} characters)` : "");
  }
  if (Array.isArray(value)) return "an array";
  return value !== null && /object|function/.test(typeof value)
    ? `${typeof value === "object" ? "an" : "a"} ${typeof value}`
    : String(value);
}
