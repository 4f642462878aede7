/**
 * The transactions of a claim. Each is one atomic step of the cluster.
 *
 * Every one contains a read or a write through the cluster. etcd answers a transaction of comparisons alone from the memory
 * of the member that was asked, however old that is.
 */
import type { EtcdClient } from "./client/client.ts";
import { hasCode } from "./client/errors.ts";
import type { Compare, KeyValue, Operation, TxnResponse } from "./client/kv-messages.ts";
import { type Contender, inOrder } from "./contenders.ts";
import { below, groupOf, type KeySpan } from "./keys.ts";
import type { LocalClaim, Place } from "./local-claim.ts";
import { writeClaim } from "./record.ts";
import { isWanted, wantedReads } from "./wanted.ts";

/** What a lock looked like in one instant. */
export interface Look {
  /** When it was asked for: before it was. */
  readonly askedMs: number;
  /** The greatest revision that was known then. */
  readonly knownRevision: bigint;
  readonly revision: bigint;
  readonly term: bigint;
  /** True: the transaction's condition held, and it was carried out. */
  readonly isDone: boolean;
  /** The claim's own key, with its value. Absent after a transaction that wrote it. */
  readonly own?: KeyValue | undefined;
  readonly order: readonly Contender[];
  /** The first two in the queue, with their values. */
  readonly head: readonly KeyValue[];
  /** The first in the queue at the revision that was named. */
  readonly firstThen?: { readonly revision: bigint; readonly kv: KeyValue | undefined } | undefined;
  /** What is where the lock's outcome would be, for a claim that wants it. Absent after a transaction that was carried out. */
  readonly outcome?: KeyValue | undefined;
  /** A claim waits for what this one holds. Only after a confirmation that was carried out. */
  readonly wanted?: boolean | undefined;
}

/** Joins the queue, unless the claim is in it. */
export function join(client: EtcdClient, local: LocalClaim, place: Place): Promise<Look> {
  return create(client, local, place, [{ key: place.key, createRevision: 0n }]);
}

/** Takes the lock if nothing is in the way, and leaves nothing behind otherwise. `seenRevision`: no key of its kind is younger. */
export function take(client: EtcdClient, local: LocalClaim, place: Place, seenRevision?: bigint): Promise<Look> {
  const { mode, limit } = local.claim;
  const { span } = local;
  const isPlain = mode === "exclusive" && limit === 1;
  const ours = below(groupOf(span, local.claim));
  const spans: readonly KeySpan[] = isPlain
    ? [span]
    : [
        { key: span.key, end: ours.key },
        { key: ours.end, end: span.end },
      ];
  // Where no key exists its revision is 0; where one does it is not.
  const when: Compare[] = [{ key: place.key, createRevision: 0n }];
  for (const { key, end } of spans) when.push({ key, end, createRevision: 0n });
  if (seenRevision !== undefined) when.push({ ...ours, createRevision: seenRevision + 1n, is: "less" });
  return create(client, local, place, when);
}

/** Leaves with one claim's key and joins with another's, in one step. Not carried out where the first is gone. */
export function replace(
  client: EtcdClient,
  before: Place,
  local: LocalClaim,
  place: Place,
  handOver: readonly Operation[],
): Promise<Look> {
  const when = [
    { key: before.key, createRevision: before.createRevision ?? 0n },
    { key: place.key, createRevision: 0n },
  ];
  return create(client, local, place, when, [...removals(before), ...handOver]);
}

/** The claim's key goes, and what it shows of itself. */
export function removals({ key, shownKey }: Pick<Place, "key" | "shownKey">): readonly Operation[] {
  const remove = { remove: { key } };
  return shownKey === undefined ? [remove] : [remove, { remove: { key: shownKey } }];
}

async function create(
  client: EtcdClient,
  local: LocalClaim,
  place: Place,
  when: readonly Compare[],
  before: readonly Operation[] = [],
): Promise<Look> {
  const put = { put: { key: place.key, value: writeClaim(local.claim), lease: place.lease.id } };
  const asked = { askedMs: performance.now(), knownRevision: client.revision };
  const response = await client.txn({
    when: [...when, ...withoutOutcome(local)],
    success: [...before, put, ...lookAt(local.span)],
    failure: [{ range: { key: place.key } }, ...lookAt(local.span), ...lookForOutcome(local)],
    rank: before.length === 0 ? "begin" : "end",
  });
  return toLook(local, response, asked, before.length + 1);
}

