/**
 * Outcomes: each in a key beside its lock's queue, on a lease of its own. That lease is not kept alive, so the cluster's clock
 * ends the outcome; the transaction that writes it ends the holder's lease.
 */
import { type Claim, type KeptOutcome, type Outcome, OUTCOME_BYTES_MAX } from "../../contract/claim.ts";
import { clipped, HOLDER_MAX } from "../../contract/foreign.ts";
import type { EtcdClient } from "./client/client.ts";
import type { KeyValue, Operation } from "./client/kv-messages.ts";
import type { NameKeys } from "./keys.ts";

/** The key of a claim that holds its lock. */
export interface HolderKey {
  readonly key: Buffer;
  readonly createRevision: bigint;
}

interface OutcomeRecord {
  /** The claim's whose work it was. */
  readonly id: string;
  readonly fence: bigint;
  readonly holder: string;
  readonly value: string;
}

/** A byte of a text takes at most six as JSON. */
const RECORD_MAX_BYTES = 6 * (OUTCOME_BYTES_MAX + HOLDER_MAX) + 1000;

/** What the two calls that keep an outcome may take of its time. */
const LATE = 1 / 100;

export class Outcomes {
  readonly #client: EtcdClient;
  readonly #keys: NameKeys;

  constructor(client: EtcdClient, keys: NameKeys) {
    this.#client = client;
    this.#keys = keys;
  }

  /**
   * Ends the lease by `ends` and keeps its outcome, in one step, if the claim holds by that lease. `before`: an earlier request,
   * whose answer was lost, has done it. `leases`: those that were taken for it so far; what is not needed of them is revoked.
   */
  async keep(
    claim: Claim,
    { key, createRevision }: HolderKey,
    outcome: Outcome,
    ends: readonly Operation[],
    leases: Set<bigint>,
  ): Promise<"now" | "before" | false> {
    const askedMs = performance.now();
    const { id: lease } = await this.#client.grantLease(Math.ceil(outcome.keepMs / 1000));
    leases.add(lease);
    const at = this.#keys.beside.outcome(claim.name);
    const { succeeded, kvs } = await this.#client.txn({
      when: [
        { key, createRevision },
        { key, modRevision: outcome.fence },
      ],
      success: [
        { range: { key: at, keysOnly: true } },
        ...ends,
        { put: { key: at, value: writeOutcome(claim, outcome), lease } },
      ],
      failure: [{ range: { key: at } }],
    });
    const found = kvs[0]?.[0];
    const isKept = succeeded || isOf(found, claim, outcome);
    if (succeeded && found !== undefined) leases.add(found.lease);
    leases.delete(succeeded ? lease : isKept ? (found?.lease ?? 0n) : 0n);
    this.#revoke(leases);
    // The lease's time ran while the two calls were on their way: it starts again.
    const isShort = performance.now() - askedMs > outcome.keepMs * LATE;
    if (succeeded && isShort) await this.#client.keepAlive(lease).catch(() => undefined);
    if (succeeded) return "now";
    return isKept && "before";
  }

  /** True: what is kept came with the release of this claim. */
  async isKept(claim: Claim, outcome: Outcome): Promise<boolean> {
    const { kvs } = await this.#client.range({ key: this.#keys.beside.outcome(claim.name) });
    return isOf(kvs[0], claim, outcome);
  }

  /** As it is shown, with its time as the cluster counts it, in whole seconds. `undefined`: it is none of ours. */
  async show(kv: KeyValue | undefined): Promise<KeptOutcome | undefined> {
    const record = kv && readOutcome(kv);
    if (kv === undefined || record === undefined) return undefined;
    const { ttl, grantedTtl } = await this.#client.timeToLive(kv.lease).catch(() => ({ ttl: 0, grantedTtl: 0 }));
    // What is left of a second counts as one, as long as the key is there.
    const seconds = Math.min(grantedTtl, ttl + 1);
    const { value, fence, holder } = record;
    return { value, fence, holder, ageMs: (grantedTtl - seconds) * 1000, remainingMs: seconds * 1000 };
  }

  async forget(name: string, fence: bigint): Promise<boolean> {
    const key = this.#keys.beside.outcome(name);
    const [found] = (await this.#client.range({ key })).kvs;
    if (found === undefined || readOutcome(found)?.fence !== fence) return false;
    const { succeeded } = await this.#client.txn({
      when: [{ key, modRevision: found.modRevision }],
      success: [{ remove: { key } }],
    });
    if (succeeded) this.#revoke(new Set([found.lease]));
    return succeeded;
  }

  #revoke(leases: Set<bigint>): void {
    leases.delete(0n);
    // What cannot be revoked ends with its time.
    for (const lease of leases) void this.#client.revokeLease(lease).catch(() => undefined);
    leases.clear();
  }
}

function writeOutcome({ id, holder }: Claim, { value, fence }: Outcome): Buffer {
  const record = { holdfast: 1, id, fence: fence.toString(), holder: clipped(holder, HOLDER_MAX), value };
  return Buffer.from(JSON.stringify(record));
}

/** `undefined`: not of our making, so it is not believed. */
export function readOutcome({ value: bytes, lease }: Pick<KeyValue, "value" | "lease">): OutcomeRecord | undefined {
  if (lease === 0n || bytes[0] !== 0x7b || bytes.length > RECORD_MAX_BYTES) return undefined;
  try {
    const { holdfast, id, fence, holder, value } = JSON.parse(bytes.toString()) as Record<string, unknown>;
    if (holdfast !== 1 || typeof id !== "string" || typeof holder !== "string" || typeof value !== "string") return;
    if (typeof fence !== "string" || !/^[1-9]\d{0,18}$/.test(fence) || value.length > OUTCOME_BYTES_MAX) return;
    return { id, fence: BigInt(fence), holder: clipped(holder, HOLDER_MAX), value };
  } catch {
    return undefined;
  }
}

function isOf(kv: KeyValue | undefined, { id }: Claim, { fence }: Outcome): boolean {
  const record = kv && readOutcome(kv);
  return record?.id === id && record.fence === fence;
}
