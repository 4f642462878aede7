/** Runs scripts by their SHA1, and by their text where the server does not know them (yet, or any more). */
import type { Connection } from "./connection.ts";

export interface Script {
  readonly name: string;
  readonly sha: string;
  readonly source: string;
}

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

/** Runs the script, then waits on the same connection until `replicas` have what it wrote; tells how many had in time. */
export async function runReplicated(
  connection: Connection,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  replicas: number,
  waitMs: number,
): Promise<{ reply: unknown; replicas: number }> {
  try {
    return await connection.evalshaAndWait(script.sha, keys, args, replicas, waitMs);
  } catch (error) {
    if (!isNoScript(error)) throw error;
    await connection.command(keys[0], ["SCRIPT", "LOAD", script.source]);
    return await connection.evalshaAndWait(script.sha, keys, args, replicas, waitMs);
  }
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}
