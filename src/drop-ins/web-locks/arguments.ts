/** What request() is given, converted and checked as the standard says: in its order, and with its errors. */
import type { WebLockCallback, WebLockMode } from "./api.ts";
import { domError } from "./dom-error.ts";

export interface Asked {
  readonly name: string;
  readonly mode: WebLockMode;
  readonly ifAvailable: boolean;
  readonly steal: boolean;
  readonly signal: AbortSignal | undefined;
  readonly callback: WebLockCallback<unknown>;
}

interface Options extends Pick<Asked, "ifAvailable" | "steal" | "signal"> {
  readonly mode: string;
}

const DEFAULTS: Options = { ifAvailable: false, mode: "exclusive", signal: undefined, steal: false };

/** Throws what the request is rejected with: a TypeError, a NotSupportedError, the reason of a signal, or what a conversion threw. */
export function readArguments(given: readonly unknown[]): Asked {
  if (given.length < 2) throw new TypeError(`2 arguments required, but only ${given.length} present`);
  const name = toText(given[0], "name");
  const options = given.length === 2 ? DEFAULTS : readOptions(given[1]);
  const callback = given[given.length === 2 ? 1 : 2];
  if (typeof callback !== "function") throw new TypeError("The callback is not a function");
  const { ifAvailable, steal, signal } = options;
  if (name.startsWith("-")) throw notSupported("Names that begin with '-' are reserved");
  if (steal && ifAvailable) throw notSupported("The steal and ifAvailable options cannot be used together");
  if (steal && options.mode !== "exclusive") throw notSupported("The steal option is for exclusive locks only");
  if (signal !== undefined && (steal || ifAvailable))
    throw notSupported("The signal option cannot be used together with steal or ifAvailable");
  if (signal?.aborted === true) throw signal.reason;
  return { ...options, name, mode: options.mode as WebLockMode, callback: callback as WebLockCallback<unknown> };
}

/** As Web IDL converts a dictionary: its members in the order of their names, each read once. */
function readOptions(given: unknown): Options {
  if (given === undefined || given === null) return DEFAULTS;
  if (typeof given !== "object" && typeof given !== "function") throw new TypeError("The options are not an object");
  const options = given as Readonly<Record<string, unknown>>;
  const ifAvailable = Boolean(options["ifAvailable"]);
  const mode = readMode(options["mode"]);
  const signal = readSignal(options["signal"]);
  return { ifAvailable, mode, signal, steal: Boolean(options["steal"]) };
}

function readMode(given: unknown): string {
  if (given === undefined) return DEFAULTS.mode;
  const mode = toText(given, "mode");
  if (mode === "exclusive" || mode === "shared") return mode;
  throw new TypeError(`The mode ${JSON.stringify(mode)} is neither "exclusive" nor "shared"`);
}

function readSignal(given: unknown): AbortSignal | undefined {
  if (given === undefined) return undefined;
  if (isSignal(given)) return given;
  throw new TypeError("The signal is not an AbortSignal");
}

/** The getter of the prototype knows a real one, whatever that object says of itself. */
function isSignal(given: unknown): given is AbortSignal {
  try {
    if (typeof given !== "object" || given === null) return false;
    return typeof Reflect.get(AbortSignal.prototype, "aborted", given) === "boolean";
  } catch {
    return false;
  }
}

function toText(given: unknown, what: string): string {
  // String() would name a symbol.
  if (typeof given === "symbol") throw new TypeError(`The ${what} is a symbol, which is no string`);
  return String(given);
}

function notSupported(message: string): DOMException {
  return domError("NotSupportedError", message);
}
