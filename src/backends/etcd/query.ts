/** Reads who holds, who waits, and who was ended by force. For people, and for ending one by its fence: never for grants. */
import type { Forced, Holding, LockState, Snapshot, Waiting } from "../../contract/backend.ts";
import type { EtcdClient } from "./client/client.ts";
import type { KeyValue } from "./client/kv-messages.ts";
import { type Contender, holdersOf, inOrder } from "./contenders.ts";
import { below, type NameKeys } from "./keys.ts";
import type { Outcomes } from "./outcomes.ts";
import { agoMs, type ClaimRecord, readClaim, readForced, readShown, type ShownRecord } from "./record.ts";

/** Holders and waiters of all locks whose name starts with `prefix`. */
export async function snapshot(client: EtcdClient, keys: NameKeys, prefix: string): Promise<Snapshot> {
  const [{ kvs }, shown, records] = await Promise.all([
    client.range(keys.range(prefix)),
    client.range(keys.beside.range("shown", prefix)),
    client.range(keys.beside.range("forced", prefix)),
  ]);
  const locks = byName(keys, kvs, prefix);
  const view = { shown: byClaim(shown.kvs), remaining: await remainingMs(client, [...locks.values()].flat()) };
  const parts = [...locks].map(([name, order]) => snapshotOf(name, order, view));
  return {
    held: parts.flatMap(({ held }) => held),
    pending: parts.flatMap(({ pending }) => pending),
    forced: records.kvs.flatMap((kv) => toForced(keys, kv, prefix)),
  };
}

/** One lock, as it was in one instant. */
export async function inspect(
  client: EtcdClient,
  keys: NameKeys,
  outcomes: Outcomes,
  name: string,
): Promise<LockState> {
  const span = below(keys.prefix(name));
  const { beside } = keys;
  const ranges = [span, beside.of("shown", name), beside.of("forced", name), { key: beside.outcome(name) }];
  const { kvs } = await client.txn({ when: [], success: ranges.map((range) => ({ range })) });
  const [queue = [], shown = [], records = [], [kept] = []] = kvs;
  const order = inOrder(span.key, queue);
  const [remaining, outcome] = await Promise.all([remainingMs(client, order), outcomes.show(kept)]);
  const forced = records.flatMap((kv) => toForced(keys, kv, name)).filter((one) => one.name === name);
  return { ...snapshotOf(name, order, { shown: byClaim(shown), remaining }), forced, ...(outcome && { outcome }) };
}

/** A holder for people: never for decisions. */
export function toHolding(name: string, contender: Contender, view: View = NO_VIEW): Holding {
  const record = readClaim(contender.value);
  const { holder, ttlMs, endedFence } = record;
  const { sinceMs, ...facts } = said(contender, record, view);
  const restMs = view.remaining.get(contender.lease);
  const remainder = remainderOf(record, restMs);
  return {
    name,
    ...contender.kind,
    holder,
    // A key that is kept for its minHold was written once more.
    fence: endedFence ?? contender.modRevision,
    heldMs: agoMs(sinceMs),
    remainingMs: restMs ?? (Number.isFinite(ttlMs) ? ttlMs : 0),
    ...facts,
    ...(remainder && { remainder }),
  };
}

/** What is known beside the queue. */
interface View {
  /** What claims show of themselves since their keys were written, by their ids. */
  readonly shown: ReadonlyMap<string, ShownRecord & { readonly modRevision: bigint }>;
  /** Until each lease ends by itself. */
  readonly remaining: ReadonlyMap<bigint, number>;
}

const NO_VIEW: View = { shown: new Map(), remaining: new Map() };

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

function byClaim(kvs: readonly KeyValue[]): View["shown"] {
  const shown = new Map<string, ShownRecord & { readonly modRevision: bigint }>();
  for (const { value, modRevision } of kvs) {
    const record = readShown(value);
    if (record !== undefined) shown.set(record.id, { ...record, modRevision });
  }
  return shown;
}

function snapshotOf(
  name: string,
  order: readonly Contender[],
  view: View,
): { readonly held: readonly Holding[]; readonly pending: readonly Waiting[] } {
  const holders = new Set(holdersOf(order));
  const held: Holding[] = [];
  const pending: Waiting[] = [];
  for (const contender of order) {
    if (holders.has(contender)) held.push(toHolding(name, contender, view));
    else pending.push(toWaiting(name, contender, pending.length + 1, view));
  }
  return { held, pending };
}

function toWaiting(name: string, contender: Contender, position: number, view: View): Waiting {
  const record = readClaim(contender.value);
  const { sinceMs, ...facts } = said(contender, record, view);
  const [waitingMs, order] = [agoMs(sinceMs), contender.createRevision];
  return { name, ...contender.kind, holder: record.holder, waitingMs, position, order, ...facts };
}

/** What was written last counts: with the claim's own key, or beside it. */
function said(
  { createRevision, modRevision }: Contender,
  record: ClaimRecord,
  { shown }: View,
): Pick<Holding, "meta" | "id" | "local"> & { readonly sinceMs: number } {
  const { id, isGranted, endedFence } = record;
  const beside = shown.get(id);
  // A key that was handed over was written as it was.
  const writtenRevision = isGranted || endedFence !== undefined ? modRevision : createRevision;
  const isBeside = beside !== undefined && beside.modRevision > writtenRevision;
  const { meta, local } = isBeside ? beside : record;
  const sinceMs = (isBeside ? beside.sinceMs : undefined) ?? record.sinceMs;
  return { meta, ...(id && { id }), ...(local && { local }), sinceMs };
}

/** A lease that is not renewed lasts for its ttl, and then for its delay. What is left comes in whole seconds, cut off. */
function remainderOf({ endedFence, lockDelayMs }: ClaimRecord, restMs: number | undefined): Holding["remainder"] {
  if (endedFence !== undefined) return "minHold";
  return restMs !== undefined && restMs + 1000 <= lockDelayMs ? "lockDelay" : undefined;
}

/** Until each lease ends by itself, as its leader counts, in whole seconds. */
async function remainingMs(client: EtcdClient, contenders: readonly Contender[]): Promise<ReadonlyMap<bigint, number>> {
  const leases = [...new Set(contenders.map(({ lease }) => lease))].filter((lease) => lease !== 0n);
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
  const parsed = keys.beside.parseForced(key);
  const record = readForced(value);
  if (parsed === undefined || record === undefined || !parsed.name.startsWith(prefix)) return [];
  const { by, reason, atMs } = record;
  return [{ ...parsed, by, reason, agoMs: agoMs(atMs) }];
}
