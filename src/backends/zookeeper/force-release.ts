/** Ending somebody's lease, and telling whose it was why. */
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import { readForced, writeForced } from "./node-data.ts";
import { holders } from "./query.ts";

const TRIES = 10;

export const SESSION_ENDED = "the ensemble ended the ZooKeeper session";

/**
 * Deletes the node whose creation made `fence`, if it holds the lock. The record of it goes, in the same transaction,
 * into the data of the lock's own node, if that is empty or ours; it stays as long as that node does.
 */
export async function breakLease(
  client: ZooKeeperClient,
  path: string,
  fence: bigint,
  by: string,
  reason: string,
): Promise<boolean> {
  // What the leader has is what counts: a lease that began just now must be found.
  await client.sync("/");
  const hit = (await holders(client, path)).find((seen) => seen.fence === fence);
  if (hit === undefined) return false;
  for (let tries = 1; ; tries++) {
    try {
      const { data, stat } = await client.getData(path);
      const known = readForced(data);
      if (known === undefined) await client.delete(hit.path);
      else {
        const record = writeForced(known, { fence: String(fence), by, reason, atMs: Date.now() });
        await client.multi([
          { op: "setData", path, data: record, version: stat.version },
          { op: "delete", path: hit.path, version: -1 },
        ]);
      }
      return true;
    } catch (error) {
      if (hasCode(error, "NONODE")) return false;
      // Somebody else wrote a record in between.
      if (!hasCode(error, "BADVERSION") || tries === TRIES) throw error;
    }
  }
}

/** Why the lease with this fence is gone, as far as the lock's node tells. */
export async function whyGone(client: ZooKeeperClient, path: string, fence: bigint): Promise<string> {
  try {
    // Through the leader: our server may be behind, and may not know that the session has ended and took the node along.
    const [, { data }] = await Promise.all([client.sync(path), client.getData(path)]);
    const record = readForced(data)?.findLast((one) => one.fence === String(fence));
    if (record !== undefined) return `broken by force by ${record.by}: ${record.reason}`;
  } catch (error) {
    // The reason is a courtesy: without it the lease is as lost.
    if (hasCode(error, "SESSIONEXPIRED", "SESSIONMOVED")) return SESSION_ENDED;
  }
  return "its node was deleted by somebody else";
}
