/**
 * Confirms leases by a transaction of nothing but checks. It changes nothing and wakes no watcher, and yet its answer means
 * that a majority of the ensemble agreed, after we asked, that the session and the nodes exist. A `sync` would be cheaper,
 * but a leader that has lost its majority still answers that for a while.
 */
import type { Renewal } from "../../contract/backend.ts";
import type { ZooKeeperClient } from "./client/client.ts";
import { hasCode, ZooKeeperMultiError } from "./client/errors.ts";
import type { LocalLease } from "./local-leases.ts";

/** Well below the 1 MB that a server takes in one request. */
const CHUNK_BYTES = 128 * 1024;
const OVERHEAD_BYTES = 32;

/** Confirms all leases at once, and answers in their order. */
export async function confirm(client: ZooKeeperClient, leases: readonly LocalLease[]): Promise<readonly Renewal[]> {
  const answers = await Promise.all(chunks(leases).map((chunk) => confirmChunk(client, chunk)));
  return answers.flat();
}

async function confirmChunk(client: ZooKeeperClient, leases: readonly LocalLease[]): Promise<readonly Renewal[]> {
  const askedMs = performance.now();
  try {
    await client.multi(leases.map(({ node }) => ({ op: "check", path: node.path, version: -1 })));
    const fromMs = client.since(askedMs);
    return leases.map(() => ({ held: true, fromMs }));
  } catch (error) {
    // One node that is gone fails the whole transaction: then each is checked by itself, still in one round trip.
    if (error instanceof ZooKeeperMultiError && leases.length > 1) {
      const answers = await Promise.all(leases.map((lease) => confirmChunk(client, [lease])));
      return answers.flat();
    }
    if (hasCode(error, "NONODE")) return leases.map(() => ({ held: false, reason: { kind: "removed" } }));
    return leases.map(() => ({ held: "unknown", cause: error }));
  }
}

function chunks(leases: readonly LocalLease[]): readonly LocalLease[][] {
  const result: LocalLease[][] = [];
  let bytes = Infinity;
  for (const lease of leases) {
    const size = OVERHEAD_BYTES + Buffer.byteLength(lease.node.path);
    bytes += size;
    if (bytes > CHUNK_BYTES) {
      result.push([]);
      bytes = size;
    }
    result.at(-1)?.push(lease);
  }
  return result;
}
