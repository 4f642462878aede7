/** Runs scripts by their SHA1, and by their text where the server does not know them (yet, or any more). */
import type { Connection } from "./connection.ts";
import type { Script } from "./generated/scripts.ts";

/** Runs the script. Rejects as the client library does. */
export function runScript(
  connection: Connection,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  // A plain `.catch` and no `async`: this is the hot path, and a frame per call would show.
  return connection.evalsha(script.sha, keys, args).catch((error: unknown) => {
    if (!isNoScript(error)) throw error;
    return connection.eval(script.source, keys, args);
  });
}

/** A slot is half-way moved, and this call's keys are on both sides: each alone can be asked for. */
export function isTryAgain(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("TRYAGAIN");
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}
