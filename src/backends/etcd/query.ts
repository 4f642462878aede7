/** Reads who holds, who waits, and who was ended by force. For people, and for ending one by its fence: never for grants. */
import type { Forced, Holding, Snapshot, Waiting } from "../../contract/backend.ts";
import type { EtcdClient } from "./client/client.ts";
import type { KeyValue } from "./client/kv-messages.ts";
import { type Contender, holdersOf, inOrder } from "./contenders.ts";
import type { NameKeys } from "./keys.ts";
import { agoMs, readClaim, readForced } from "./record.ts";

/** Holders and waiters of all locks whose name starts with `prefix`. */
export async function snapshot(client: EtcdClient, keys: NameKeys, prefix: string): Promise<Snapshot> {
  const [{ kvs }, records] = await Promise.all([
    client.range(keys.range(prefix)),
    client.range(keys.forcedRange(prefix)),
  ]);
  const locks = byName(keys, kvs, prefix);
  const remaining = await remainingMs(client, [...locks.values()].flat());
  const parts = [...locks].map(([name, order]) => snapshotOf(name, order, remaining));
  return {
    held: parts.flatMap(({ held }) => held),
    pending: parts.flatMap(({ pending }) => pending),
    forced: records.kvs.flatMap((kv) => toForced(keys, kv, prefix)),
  };
}

/** A holder for people: never for decisions. */
export function toHolding(name: string, contender: Contender, restMs?: number): Holding {
  const record = readClaim(contender.value);
  return {
    name,
    ...contender.kind,
    holder: record.holder,
    fence: contender.modRevision,
    heldMs: agoMs(record.sinceMs),
    remainingMs: restMs ?? (Number.isFinite(record.ttlMs) ? record.ttlMs : 0),
    meta: record.meta,
  };
}

function byName(keys: NameKeys, kvs: readonly KeyValue[], prefix: string): ReadonlyMap<string, readonly Contender[]> {
  const found = new Map<string, KeyValue[]>();
  for (const kv of kvs) {
    // Every contender lives with a lease; what does not is another program's.
    const name = kv.lease === 0n ? undefined : keys.parse(kv.key)?.name;
    if (name?.startsWith(prefix) !== true) continue;
    const list = found.get(name) ?? [];
    list.push(kv);
    found.set(name, list);
  }
  return new Map([...found].map(([name, list]) => [name, inOrder(keys.prefix(name), list)]));
}

function snapshotOf(
  name: string,
  order: readonly Contender[],
  remaining: ReadonlyMap<bigint, number>,
): Pick<Snapshot, "held" | "pending"> {
  const holders = new Set(holdersOf(order));
  const held: Holding[] = [];
  const pending: Waiting[] = [];
  for (const contender of order) {
    const record = readClaim(contender.value);
    if (!holders.has(contender)) {
      const { holder, meta, sinceMs } = record;
      pending.push({ name, ...contender.kind, holder, waitingMs: agoMs(sinceMs), position: pending.length + 1, meta });
    } else if (record.endedFence === undefined) held.push(toHolding(name, contender, remaining.get(contender.lease)));
  }
  return { held, pending };
}

/** Until each lease ends by itself, as its leader counts, in whole seconds. */
async function remainingMs(client: EtcdClient, contenders: readonly Contender[]): Promise<ReadonlyMap<bigint, number>> {
  const leases = [...new Set(contenders.map(({ lease }) => lease))];
  const times = await Promise.all(
    leases.map((lease) =>
      client.timeToLive(lease).then(
        ({ ttl }) => [[lease, ttl * 1000]] as const,
        () => [],
      ),
    ),
  );
  return new Map(times.flat());
}

function toForced(keys: NameKeys, { key, value }: KeyValue, prefix: string): readonly Forced[] {
  const parsed = keys.parseForced(key);
  const record = readForced(value);
  if (parsed === undefined || record === undefined || !parsed.name.startsWith(prefix)) return [];
  const { by, reason, atMs } = record;
  return [{ ...parsed, by, reason, agoMs: agoMs(atMs) }];
}
