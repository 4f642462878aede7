/**
 * What a decorated method's lock is called. A template names arguments by their index, because the names of parameters do not outlive a
 * minifier. A value that is missing is an error: all calls without one would share one lock, or, with once(), one outcome.
 */
import { ArgumentError, got } from "../../contract/argument-error.ts";

/** `"order:{0.id}"`, or a function of the same arguments as the method, and of the same `this`. */
export type LockKey<A extends readonly unknown[]> = string | ((...args: A) => string);

export type Namer = (self: unknown, args: readonly unknown[]) => string;

interface Place {
  /** As it is written: `{0.id}`. */
  readonly text: string;
  readonly index: number;
  readonly path: readonly string[];
  /** What is between it and the next one. Absent: it is the last one. */
  readonly separator: string | undefined;
}

const PLACE = /\{([^{}]*)\}/g;
const CONTENT = /^(?:0|[1-9]\d?)(?:\.[\w$]+)*$/;
/** What a function makes of a value that is missing. */
const MISSING = /(?<![\p{L}\p{N}_])(?:undefined|null|NaN|\[object [\w ]+\])(?![\p{L}\p{N}_])/u;

/** `where`: the decorator as the user wrote it, for errors. Throws where the key is wrong for every call. */
export function namerOf(key: unknown, where: string): Namer {
  if (typeof key === "function") return (self, args) => checkMade(Reflect.apply(key, self, args), where);
  if (typeof key !== "string" || key === "") {
    throw new ArgumentError(
      `Expected ${where} to get a template such as "order:{0.id}" or a function, got ${got(key)}`,
    );
  }
  const places = placesIn(key, where);
  const [start = ""] = key.split("{", 1);
  const end = key.slice(key.lastIndexOf("}") + 1);
  if (places.length === 0) return () => key;
  return (_self, args) =>
    start + places.map((place) => textOf(place, args, where) + (place.separator ?? "")).join("") + end;
}

function placesIn(template: string, where: string): readonly Place[] {
  const found = [...template.matchAll(PLACE)];
  if (/[{}]/.test(template.replaceAll(PLACE, "")))
    throw new ArgumentError(`Expected the braces in ${where} to be pairs; for a name with braces give a function`);
  return found.map(({ 0: text, 1: content = "", index }, at) => {
    if (!CONTENT.test(content)) {
      throw new ArgumentError(
        `Expected ${text} in ${where} to begin with the index of an argument, as {0} or {0.id}: names of parameters do not outlive a minifier`,
      );
    }
    const [first, ...path] = content.split(".");
    const next = found[at + 1];
    const separator = next === undefined ? undefined : template.slice(index + text.length, next.index);
    if (separator === "") {
      throw new ArgumentError(`Expected text between ${text} and ${next?.[0]} in ${where}: 1 and 23 would be 12 and 3`);
    }
    return { text, index: Number(first), path, separator };
  });
}

function textOf({ text, index, path, separator }: Place, args: readonly unknown[], where: string): string {
  let value = args[index];
  let shown = `{${index}`;
  for (const part of path) {
    if (value === undefined || value === null) throw missing(`${shown}}`, value, where);
    value = (value as Readonly<Record<string, unknown>>)[part];
    shown += `.${part}`;
  }
  const isText = typeof value === "string" && value !== "";
  const isNumber = (typeof value === "number" && Number.isFinite(value)) || typeof value === "bigint";
  if (!isText && !isNumber && typeof value !== "boolean") throw missing(text, value, where);
  const made = String(value);
  // Else two different calls could have one name, and one would get the outcome of the other.
  if (separator !== undefined && `${made}${separator}`.indexOf(separator) < made.length) {
    throw new ArgumentError(
      `Expected ${text} in ${where} not to contain ${got(separator)}, which separates it from the next one, got ${got(made)}`,
    );
  }
  return made;
}

function missing(place: string, value: unknown, where: string): ArgumentError {
  return new ArgumentError(
    `Expected ${place} in ${where} to be a text that is not empty, a number or a boolean, got ${got(value)}`,
  );
}

function checkMade(name: unknown, where: string): string {
  if (typeof name !== "string" || name === "")
    throw new ArgumentError(`Expected the function of ${where} to return a text that is not empty, got ${got(name)}`);
  const [part] = MISSING.exec(name) ?? [];
  if (part === undefined) return name;
  throw new ArgumentError(
    `Expected the function of ${where} to name a lock, got ${got(name)}: "${part}" stands where a value is missing`,
  );
}
