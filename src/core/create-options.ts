/** What createLocks() is given, checked: a backend, and the options that hold for every call; and what that backend can do of them. */
import { ArgumentError, got } from "../contract/argument-error.ts";
import type { Backend } from "../contract/backend.ts";
import { declined } from "../contract/declined.ts";
import { HOLDER_MAX } from "../contract/foreign.ts";
import type { LocksOptions } from "./api.ts";
import { type CheckedOptions, OPTIONS } from "./options.ts";

const VERBS = ["attempt", "renew", "release", "query", "inspect", "forceRelease", "close"] as const;
/** Of createLocks() only: all others may be given to each call too. */
const OWN_OPTIONS = ["holder", "clock", "chance"];

export function checkBackend(backend: unknown): asserts backend is Backend {
  const isObject = typeof backend === "object" && backend !== null;
  const missing = VERBS.find((verb) => !isObject || typeof (backend as Record<string, unknown>)[verb] !== "function");
  if (missing === undefined && typeof (backend as Backend).name === "string") return;
  throw new ArgumentError(
    `Expected \`backend\` to be a backend such as memory() or redis(client), got ${got(backend)} without ${missing === undefined ? "a name" : `${missing}()`}. ` +
      "To open one by URL use connect(url).",
  );
}

export function checkCreateOptions(options: LocksOptions): void {
  if (typeof options !== "object" || options === null) {
    throw new ArgumentError(`Expected \`defaults\` to be an object, got ${got(options)}`);
  }
  for (const option in options)
    if (!OPTIONS.has(option) && !OWN_OPTIONS.includes(option))
      throw new ArgumentError(`Unknown option \`${option}\` in \`defaults\``);
  checkWho("holder", options.holder);
}

/** A holder, or who ends a lease by force. */
export function checkWho(option: "holder" | "by", who: unknown): void {
  if (who !== undefined && (typeof who !== "string" || who === "" || who.length > HOLDER_MAX)) {
    throw new ArgumentError(`Expected \`${option}\` to be a text of 1 to ${HOLDER_MAX} characters, got ${got(who)}`);
  }
}

/** Throws where they ask for what the backend cannot do: it is refused, and not ignored. */
export function possible(checked: CheckedOptions, { name, can = {} }: Backend): CheckedOptions {
  if (checked.deadlock === "reject" && can.waiters !== true) throw declined(name, can, "waiters", "");
  return lingerable(checked, { name, can });
}

/** The same for those who never wait, and so are in no deadlock. */
export function lingerable(checked: CheckedOptions, { name, can = {} }: Pick<Backend, "name" | "can">): CheckedOptions {
  if (checked.lingerMs > 0 && can.linger !== true) throw declined(name, can, "linger", "");
  return checked;
}
