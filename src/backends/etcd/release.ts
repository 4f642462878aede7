/** Ends claims: their keys go for certain, though an answer may be lost; or later, because of a `minHold`. */
import type { Claim, Outcome, Released } from "../../contract/backend.ts";
import { AbandonedClaims } from "./abandoned.ts";
import type { Attempts } from "./attempts.ts";
import type { EtcdClient } from "./client/client.ts";
import type { Operation } from "./client/kv-messages.ts";
import { findClaim } from "./find-claim.ts";
import type { Held } from "./held-leases.ts";
import type { NameKeys } from "./keys.ts";
import type { LocalClaim, Place } from "./local-claim.ts";
import type { Outcomes } from "./outcomes.ts";
import { agoMs, writeClaim } from "./record.ts";
import { removals, removeCreated, removeOurs } from "./transactions.ts";
import type { Upkeep } from "./upkeep.ts";

export interface ReleasesSetup {
  readonly client: EtcdClient;
  readonly keys: NameKeys;
  readonly attempts: Attempts;
  readonly upkeep: Upkeep;
  readonly outcomes: Outcomes;
  /** True: claims of other threads are looked for by their ids. */
  readonly finds: boolean;
}

/** A lease that ends, and what is left behind. */
interface Ending {
  /** As its record will say, where its key is kept. */
  readonly claim: Claim;
  readonly place: Pick<Place, "key" | "shownKey"> & { readonly createRevision: bigint };
  readonly fence: bigint;
  /** For so long the lock stays taken. */
  readonly restMs: number;
  readonly outcome: Outcome | undefined;
  readonly outcomeLeases: Set<bigint>;
}

export class Releases {
  /** Given up here, though their keys may still be there. */
  readonly abandoned: AbandonedClaims;
  readonly #setup: ReleasesSetup;
  /** Released, and kept for their minHold, or because they could not be removed: what removes them later. */
  readonly #delayed = new Map<LocalClaim, NodeJS.Timeout>();

  constructor(setup: ReleasesSetup) {
    this.#setup = setup;
    this.abandoned = new AbandonedClaims(setup.client);
  }

  /** Removes the claim's key. Rejects where that is unknown: then it must be asked again, and nothing was forgotten. */
  async remove(local: LocalClaim, was: Exclude<Released, "absent">): Promise<Released> {
    const { place } = local;
    if (place === undefined) return "absent";
    local.isLeaving = true;
    const { attempts } = this.#setup;
    const handOver = was === "held" ? attempts.rivals.handOver(local.claim.name, place) : [];
    const existed = await this.#removeKey(place, handOver);
    this.#forget(local, place);
    return existed ? was : "absent";
  }

  /** Never rejects: what could not be removed ends with its lease, which is given up. */
  async removeQuietly(local: LocalClaim): Promise<void> {
    try {
      await this.remove(local, "queued");
    } catch {
      const { place } = local;
      if (place === undefined) return;
      const { attempts, upkeep, finds } = this.#setup;
      // No other claim is ever looked for by its id.
      if (finds || local.claim.resumes === true) this.abandoned.add(local.claim.id, place.lease.id);
      place.mayAppear = true;
      place.lease.isTainted = true;
      upkeep.remove(local);
      attempts.forget(local);
      upkeep.haunt(place.lease);
    }
  }

