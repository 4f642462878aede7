/** Ends a lease of ours by its fence. One of another library has none, and is left to that library. */
import type { Connection } from "../redis/connection.ts";
import { FORCED_MS, forceText } from "../redis/layouts/notes.ts";
import { runScript } from "../redis/scripts.ts";
import { errors } from "./errors.ts";
import { force } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";

export async function forceRelease(
  connection: Connection,
  names: Names,
  { name, fence }: { readonly name: string; readonly fence: bigint },
  by: string,
  reason: string,
): Promise<boolean> {
  const keys = names.of(name);
  if (fence === 0n) {
    throw errors.refusal(
      name,
      `a lease of another library has no fence, so Holdfast does not end it: its holder would not notice. Stop that holder first; then, if the key is still there, run DEL ${JSON.stringify(names.full(keys.lock))}`,
    );
  }
  const breaks = connection.breaks();
  const args = [String(fence), forceText(by, reason), String(FORCED_MS), name];
  if ((await runScript(connection, force, [keys.lock, keys.notes], args)) === 1) return true;
  if (connection.breaks() === breaks) return false;
  // The client library may have sent it twice, and "no" may follow a "yes" that was lost.
  throw errors.unknown(name, "the connection ended during the force-release. Query the lock, or try again");
}
