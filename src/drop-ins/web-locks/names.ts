/**
 * The names of the standard are any sequence of UTF-16 units; those of Holdfast are well-formed, not empty, and at most 1 KiB of UTF-8.
 * Nearly every name stays as it is, so that `request("a")` and `locks.run("a")` exclude each other. Only what Holdfast cannot take, and the
 * backslash, is escaped: no two names become one.
 */
import { domError } from "./dom-error.ts";

const NAME_BYTES_MAX = 1024;
const EMPTY = "\\e";
const ESCAPED = /\\|\p{Surrogate}/gu;
const WRITTEN = /\\(?:(\\)|u(d[89a-f][0-9a-f]{2}))/gy;

/** Throws a NotSupportedError where the name is too long. */
export function toLockName(name: string): string {
  const escaped = name === "" ? EMPTY : name.replace(ESCAPED, escape);
  const bytes = Buffer.byteLength(escaped);
  if (bytes <= NAME_BYTES_MAX) return escaped;
  throw domError("NotSupportedError", `The name is ${bytes} bytes of UTF-8: at most ${NAME_BYTES_MAX} are supported`);
}

function escape(unit: string): string {
  return unit === "\\" ? "\\\\" : `\\u${unit.charCodeAt(0).toString(16)}`;
}

/** `undefined`: no name of the standard becomes that, so that no request can be for it. */
export function fromLockName(name: string): string | undefined {
  if (!name.includes("\\")) return name;
  if (name === EMPTY) return "";
  let read = "";
  let from = 0;
  for (let at = name.indexOf("\\"); at >= 0; at = name.indexOf("\\", from)) {
    WRITTEN.lastIndex = at;
    const [all, backslash, unit] = WRITTEN.exec(name) ?? [];
    if (all === undefined) return undefined;
    read += name.slice(from, at) + (backslash ?? String.fromCharCode(Number.parseInt(unit as string, 16)));
    from = at + all.length;
  }
  read += name.slice(from);
  // Two surrogates that were written one by one, and are a pair: that pair is written as it is.
  return toLockName(read) === name ? read : undefined;
}
