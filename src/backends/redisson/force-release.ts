/** Ends a lease by its fence: one of ours, or any holder of a fenced lock. Other holders in Java have no fence, and are left to Java. */
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
  const { lock, notes, token, start, channel } = names.of(name);
  if (fence === 0n && token === undefined) {
    throw errors.refusal(
      name,
      "only an RFencedLock of Redisson gives its holders fences, so Holdfast does not end it: its holder would not notice. Stop that holder first; then, if the lock is still taken, call forceUnlock() in Java",
    );
  }
  const breaks = connection.breaks();
  const sharded = connection.topology === "cluster" ? "1" : "0";
  const args = [String(fence), forceText(by, reason), String(FORCED_MS), name, start, channel, sharded];
  const keys = token === undefined ? [lock, notes] : [lock, notes, token];
  if ((await runScript(connection, force, keys, args)) === 1) return true;
  if (connection.breaks() === breaks) return false;
  // The client library may have sent it twice, and "no" may follow a "yes" that was lost.
  throw errors.unknown(name, "the connection ended during the force-release. Query the lock, or try again");
}
