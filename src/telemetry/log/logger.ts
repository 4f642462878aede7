/** Loggers by their structure: pino and its like take fields and then a message, winston one object, console a message and then fields. */
import { ArgumentError, got } from "../../contract/argument-error.ts";

export type Level = "info" | "warn" | "error";
export type Fields = Readonly<Record<string, unknown>>;

/** pino, winston, console, or anything with these three. */
export interface Logger {
  info(...args: never[]): unknown;
  warn(...args: never[]): unknown;
  error(...args: never[]): unknown;
}

/** What the logger returns, which may be a promise. */
export type Write = (level: Level, fields: Fields, message: string) => unknown;

const LEVELS: readonly Level[] = ["info", "warn", "error"];

/** How to write to it. */
export function writerFor(logger: Logger): Write {
  const isObject = (typeof logger === "object" && logger !== null) || typeof logger === "function";
  const missing = LEVELS.find((level) => !isObject || typeof logger[level] !== "function");
  if (missing !== undefined)
    throw new ArgumentError(
      `Expected \`logger\` to be pino, winston, console or their like, got ${got(logger)} without ${missing}()`,
    );
  const { transports, log } = logger as { readonly transports?: unknown; readonly log?: unknown };
  const call = (level: Level, ...args: readonly unknown[]): unknown =>
    (logger[level] as (...given: readonly unknown[]) => unknown).apply(logger, [...args]);
  if (Array.isArray(transports) && typeof log === "function")
    return (level, fields, message) => call(level, { ...fields, message });
  // Pino and its like have a method for each level, and no log().
  if (typeof log === "function") return (level, fields, message) => call(level, message, fields);
  return (level, fields, message) => call(level, fields, message);
}
