/** Where a store's URL comes from. One that holds a password can stay out of arguments and environments. */
import { ArgumentError } from "../contract/argument-error.ts";
import { closeSync, constants, openSync, readSync } from "node:fs";

type Environment = Readonly<Record<string, string | undefined>>;

const EMBEDDED = "file:";
/** A URL is short; whatever is longer is not the file that was meant. */
const FILE_BYTES_MAX = 8192;
/** How long the writer of the URL into a pipe may take. */
const WRITER_MS = 10_000;

/** `HOLDFAST_URL`, or without it the embedded store of this machine. Throws a `TypeError` when it is set and says nothing. */
export function defaultUrl(env: Environment): string {
  const text = env["HOLDFAST_URL"];
  if (text === undefined) return EMBEDDED;
  if (text.trim() === "") {
    throw new ArgumentError(
      "Expected HOLDFAST_URL to name a store, got an empty text. Unset it to use the embedded store of this machine, or set it to file: to say so.",
    );
  }
  return resolveUrl(text, env, "HOLDFAST_URL");
}

/** Reads `@env:NAME` and `@file:PATH`; any other text is the URL itself. `what` names it in errors, which repeat no value. */
export function resolveUrl(text: string, env: Environment, what: string): string {
  if (text.startsWith("@env:")) return fromVariable(text.slice("@env:".length), env, what);
  if (text.startsWith("@file:")) return fromFile(text.slice("@file:".length), what);
  if (text.startsWith("@")) throw new ArgumentError(`Expected ${what} to be a URL, @env:NAME or @file:PATH`);
  return text;
}

function fromVariable(name: string, env: Environment, what: string): string {
  // Not what every object has, such as `constructor`.
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  const url = value?.trim() ?? "";
  if (url === "" || url.startsWith("@")) {
    throw new ArgumentError(
      `Expected the variable ${JSON.stringify(name)}, which ${what} names, to hold a URL; it ${value === undefined ? "is not set" : "does not"}`,
    );
  }
  return url;
}

function fromFile(path: string, what: string): string {
  let text: string;
  try {
    text = startOf(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ArgumentError(`Expected ${what} to name a file that can be read, got ${JSON.stringify(path)} (${code})`);
  }
  const url = text.trim();
  if (url === "" || url.startsWith("@") || /[\s\0]/.test(url) || Buffer.byteLength(text) > FILE_BYTES_MAX) {
    throw new ArgumentError(
      `Expected the file ${JSON.stringify(path)}, which ${what} names, to hold one URL and nothing else`,
    );
  }
  return url;
}

/** As much as can be a URL, and a little more: neither a device nor a huge file is read to its end. */
function startOf(path: string): string {
  // A pipe without a writer is empty; otherwise opening it would wait for ever.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const endMs = performance.now() + WRITER_MS;
  try {
    const bytes = Buffer.alloc(FILE_BYTES_MAX + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read) {
      read = readSoon(fd, bytes.subarray(length), endMs);
    }
    return bytes.toString("utf8", 0, length);
  } finally {
    closeSync(fd);
  }
}

/** A pipe such as that of `--url-file <(command)` has a writer that may need a moment. */
function readSoon(fd: number, into: Buffer, endMs: number): number {
  for (;;) {
    try {
      return readSync(fd, into);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN" || performance.now() > endMs) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}
