/** Checks on what createLocks() is given, so that a wrong argument fails there and not at the first lock. */
import type { LocksOptions } from "./api.ts";
import type { Backend } from "./backend.ts";

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
  if (missing === undefined) return;
  throw new TypeError(
    `Expected \`backend\` to be a backend such as memory() or redis(client), got ${typeof backend} without ${missing}(). ` +
      "To open one by URL use connect(url).",
  );
}

export function checkCreateOptions(options: LocksOptions): void {
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`Expected \`defaults\` to be an object, got ${options === null ? "null" : typeof options}`);
  }
  for (const option in options)
    if (!OPTIONS.has(option)) throw new TypeError(`Unknown option \`${option}\` in \`defaults\``);
  const { holder } = options;
  if (holder !== undefined && (typeof holder !== "string" || holder === "" || holder.length > 200)) {
    throw new TypeError("Expected `holder` to be a text of 1 to 200 characters");
  }
}
