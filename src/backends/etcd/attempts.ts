/** One attempt: joins the queue or looks at it, and says whether the claim holds the lock. */
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { EtcdClient } from "./client/client.ts";
import { EtcdError, isLeaseGone } from "./client/errors.ts";
import type { KeyValue } from "./client/kv-messages.ts";
import { type Contender, type Obstacle, obstacleOf } from "./contenders.ts";
import { isHandedOver, mayHold, Rivals } from "./hand-over.ts";
import { keyOf } from "./keys.ts";
import type { LeasePool } from "./lease-pool.ts";
import type { LocalClaim, Place } from "./local-claim.ts";
import { readOutcome } from "./outcomes.ts";
import { readClaim } from "./record.ts";
import { confirm, join, look, type Look, replace, take } from "./transactions.ts";
import { isWantedAt } from "./wanted.ts";

export type AttemptResult =
  | {
      readonly holds: true;
      readonly place: Place;
      readonly fence: bigint;
      readonly revision: bigint;
      /** A claim waits for it. */
      readonly wanted: boolean;
    }
  | Refusal;

export interface Refusal {
  readonly holds: false;
  readonly order: readonly Contender[];
  /** Of the claim's own key. -1: it has none. */
  readonly index: number;
  /** The first in the queue, with their values. */
  readonly head: readonly KeyValue[];
  /** What the claim wants instead of the lock. */
  readonly outcome?: KeyValue | undefined;
}

/** Nothing is in its way, and its key was changed last at this revision. */
interface Unblocked {
  readonly changed: bigint;
}

const TRIES = 5;

export class Attempts {
  readonly rivals: Rivals = new Rivals();
  readonly #client: EtcdClient;
  readonly #pool: LeasePool;

  constructor(client: EtcdClient, pool: LeasePool) {
    this.#client = client;
    this.#pool = pool;
  }

  /** Throws a fatal {@link LockBackendError} where the claim can never hold: its key may be left, and the caller removes it. */
  async attempt(local: LocalClaim): Promise<AttemptResult> {
    // It may have been released, without success: it is wanted again.
    local.isLeaving = false;
    for (let tries = 1; ; tries++) {
      const created = local.place?.createRevision;
      const result = await (created === undefined ? this.#begin(local) : this.#again(local, created));
      if (result !== undefined) return result;
      // Its key went, with its lease or by force, so it starts at the end of the queue.
      this.forget(local);
      if (tries === TRIES) throw new Error(`its key went ${TRIES} times while it was attempted`);
    }
  }

  /** The claim's first attempt, in one step with the end of another claim. `undefined`: that had ended before, and nothing was done. */
  async replace(before: LocalClaim, local: LocalClaim): Promise<AttemptResult | undefined> {
    const old = before.place;
    if (old === undefined) return undefined;
    const place = await this.#newPlace(local);
    const handOver = this.rivals.handOver(local.claim.name, old, place.key);
    const seen = await this.#create(place, () => replace(this.#client, old, local, place, handOver));
    if (!seen.isDone) {
      place.mayAppear = false;
      this.forget(local);
      return undefined;
    }
    return this.#created(local, place, seen);
  }

  /** The claim's key is certainly gone, or its lease is tainted and will be revoked. */
  forget(local: LocalClaim): void {
    const { place } = local;
    if (place === undefined) return;
    local.place = undefined;
    local.blocked = undefined;
    local.freedRevision = undefined;
    if (place.mayAppear) place.lease.ghosts.set(place.key.toString("latin1"), place.key);
    this.#pool.giveBack(place.lease, local.claim.name);
  }

  /** Joins the queue. `undefined`: start again. */
  async #begin(local: LocalClaim): Promise<AttemptResult | undefined> {
    const { claim } = local;
    const place = local.place ?? (await this.#newPlace(local));
    try {
      if (!claim.queues && claim.limit > 1 && !place.mayAppear) return await this.#takePlace(local, place);
      const make = claim.queues ? join : take;
      const seen = await this.#create(place, () => make(this.#client, local, place));
      return this.#joined(local, place, seen);
    } catch (error) {
      if (!isLeaseGone(error)) throw error;
      this.#pool.drop(place.lease);
      return undefined;
    }
  }

  async #newPlace(local: LocalClaim): Promise<Place> {
    const { claim, span } = local;
    const seconds = Math.ceil((claim.ttlMs + claim.lockDelayMs) / 1000);
    const lease = await this.#pool.take(claim.name, seconds, claim.renewed !== true);
    local.place = {
      key: keyOf(span.key, claim, lease.id),
      lease,
      createRevision: undefined,
      mayAppear: false,
      shownKey: undefined,
    };
    return local.place;
  }

