/** Ends a lease by force, on behalf of any process: by its fence, so a successor is never hit. */
import { LockBackendError, quote } from "../../contract/errors.ts";
import { clipped, HOLDER_MAX, REASON_MAX } from "../../contract/foreign.ts";
import type { Connection } from "./connection.ts";
import { force } from "./generated/scripts.ts";
import type { Names } from "./keys.ts";
import { FORCED_MS } from "./query.ts";
import { toCount } from "./replies.ts";
import type { Scripts } from "./scripts.ts";

/** Who ends a lease and why, as the store keeps it. */
export function forceText(by: string, reason: string): string {
  return JSON.stringify({ by: clipped(by, HOLDER_MAX), reason: clipped(reason, REASON_MAX) });
}

/** Resolves to `false` if no lease has that fence. */
export async function forceRelease(
  connection: Connection,
  names: Names,
  scripts: Scripts,
  lease: { readonly name: string; readonly fence: bigint },
  by: string,
  reason: string,
): Promise<boolean> {
  const { name, fence } = lease;
  const why = forceText(by, reason);
  const breaks = connection.breaks();
  const asked = scripts.run(force, names.lock(name), [String(fence), why, String(FORCED_MS)]);
  const ended = toCount(await asked.catch(scripts.explained(name))) === 1;
  if (ended || connection.breaks() === breaks) return ended;
  // As with a release: the client library may have sent it twice, and "no" may follow a "yes" that was lost.
  const text =
    "the connection ended during the force-release, and Redis does not know this lease. Either the first of two requests ended it, or it was over before. Query the lock, or try again";
  throw new LockBackendError("redis", name, `Lock ${quote(name)}: ${text}.`);
}
