/** Finds a claim by its id: one of another process, or of this process in another thread. */
import type { Claim } from "../../contract/backend.ts";
import type { EtcdClient } from "./client/client.ts";
import { type Contender, inOrder, obstacleOf } from "./contenders.ts";
import { below, type NameKeys } from "./keys.ts";
import { type ClaimRecord, readClaim } from "./record.ts";

export interface FoundClaim {
  readonly contender: Contender;
  readonly record: ClaimRecord;
  /** Where it shows more of itself, if it does. */
  readonly shownKey: Buffer;
  /** By the order of the queue, and by its own word, where that is needed. */
  readonly holds: boolean;
  readonly revision: bigint;
}

/** `undefined`: certainly not in the store. One that was released and is kept for its minHold is not the claim any more. */
export async function findClaim(
  client: EtcdClient,
  keys: NameKeys,
  { id, name }: Claim,
  limitMs?: number,
): Promise<FoundClaim | undefined> {
  const span = below(keys.prefix(name));
  const { kvs, header } = await client.range(span, limitMs);
  const order = inOrder(span.key, kvs);
  for (const [index, contender] of order.entries()) {
    const record = readClaim(contender.value);
    if (record.id !== id || record.endedFence !== undefined) continue;
    const shownKey = keys.beside.shown(name, contender.key);
    const holds = (record.isGranted || !record.isAskedByMany) && obstacleOf(order, index) === undefined;
    return { contender, record, shownKey, holds, revision: header.revision };
  }
  return undefined;
}
