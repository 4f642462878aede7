/**
 * Renews claims that hold: first their leases are kept alive, then the cluster is asked, in one transaction for many, whether
 * their keys are still what they were when they were granted. Only both together are a yes: see lease.ts.
 */
import type { EtcdClient } from "./client/client.ts";
import type { TxnResponse } from "./client/kv-messages.ts";
import type { Lease } from "./lease.ts";
import { type LeasePool, limitMsOf } from "./lease-pool.ts";
import { isWanted, WANTED_READS_MAX, type WantedOf, wantedReads } from "./wanted.ts";

/** What is to be confirmed. */
export interface Confirmable {
  readonly place: { readonly key: Buffer; readonly lease: Lease };
  /** The revision of the key's last change, which was the grant. */
  readonly fence: bigint;
  /** Present: the holder wants to know whether its lock is wanted. */
  readonly wantedOf?: WantedOf | undefined;
}

/** `revision`: the cluster's, when the key was seen. */
export type Confirmation =
  | { readonly is: "held"; readonly fromMs: number; readonly revision: bigint; readonly wanted: boolean }
  | { readonly is: "gone" }
  | { readonly is: "unknown"; readonly cause: unknown };

/** etcd takes at most 128 operations in a transaction, unless it was set up otherwise. */
const CHUNK = 100;
const CHUNK_WANTED = Math.floor(CHUNK / (1 + WANTED_READS_MAX));

/** Confirms all of them, and answers in their order. */
export async function confirm(
  client: EtcdClient,
  pool: LeasePool,
  all: readonly Confirmable[],
): Promise<readonly Confirmation[]> {
  const asked = await keepAll(pool, new Set(all.map(({ place }) => place.lease)));
  const size = all.some(({ wantedOf }) => wantedOf !== undefined) ? CHUNK_WANTED : CHUNK;
  const chunks = Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size));
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
    const reads = chunk.flatMap(({ wantedOf }) => (wantedOf === undefined ? [] : wantedReads(wantedOf)));
    const response = await client.txn(
      {
        when: chunk.map(({ place, fence }) => ({ key: place.key, modRevision: fence })),
        // With a read in it, so that the cluster is asked and not only this member.
        success: [...reads, { range: { key: first.place.key, keysOnly: true } }],
        failure: [...reads, ...chunk.map(({ place }) => ({ range: { key: place.key, keysOnly: true } }))],
        rank: "keep",
      },
      limitMs,
    );
    const found = [...response.kvs];
    const wanted = chunk.map(({ wantedOf }) => {
      if (wantedOf === undefined) return false;
      return isWanted(wantedOf, found.splice(0, wantedReads(wantedOf).length));
    });
    return chunk.map((one, at) => {
      const isThere = response.succeeded || found[at]?.[0]?.modRevision === one.fence;
      return isThere ? judge(one, response, sentMs, asked, wanted[at] === true) : { is: "gone" };
    });
  } catch (cause) {
    return chunk.map(() => ({ is: "unknown", cause }));
  }
}

/** Its key is there. */
function judge(
  { place: { lease } }: Confirmable,
  { header }: TxnResponse,
  sentMs: number,
  asked: Asked,
  wanted: boolean,
): Confirmation {
  lease.confirmed(header.term, sentMs);
  const { provenMs } = lease;
  const kept = asked.get(lease) ?? { cause: undefined };
  if ("cause" in kept) return { is: "unknown", cause: kept.cause };
  if (provenMs >= kept.sentMs) return { is: "held", fromMs: provenMs, revision: header.revision, wanted };
  return { is: "unknown", cause: new Error("etcd changed its leader, or a member that is behind answered") };
}