  /** Notes what a lost answer means: the key may appear at any time, as long as its lease lives. */
  async #create(place: Place, ask: () => Promise<Look>): Promise<Look> {
    try {
      const seen = await ask();
      place.lease.confirmed(seen.term, seen.askedMs);
      return seen;
    } catch (error) {
      if (error instanceof EtcdError && error.isRefusal) throw error;
      place.mayAppear = true;
      place.lease.isTainted = true;
      throw error;
    }
  }

  #joined(local: LocalClaim, place: Place, seen: Look): Promise<AttemptResult | undefined> | AttemptResult | undefined {
    if (seen.isDone) return this.#created(local, place, seen);
    if (seen.own !== undefined) return this.#found(local, place, seen.own);
    // It did not join, and nothing of it is left, unless an earlier request is still on its way.
    return this.#hasIgnored(local, seen) ? undefined : { ...seen, holds: false, index: -1 };
  }

  /**
   * What is where an outcome would be may be none: then it does not count, as long as it is not changed. Otherwise it would keep
   * those who want an outcome from the lock for ever. `true`: that has changed, so that another attempt may succeed.
   */
  #hasIgnored(local: LocalClaim, { outcome }: Look): boolean {
    if (isOutcome(outcome)) return false;
    const ignored = outcome?.modRevision ?? 0n;
    const isNew = local.outcomeIgnored !== ignored;
    local.outcomeIgnored = ignored;
    return isNew;
  }

  /** The transaction created the key: its revision is that of the whole cluster then. */
  #created(local: LocalClaim, place: Place, seen: Look): Promise<AttemptResult | undefined> | AttemptResult {
    const index = seen.order.findIndex(({ key }) => key.equals(place.key));
    const own = seen.order[index];
    if (own?.createRevision !== seen.revision) throw new Error("the key that was created is not in its queue");
    place.createRevision = seen.revision;
    this.#checkRevision(local, seen);
    const obstacle = obstacleOf(seen.order, index);
    // Another process may ask for the same claim: it shall see in the key whether it holds, and with which fence.
    if (obstacle === undefined && local.claim.resumes === true) return this.#again(local, seen.revision);
    // No claim was before it in the instant of its creation: the revision of that is the fence.
    if (obstacle === undefined) {
      return { holds: true, place, fence: seen.revision, revision: seen.revision, wanted: false };
    }
    this.rivals.saw(local, seen, index);
    return this.#blocked(local, seen, index, obstacle);
  }

  /** An earlier request, whose answer was lost, created it. */
  #found(local: LocalClaim, place: Place, own: KeyValue): Promise<AttemptResult | undefined> {
    if (readClaim(own.value).id !== local.claim.id) {
      // Two claims on one lock never share a lease, so this cannot be.
      throw new Error(`the key ${place.key.toString()} is another claim's`);
    }
    place.createRevision = own.createRevision;
    return this.#again(local, own.createRevision);
  }

  /** The claim is in the queue: may it hold now? `undefined`: its key is gone. */
  async #again(local: LocalClaim, created: bigint): Promise<AttemptResult | undefined> {
    const place = local.place as Place;
    await this.#pool.freshen(place.lease);
    let then = local.freedRevision;
    let result = this.#judge(local, place, created, await look(this.#client, local, place, then));
    for (let tries = 1; isUnblocked(result); tries++) {
      if (tries === TRIES) throw new Error(`what is beside its queue changed ${TRIES} times while it was attempted`);
      const { changed } = result;
      // Written by the release of the one before it, perhaps, which its watch has not reported: the queue of that revision shows it.
      const mayBeHandedOver = changed !== then && mayHold(local, changed);
      if (mayBeHandedOver) then = changed;
      const seen = await (mayBeHandedOver
        ? look(this.#client, local, place, then)
        : confirm(this.#client, local, place, created, changed));
      result = this.#judge(local, place, created, seen);
    }
    return result;
  }

  #judge(local: LocalClaim, place: Place, created: bigint, seen: Look): AttemptResult | Unblocked | undefined {
    place.lease.confirmed(seen.term, seen.askedMs);
    if (seen.isDone) {
      this.#checkRevision(local, seen);
      const { revision, wanted = false } = seen;
      return { holds: true, place, fence: revision, revision, wanted };
    }
    const { own } = seen;
    if (own?.createRevision !== created) return undefined;
    const index = seen.order.findIndex(({ key }) => key.equals(place.key));
    const obstacle = obstacleOf(seen.order, index);
    this.rivals.saw(local, seen, index);
    if (obstacle === undefined && isGrantOf(local, own)) return this.#wasGranted(local, place, own, seen, index);
    if (isOutcome(seen.outcome)) return { ...seen, holds: false, index };
    this.#hasIgnored(local, seen);
    if (obstacle !== undefined) return this.#blocked(local, seen, index, obstacle);
    if (!isHandedOver(local, own, seen.firstThen)) return { changed: own.modRevision };
    // Its record says when it began to wait: if the lease lasts for a while, this is shown beside it.
    local.toShow ??= local.claim;
    local.heldSinceMs = Date.now();
    local.shownMs = -Infinity;
    return this.#wasGranted(local, place, own, seen, index);
  }

  /** The last write of its key was the grant. */
  #wasGranted(local: LocalClaim, place: Place, own: KeyValue, seen: Look, index: number): AttemptResult {
    this.#checkRevision(local, seen);
    const wanted = isWantedAt(seen.order, index);
    return { holds: true, place, fence: own.modRevision, revision: seen.revision, wanted };
  }

  #blocked(local: LocalClaim, seen: Look, index: number, obstacle: Obstacle): AttemptResult {
    const { otherLimit, ahead, mustLeave } = obstacle;
    if (otherLimit !== undefined) throw mixedUse(local, otherLimit);
    const keys = ahead.map(({ key }) => key);
    local.blocked = { keys, mustLeave, revision: seen.revision, knownRevision: this.#client.revision };
    local.freedRevision = undefined;
    return { holds: false, order: seen.order, index, head: seen.head };
  }

  /**
   * One of several places, for a claim that does not queue: if there is one, and no other claim has come since it was seen. A claim
   * that cannot hold must not be in the way of others, not even for a moment.
   */
  async #takePlace(local: LocalClaim, place: Place): Promise<AttemptResult | undefined> {
    for (;;) {
      const seen = await look(this.#client, local, place);
      const { limit } = local.claim;
      const isFull = seen.order.length >= limit || seen.order.some(({ kind }) => kind.limit !== limit);
      if (isFull || isOutcome(seen.outcome)) return { ...seen, holds: false, index: -1 };
      this.#hasIgnored(local, seen);
      const taken = await this.#create(place, () => take(this.#client, local, place, seen.revision));
      // Otherwise another claim was quicker, so that there are fewer places: this ends.
      if (taken.isDone || taken.own !== undefined) return this.#joined(local, place, taken);
    }
  }

  /** A cluster that was restored from an old snapshot counts from there again, and would give fences that it has given. */
  #checkRevision({ claim }: LocalClaim, { isDone, revision, knownRevision }: Look): void {
    // What it wrote has a revision of its own.
    if (isDone ? revision > knownRevision : revision >= knownRevision) return;
    const message = `Lock ${quote(claim.name)}: etcd at ${this.#client.endpoints} went back from revision ${knownRevision} to ${revision}, so it was restored from an older snapshot, and its fences would repeat. Restore it with a higher revision (--bump-revision), or start anew with another \`base\`.`;
    throw new LockBackendError("etcd", claim.name, message, { fatal: true });
  }
}

/**
 * It was granted the lock before, and that answer was lost. A key that was only changed may have been changed by any program, while
 * others held the lock: its revision is no fence.
 */
function isGrantOf({ claim }: LocalClaim, { value }: KeyValue): boolean {
  const { id, isGranted } = readClaim(value);
  return isGranted && id === claim.id;
}

function isUnblocked(result: AttemptResult | Unblocked | undefined): result is Unblocked {
  return result !== undefined && "changed" in result;
}

function isOutcome(found: KeyValue | undefined): boolean {
  return found !== undefined && readOutcome(found) !== undefined;
}

function mixedUse({ claim }: LocalClaim, otherLimit: number): LockBackendError {
  const message = `Lock ${quote(claim.name)} is in use with limit ${otherLimit}, but this claim asks for limit ${claim.limit}. All claimants must agree on it.`;
  return new LockBackendError("etcd", claim.name, message, { fatal: true });
}
