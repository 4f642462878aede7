/**
 * The machine's monotonic clock, which all processes and threads share. Node's `hrtime` is that clock. Those of Bun and Deno count from the beginning of the process or of the thread: what one of them writes down would mean another instant to
 * the next, and a lease that is held would look as if it had ended. So there the system itself is asked, once.
 */
import { createRequire } from "node:module";
import { ArgumentError } from "./argument-error.ts";
import { type Clock, systemClock } from "./clock.ts";

/** Of Linux, on 64 bits: seconds and nanoseconds. */
const CLOCK_MONOTONIC = 1;
const LIBRARIES = ["libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"];
/** A reading between two of ours that are so near to each other is as good as any. */
const NEAR_MS = 0.05;
const TRIES = 100;

interface Library {
  readonly symbols: { clock_gettime(clock: number, into: BigInt64Array): number };
  close(): void;
}

type Open = (library: string, symbols: object) => Library;

const runtime = process.versions as Readonly<Record<string, string | undefined>>;
let behindMs: number | undefined = runtime["bun"] === undefined && runtime["deno"] === undefined ? 0 : undefined;

/**
 * Milliseconds of the machine's monotonic clock: the same in all processes of this boot, and standing still while the machine
 * sleeps. A clock that was handed in cannot be compared between processes: its own time is the answer. Throws where there is none.
 */
export function machineMs(clock: Clock = systemClock): number {
  return clock === systemClock ? ownMs() + (behindMs ??= measure()) : clock.now();
}

function ownMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

function measure(): number {
  const library = openLibrary();
  try {
    const into = new BigInt64Array(2);
    let [found, nearestMs] = [0, Infinity];
    for (let tries = 0; tries < TRIES && nearestMs > NEAR_MS; tries++) {
      const beforeMs = ownMs();
      if (library.symbols.clock_gettime(CLOCK_MONOTONIC, into) !== 0) throw unavailable();
      const tookMs = ownMs() - beforeMs;
      if (tookMs >= nearestMs) continue;
      nearestMs = tookMs;
      const [seconds, nanoseconds] = into as unknown as readonly [bigint, bigint];
      found = Number(seconds * 1_000_000_000n + nanoseconds) / 1e6 - beforeMs - tookMs / 2;
    }
    return found;
  } finally {
    library.close();
  }
}

function openLibrary(): Library {
  let cause: unknown;
  if (process.platform !== "linux") throw unavailable();
  for (const name of LIBRARIES) {
    try {
      if (runtime["deno"] !== undefined) {
        const { dlopen } = (globalThis as unknown as { readonly Deno: { readonly dlopen: Open } }).Deno;
        return dlopen(name, { clock_gettime: { parameters: ["i32", "buffer"], result: "i32" } });
      }
      const { dlopen } = createRequire(import.meta.url)("bun:ffi") as { readonly dlopen: Open };
      return dlopen(name, { clock_gettime: { args: ["i32", "ptr"], returns: "i32" } });
    } catch (error) {
      cause ??= error;
    }
  }
  throw unavailable(cause);
}

function unavailable(cause?: unknown): ArgumentError {
  const message =
    "Expected a clock that all processes of this machine share, which file: and renewals from a thread need: Node has it, Bun and Deno only on Linux" +
    (runtime["deno"] === undefined ? "" : ", and Deno only with --allow-ffi");
  return Object.assign(new ArgumentError(message), cause === undefined ? {} : { cause });
}
