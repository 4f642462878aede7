/**
 * Renews claims that hold: first their leases are kept alive, then the cluster is asked, in one transaction for many, whether
 * their keys are still what they were when they were granted. Only both together are a yes: see lease.ts.
 */
import type { EtcdClient } from "./client/client.ts";
import type { TxnResponse } from "./client/kv-messages.ts";
import type { Lease } from "./lease.ts";
import { type LeasePool, limitMsOf } from "./lease-pool.ts";

/** What is to be confirmed. */
export interface Confirmable {
  readonly place: { readonly key: Buffer; readonly lease: Lease };
  /** The revision of the key's last change, which was the grant. */
  readonly fence: bigint;
}

/** `revision`: the cluster's, when the key was seen. */
export type Confirmation =
  | { readonly is: "held"; readonly fromMs: number; readonly revision: bigint }
  | { readonly is: "gone" }
  | { readonly is: "unknown"; readonly cause: unknown };

/** etcd takes at most 128 comparisons in a transaction, unless it was set up otherwise. */
const CHUNK = 100;

/** Confirms all of them, and answers in their order. */
export async function confirm(
  client: EtcdClient,
  pool: LeasePool,
  all: readonly Confirmable[],
): Promise<readonly Confirmation[]> {
  const asked = await keepAll(pool, new Set(all.map(({ place }) => place.lease)));
  const chunks = Array.from({ length: Math.ceil(all.length / CHUNK) }, (_, i) => all.slice(i * CHUNK, (i + 1) * CHUNK));
  const answers = await Promise.all(chunks.map((chunk) => confirmChunk(client, chunk, asked)));
  return answers.flat();
}

/** When each was asked to be kept alive, or why it was not. */
type Answer = { readonly sentMs: number } | { readonly cause: unknown };
type Asked = ReadonlyMap<Lease, Answer>;

async function keepAll(pool: LeasePool, leases: ReadonlySet<Lease>): Promise<Asked> {
  const asked = await Promise.all(
    [...leases].map((lease) =>
      pool.keepAlive(lease).then(
        (sentMs): readonly [Lease, Answer] => [lease, { sentMs }],
        (cause: unknown): readonly [Lease, Answer] => [lease, { cause }],
      ),
    ),
  );
  return new Map(asked);
}

async function confirmChunk(
  client: EtcdClient,
  chunk: readonly Confirmable[],
  asked: Asked,
): Promise<readonly Confirmation[]> {
  const limitMs = limitMsOf(Math.min(...chunk.map(({ place }) => place.lease.ttlMs)));
  const sentMs = performance.now();
  try {
    const [first] = chunk as [Confirmable];
    const response = await client.txn(
      {
        when: chunk.map(({ place, fence }) => ({ key: place.key, modRevision: fence })),
        // With a read in it, so that the cluster is asked and not only this member.
        success: [{ range: { key: first.place.key, keysOnly: true } }],
        failure: chunk.map(({ place }) => ({ range: { key: place.key, keysOnly: true } })),
      },
      limitMs,
    );
    return chunk.map((one, index) => judge(one, index, response, sentMs, asked));
  } catch (cause) {
    return chunk.map(() => ({ is: "unknown", cause }));
  }
}

function judge(
  { place: { lease }, fence }: Confirmable,
  index: number,
  { header, succeeded, kvs }: TxnResponse,
  sentMs: number,
  asked: Asked,
): Confirmation {
  const isThere = succeeded || kvs[index]?.[0]?.modRevision === fence;
  if (!isThere) return { is: "gone" };
  lease.confirmed(header.term, sentMs);
  const { provenMs } = lease;
  const kept = asked.get(lease) ?? { cause: undefined };
  if ("cause" in kept) return { is: "unknown", cause: kept.cause };
  if (provenMs >= kept.sentMs) return { is: "held", fromMs: provenMs, revision: header.revision };
  return { is: "unknown", cause: new Error("etcd changed its leader, or a member that is behind answered") };
}
