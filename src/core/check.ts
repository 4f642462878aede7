/** Checks on what people pass in, so that a wrong argument fails there and then, with a text that says what it was. */
import type { LocksOptions } from "./api.ts";
import type { Backend } from "../contract/backend.ts";
import { HOLDER_MAX, REASON_MAX } from "../contract/foreign.ts";
import { OPTIONS } from "./options.ts";
import { got } from "../contract/show-value.ts";

const VERBS = ["attempt", "renew", "release", "query", "forceRelease", "close"] as const;
/** Of createLocks() only: all others may be given to each call too. */
const OWN_OPTIONS = ["holder", "clock", "chance"];

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
    if (!OPTIONS.has(option) && !OWN_OPTIONS.includes(option))
      throw new TypeError(`Unknown option \`${option}\` in \`defaults\``);
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
