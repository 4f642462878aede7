/** The answer to a claim that must wait, or that does not queue: who is in the way, and which place it has. */
import type { Claim, Holding, Refused } from "../../contract/backend.ts";
import type { Refusal } from "./attempts.ts";
import type { EtcdClient } from "./client/client.ts";
import { holdersOf } from "./contenders.ts";
import { toHolding } from "./query.ts";

/** A waiter that hears nothing asks again: about as often as its place is kept. */
const RETRY_MIN_MS = 1000;
const RETRY_MAX_MS = 10_000;

export async function toRefused(client: EtcdClient, claim: Claim, result: Refusal): Promise<Refused> {
  const { order, index } = result;
  const heldBy = await describeHolder(client, claim.name, result);
  if (!claim.queues) return { granted: false, heldBy };
  const position = index - holdersOf(order.slice(0, index)).length + 1;
  const retryMs = Math.min(RETRY_MAX_MS, Math.max(RETRY_MIN_MS, claim.ttlMs / 3));
  return { granted: false, heldBy, position, retryMs };
}

/** The first holder. What other programs hold says nothing of its time, so the cluster is asked for it. */
async function describeHolder(
  client: EtcdClient,
  name: string,
  { order, head: [first] }: Refusal,
): Promise<readonly Holding[]> {
  const [contender] = order;
  if (contender === undefined || first === undefined) return [];
  const holding = toHolding(name, { ...contender, value: first.value });
  if (holding.remainingMs > 0) return [holding];
  const times = await client.timeToLive(contender.lease).catch(() => undefined);
  return [{ ...holding, remainingMs: (times?.ttl ?? 0) * 1000 }];
}
