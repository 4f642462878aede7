/**
 * A release that grants: the transaction that removes the holder's key also writes the key of the next claim, as it is. So the next
 * claim has the revision of its fence without a write of its own, and between a release and the next entry lies one write of the
 * cluster instead of two.
 *
 * Who is next is a guess, and no claim believes in it. One that finds its key written holds with the revision of that only if the
 * cluster shows two things: the key is there and the first of its queue now, and it was the first when it was written. Then every
 * earlier holder was gone at that revision, so that it is above all their fences. Otherwise the claim writes its key itself.
 * `docs/decisions` has the proof.
 */
import type { KeyValue, Operation } from "./client/kv-messages.ts";
import type { Kind } from "./keys.ts";
import type { LocalClaim, Place } from "./local-claim.ts";
import { readClaim } from "./record.ts";
import type { Look } from "./transactions.ts";

/** More are forgotten, the oldest first: then the next claim writes its key itself. */
const RIVALS_MAX = 1000;

/** The last other claim of Holdfast that was seen at each lock, by its key: behind ours it is the next; ahead of ours, it may come again. */
export class Rivals {
  readonly #keys = new Map<string, Buffer>();

  /** The queue for the lock, with the values of those at its head. `index`: of our own. */
  saw({ claim, span }: LocalClaim, { order, head }: Pick<Look, "order" | "head">, index: number): void {
    const { name } = claim;
    const at = index === 0 ? 1 : index - 1;
    const rival = order[at];
    const known = head[at];
    // Keys of other programs are theirs to write.
    if (rival === undefined || known === undefined || !isPlain(rival.kind) || !rival.key.equals(known.key)) return;
    // Where names are paths, it may be the key of a lock below this one, which may be held: then its last revision is a fence.
    if (readClaim(known.value).id === "" || rival.key.includes("/", span.key.length)) return;
    this.#keys.delete(name);
    this.#keys.set(name, rival.key);
    if (this.#keys.size <= RIVALS_MAX) return;
    for (const oldest of this.#keys.keys()) {
      this.#keys.delete(oldest);
      return;
    }
  }

  /** Goes with the removal of the holder's key, and does nothing where the rival does not queue behind it. `next`: a key that is written anyway. */
  handOver(
    name: string,
    { key, createRevision }: Pick<Place, "key" | "createRevision">,
    next?: Buffer,
  ): readonly Operation[] {
    const rival = this.#keys.get(name);
    if (rival === undefined || createRevision === undefined || rival.equals(key) || next?.equals(rival) === true)
      return [];
    return [{ txn: { when: [{ key: rival, createRevision, is: "greater" }], success: [{ touch: { key: rival } }] } }];
  }
}

/**
 * The claim waited, and the last write of its key, at revision `changed`, may have been its grant. Anything that was seen before it
 * waited is older: a cluster that was restored from a snapshot may count from there again. Where several processes ask for one claim,
 * its record must say that it holds; where it has a minHold, since when: another process may release it.
 */
export function mayHold({ claim, blocked }: LocalClaim, changed: bigint): boolean {
  if (!isPlain(claim) || claim.resumes === true || claim.minHoldMs > 0) return false;
  return blocked !== undefined && changed > blocked.knownRevision;
}

/** `own`: the claim's key, the first of its queue now. `firstThen`: the first of the queue at a revision, if that was asked. */
export function isHandedOver(local: LocalClaim, own: KeyValue, firstThen: Look["firstThen"]): boolean {
  // At another revision it may have been the first, and have been written before, while others held the lock.
  if (firstThen?.revision !== own.modRevision || !mayHold(local, own.modRevision)) return false;
  // Any program may have written it, also without its lease: then it would last for longer than that, or end before it.
  if (own.lease !== local.place?.lease.id) return false;
  const { kv } = firstThen;
  return kv?.createRevision === own.createRevision && readClaim(own.value).id === local.claim.id;
}

function isPlain({ mode, limit }: Kind): boolean {
  return mode === "exclusive" && limit === 1;
}
