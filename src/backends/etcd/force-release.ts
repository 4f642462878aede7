/** Force release: ends a lease of any process, and records why for its holder. */
import type { LossReason } from "../../contract/loss.ts";
import type { EtcdClient } from "./client/client.ts";
import { holdersOf, inOrder } from "./contenders.ts";
import { below, type NameKeys } from "./keys.ts";
import { readClaim, readForced, writeForced } from "./record.ts";

/** How long the record of it stays. */
const RECORD_SECONDS = 3600;

/**
 * Removes the key whose last change was the grant of `fence`, if it holds the lock, and writes the record, in one transaction.
 * A successor's key has another revision, so it is never hit.
 */
export async function forceRelease(
  client: EtcdClient,
  keys: NameKeys,
  name: string,
  fence: bigint,
  by: string,
  reason: string,
): Promise<boolean> {
  const span = below(keys.prefix(name));
  const { kvs } = await client.range(span);
  // A key that was released, and is kept for its minHold, was written once more, and has the fence in its record.
  const holder = holdersOf(inOrder(span.key, kvs)).find(
    ({ modRevision, value }) => (readClaim(value).endedFence ?? modRevision) === fence,
  );
  if (holder === undefined) return false;
  const { id } = await client.grantLease(RECORD_SECONDS);
  const { succeeded } = await client.txn({
    when: [{ key: holder.key, modRevision: holder.modRevision }],
    success: [
      { remove: { key: holder.key } },
      { put: { key: keys.beside.forced(name, fence), value: writeForced(by, reason), lease: id } },
    ],
  });
  if (!succeeded) void client.revokeLease(id).catch(() => undefined);
  return succeeded;
}

/** Why the lease with this fence is gone, as far as the store says. */
export async function lossReason(client: EtcdClient, keys: NameKeys, name: string, fence: bigint): Promise<LossReason> {
  try {
    const { kvs } = await client.range({ key: keys.beside.forced(name, fence) });
    const record = kvs[0] && readForced(kvs[0].value);
    if (record !== undefined) return { kind: "forced", by: record.by, reason: record.reason };
  } catch {
    // Best effort: the lease is lost whether or not we learn why.
  }
  return { kind: "gone" };
}
