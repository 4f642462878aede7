/** The arguments of verbs that run a function. */
import { ArgumentError } from "../contract/argument-error.ts";
import type { Work } from "./api.ts";

/** The last two arguments of run() and its like: options may be left out. */
export function optionsAndWork<O extends object, T>(
  verb: string,
  optionsOrWork: O | Work<T>,
  maybeWork: Work<T> | undefined,
): readonly [O | undefined, Work<T>] {
  const isAlone = typeof optionsOrWork === "function";
  // The order of 0.1's elect(): its options would be lost without a word.
  if (isAlone && maybeWork !== undefined) {
    throw new ArgumentError(`Expected \`${verb}\` to get its options before the function`);
  }
  const [options, work] = isAlone ? [undefined, optionsOrWork] : [optionsOrWork, maybeWork];
  if (typeof work === "function") return [options, work];
  throw new ArgumentError(`Expected \`${verb}\` to get a function as its last argument`);
}