/** Looks at the queue, and at the claim's own key; and who was the first in the queue at revision `then`, unless that is compacted. */
export async function look(client: EtcdClient, local: LocalClaim, place: Place, then?: bigint): Promise<Look> {
  const asked = { askedMs: performance.now(), knownRevision: client.revision };
  const reads: readonly Operation[] = [{ range: { key: place.key } }, ...lookAt(local.span), ...lookForOutcome(local)];
  const firstThen = {
    range: { ...local.span, byCreation: "ascending", limit: 1, keysOnly: true, revision: then },
  } as const;
  const success = then === undefined ? reads : [...reads, firstThen];
  try {
    const response = await client.txn({ when: [], success });
    const seen = toLook(local, { ...response, succeeded: false }, asked, 1);
    return then === undefined ? seen : { ...seen, firstThen: { revision: then, kv: response.kvs.at(-1)?.[0] } };
  } catch (error) {
    if (then === undefined || !hasCode(error, "OUT_OF_RANGE")) throw error;
    return look(client, local, place);
  }
}

/**
 * Confirms a claim that waited, after the queue showed that nothing is in its way: what is created later cannot be. If its key is
 * what it was then, its record is written once more, and the revision of that write is the fence.
 */
export async function confirm(
  client: EtcdClient,
  local: LocalClaim,
  { key, lease }: Place,
  created: bigint,
  changed: bigint,
): Promise<Look> {
  const asked = { askedMs: performance.now(), knownRevision: client.revision };
  const { claim, span } = local;
  const response = await client.txn({
    // Its modification revision too: a first answer may have been lost, and the fence is written once.
    when: [{ key, createRevision: created }, { key, modRevision: changed }, ...withoutOutcome(local)],
    success: [
      { put: { key, value: writeClaim(claim, { granted: true }), lease: lease.id } },
      ...wantedReads({ claim, span, key }),
    ],
    failure: [{ range: { key } }, ...lookAt(span), ...lookForOutcome(local)],
  });
  if (!response.succeeded) return toLook(local, response, asked, 1);
  const { header, kvs } = response;
  const wanted = isWanted({ claim, span, key }, kvs.slice(1));
  return { ...asked, revision: header.revision, term: header.term, isDone: true, order: [], head: [], wanted };
}

/** Removes the key that was created at `created`, and no later one of that name; and what goes with that. `false`: it did not exist. */
export async function removeCreated(
  client: EtcdClient,
  place: Pick<Place, "key" | "shownKey">,
  created: bigint,
  more: readonly Operation[] = [],
): Promise<boolean> {
  const [key, ...shown] = removals(place);
  const { succeeded } = await client.txn({
    when: [{ key: place.key, createRevision: created }],
    success: [key as Operation, ...shown, ...more],
    // Another process may have ended the claim by force: what it showed goes all the same.
    failure: shown,
  });
  return succeeded;
}

/** Removes keys that only we can have made. Says which existed. */
export async function removeOurs(client: EtcdClient, keys: readonly Buffer[]): Promise<readonly boolean[]> {
  const { removed } = await client.txn({ when: [], success: keys.map((key) => ({ remove: { key } })) });
  return removed.map((count) => count > 0n);
}

function lookAt(span: KeySpan): readonly Operation[] {
  return [{ range: { ...span, keysOnly: true } }, { range: { ...span, byCreation: "ascending", limit: 2 } }];
}

/** A claim that wants an outcome joins, and holds, only where there is none. */
function withoutOutcome({ claim, outcomeKey, outcomeIgnored }: LocalClaim): readonly Compare[] {
  return claim.wantsOutcome === true ? [{ key: outcomeKey, modRevision: outcomeIgnored }] : [];
}

function lookForOutcome({ claim, outcomeKey }: LocalClaim): readonly Operation[] {
  return claim.wantsOutcome === true ? [{ range: { key: outcomeKey } }] : [];
}

/** `skip`: so many answers come before those of the look, where it was carried out. */
function toLook(
  local: LocalClaim,
  response: TxnResponse,
  asked: Pick<Look, "askedMs" | "knownRevision">,
  skip: number,
): Look {
  const { header, succeeded, kvs } = response;
  const at = succeeded ? skip : 1;
  return {
    ...asked,
    revision: header.revision,
    term: header.term,
    isDone: succeeded,
    own: succeeded ? undefined : kvs[0]?.[0],
    order: inOrder(local.span.key, kvs[at] ?? []),
    head: kvs[at + 1] ?? [],
    outcome: succeeded ? undefined : kvs[at + 2]?.[0],
  };
}