  /**
   * Ends a lease of this process, at once or with the rest of its minHold, and keeps its outcome, in one step. `false`: it was over.
   * After a rejection all is as it was, so that it can be asked again.
   */
  async end(held: Held, restMs: number, outcome: Outcome | undefined): Promise<boolean> {
    const { local, place, fence } = held;
    if (restMs <= 0 && outcome === undefined) return (await this.remove(local, "held")) === "held";
    local.isLeaving = true;
    const { claim, outcomeLeases } = local;
    const { key, shownKey, createRevision = 0n } = place;
    const ended = await this.#end({
      claim,
      place: { key, shownKey, createRevision },
      fence,
      restMs,
      outcome,
      outcomeLeases,
    });
    if (ended && restMs > 0) this.#later(local, restMs, () => this.removeQuietly(local));
    else if (ended) this.#forget(local, place);
    // Whatever was in its place is not this lease: what is left of the claim goes.
    else await this.removeQuietly(local);
    return ended;
  }

  /**
   * Ends a claim that this process does not know: it may be another process's, or not exist. Its own record says how long it must
   * be kept.
   */
  async endUnknown(claim: Claim, outcome: Outcome | undefined): Promise<Released> {
    const found = await findClaim(this.#setup.client, this.#setup.keys, claim);
    if (found === undefined) return "absent";
    const { contender, record, holds, shownKey } = found;
    const { key, createRevision, modRevision: fence } = contender;
    const place = { key, createRevision, shownKey };
    // The lease under which the work was done may be over, and the claim may have taken the lock again.
    const isIts = holds && (outcome?.fence ?? fence) === fence;
    const restMs = holds && claim.resumes === true ? record.minHoldMs - agoMs(record.sinceMs) : 0;
    const { holder, meta } = record;
    const kept = isIts ? outcome : undefined;
    const ending = { claim: { ...claim, holder, meta }, place, fence, restMs, outcome: kept };
    const existed = await (restMs > 0 || kept !== undefined
      ? this.#end({ ...ending, outcomeLeases: new Set() })
      : removeCreated(this.#setup.client, place, createRevision));
    if (!existed || (holds && !isIts)) return "absent";
    return holds ? "held" : "queued";
  }

  stop(): void {
    for (const timer of this.#delayed.values()) clearTimeout(timer);
    this.#delayed.clear();
  }

  /**
   * A claim that waited could not be removed. Its place is not kept any more; and if it was not asked for again when that would have
   * ended by itself, the claim is given up: its lease may live on for others.
   */
  giveUpLater(local: LocalClaim, forget: () => void): void {
    const { place } = local;
    if (place === undefined) return;
    this.#setup.upkeep.remove(local);
    this.#later(local, place.lease.ttlMs, async () => {
      await local.enter();
      try {
        // Otherwise it was removed, or is wanted again.
        if (local.place !== place || !local.isLeaving) return;
        forget();
        await this.removeQuietly(local);
      } finally {
        local.leave();
      }
    });
  }

  /** Its key is gone. */
  #forget(local: LocalClaim, { lease }: Place): void {
    const { attempts, upkeep } = this.#setup;
    upkeep.remove(local);
    attempts.forget(local);
    // Its creation may still be on its way: until its lease ends, the key is looked for.
    if (lease.ghosts.size > 0 && !lease.isGone) upkeep.haunt(lease);
  }

  #later(local: LocalClaim, afterMs: number, work: () => Promise<void>): void {
    clearTimeout(this.#delayed.get(local));
    const timer = setTimeout(() => {
      this.#delayed.delete(local);
      void work();
    }, Math.ceil(afterMs));
    // The process may exit before.
    this.#delayed.set(local, timer.unref());
  }

  async #removeKey(place: Place, more: readonly Operation[]): Promise<boolean> {
    const { client } = this.#setup;
    if (place.createRevision !== undefined) return removeCreated(client, place, place.createRevision, more);
    if (!place.mayAppear) return false;
    const [existed] = await removeOurs(client, [place.key]);
    return existed === true;
  }

  /**
   * The key goes; or stays where it is in the queue for `restMs`, though no claim holds it, and moves to a lease of its own,
   * which is not kept alive: so it outlives this process.
   */
  async #end({ claim, place, fence, restMs, outcome, outcomeLeases }: Ending): Promise<boolean> {
    const { client, outcomes } = this.#setup;
    const { key, createRevision } = place;
    const [remove, ...shown] = removals(place);
    if (remove === undefined) throw new Error("a claim has a key");
    const rest = restMs > 0 ? await client.grantLease(Math.ceil(restMs / 1000)) : undefined;
    const ends = [
      rest ? { put: { key, value: writeClaim(claim, { endedFence: fence }), lease: rest.id } } : remove,
      ...shown,
    ];
    const ended =
      outcome === undefined
        ? (await client.txn({ when: [{ key, createRevision }], success: ends, failure: shown })).succeeded && "now"
        : await outcomes.keep(claim, place, outcome, ends, outcomeLeases);
    if (ended !== "now" && rest !== undefined) void client.revokeLease(rest.id).catch(() => undefined);
    return ended !== false;
  }
}
