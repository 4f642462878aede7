/** Removes an outcome, on behalf of any process: by the fence of its lease, so a later one is never hit. */
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Connection } from "./connection.ts";
import { forget } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { toCount } from "./replies.ts";
import { runScript, type Scripts } from "./scripts.ts";
import { fenceText, isFence } from "./wire.ts";

/** Resolves to `false` if the lock has no outcome of the lease with that fence. */
export async function forgetOutcome(
  connection: Connection,
  names: Names,
  scripts: Scripts,
  name: string,
  fence: bigint,
): Promise<boolean> {
  if (!isFence(Number(fence))) return false;
  const breaks = connection.breaks();
  const asked = runScript(connection, forget, [names.lock(name)], [fenceText(fence)]);
  const reply = await asked.catch(scripts.explained(name));
  const was = toCount(reply) === 1;
  if (was || connection.breaks() === breaks) return was;
  // As with a release: the client library may have sent it twice, and "no" may follow a "yes" that was lost.
  const text =
    "the connection ended while its outcome was removed, and now there is none of that lease. Either the first of two requests removed it, or there was none before. Inspect the lock, or try again";
  throw new LockBackendError("redis", name, `Lock ${quote(name)}: ${text}.`);
}
