/** Force release: ends a lease of any process, and records why for its holder. */
import type { LossReason } from "../../contract/loss.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import { readForced, writeForced } from "./node-data.ts";
import { readHolders } from "./query.ts";

const TRIES = 10;

export const SESSION_ENDED: LossReason = { kind: "session-ended" };

/**
 * Deletes the node whose creation made `fence`, if it holds the lock. In the same transaction a record goes into the data of
 * the lock's own node, if that is empty or ours; it stays as long as that node does.
 */
export async function forceRelease(
  client: ZooKeeperClient,
  path: string,
  fence: bigint,
  by: string,
  reason: string,
): Promise<boolean> {
  // A lease that began just now must be found, so the server catches up with the leader first.
  await client.sync("/");
  const holder = (await readHolders(client, path)).find((node) => node.fence === fence);
  if (holder === undefined) return false;
  for (let tries = 1; ; tries++) {
    try {
      const { data, stat } = await client.getData(path);
      const known = readForced(data);
      if (known === undefined) await client.delete(holder.path);
      else {
        const record = writeForced(known, { fence: String(fence), by, reason, atMs: Date.now() });
        await client.multi([
          { op: "setData", path, data: record, version: stat.version },
          { op: "delete", path: holder.path, version: -1 },
        ]);
      }
      return true;
    } catch (error) {
      if (hasCode(error, "NONODE")) return false;
      // Another process wrote a record in between.
      if (!hasCode(error, "BADVERSION") || tries === TRIES) throw error;
    }
  }
}

/** Why the lease with this fence is gone, as far as the lock's node says. */
export async function lossReason(client: ZooKeeperClient, path: string, fence: bigint): Promise<LossReason> {
  try {
    // Through the leader: our server may be behind, and not know that the session has ended and its nodes are gone.
    const [, { data }] = await Promise.all([client.sync(path), client.getData(path)]);
    const record = readForced(data)?.findLast((one) => one.fence === String(fence));
    if (record !== undefined) return { kind: "forced", by: record.by, reason: record.reason };
  } catch (error) {
    // Best effort: the lease is lost whether or not we learn why.
    if (hasCode(error, "SESSIONEXPIRED", "SESSIONMOVED")) return SESSION_ENDED;
  }
  return { kind: "removed" };
}
