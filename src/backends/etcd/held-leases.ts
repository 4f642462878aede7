/**
 * The claims of this process that hold their locks. A lease of the cluster may serve many of them and is kept alive as a
 * whole, but each must end when it is not renewed. So each has a local deadline, at which its key is removed.
 */
import type { Claim, Granted } from "../../contract/backend.ts";
import { systemClock } from "../../contract/clock.ts";
import { type Deadline, Deadlines } from "../../contract/deadlines.ts";
import type { EtcdClient } from "./client/client.ts";
import type { LocalClaim, Place } from "./local-claim.ts";
import { type WantedOf, WantedWatch } from "./wanted.ts";

/** Its deadline passes when it was not renewed in time. */
export interface Held extends Deadline {
  readonly local: LocalClaim;
  readonly claim: Claim;
  readonly place: Place;
  readonly fence: bigint;
  /** When it began, by the local clock. */
  readonly sinceMs: number;
  /** How long a confirmation is trusted. */
  readonly ttlMs: number;
  /** Its key was there at this revision. */
  seenRevision: bigint;
  /** Present: the holder wants to know when its lock is wanted. */
  wantedOf: WantedOf | undefined;
  wantedWatch: WantedWatch | undefined;
  unwatch: (() => void) | undefined;
}

export interface HeldListener {
  /** It was not renewed in time: its key must go. */
  expired(held: Held): void;
  /** Its key was deleted, and not by us. */
  deleted(held: Held): void;
  /** It is no longer watched: its key may have been deleted unheard. */
  unheard(held: Held): void;
  /** A claim has begun to wait for it. */
  wanted(held: Held): void;
  /** It was not released at once. */
  lasts(held: Held): void;
}

/** Most are released sooner, and need no watch of their own. */
const WATCH_AFTER_MS = 100;

export class HeldLeases {
  readonly #client: EtcdClient;
  readonly #listener: HeldListener;
  readonly #held = new Map<string, Held>();
  readonly #unwatched = new Set<Held>();
  // The process may exit: the cluster then ends the lease.
  readonly #deadlines: Deadlines<Held> = new Deadlines(systemClock, false, (nowMs) => this.#expire(nowMs));
  #watchTimer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(client: EtcdClient, listener: HeldListener) {
    this.#client = client;
    this.#listener = listener;
  }

  get(claimId: string): Held | undefined {
    return this.#held.get(claimId);
  }

  all(): readonly Held[] {
    return [...this.#held.values()];
  }

  begin(local: LocalClaim, place: Place, fence: bigint, seenRevision: bigint, wanted: boolean): Granted {
    const { claim } = local;
    const held: Held = {
      local,
      claim,
      place,
      fence,
      sinceMs: performance.now(),
      // What the cluster gave beyond what was asked for is part of the ttl; the delay after an unclean end is not.
      ttlMs: place.lease.ttlMs - claim.lockDelayMs,
      seenRevision,
      wantedOf: undefined,
      wantedWatch: undefined,
      unwatch: undefined,
      atMs: 0,
      heapIndex: -1,
    };
    this.#held.set(claim.id, held);
    this.extend(held);
    this.#watchSoon(held);
    return toGranted(held, wanted);
  }

  /** Its holder wants to know from now on when it is wanted, and what has come since it was seen last. */
  expectWanted(held: Held): void {
    if (held.wantedOf !== undefined || this.#isStopped) return;
    const { claim, span } = held.local;
    held.wantedOf = { claim, span, key: held.place.key };
    held.wantedWatch = new WantedWatch(this.#client, held.wantedOf, held.seenRevision, () => {
      if (this.#isHeld(held)) this.#listener.wanted(held);
    });
  }

  /** The lease was confirmed. `false`: the claim had ended before. */
  extend(held: Held): boolean {
    if (this.#held.get(held.claim.id) !== held) return false;
    const { lease } = held.place;
    // What is alone in its lease ends with that, whichever thread keeps it alive.
    if (!lease.isAlone) this.#deadlines.set(held, lease.provenMs + lease.ttlMs);
    return true;
  }

  /** It is about to be released: what becomes of its key is no news. */
  quiet(held: Held): void {
    this.#unwatched.delete(held);
    held.unwatch?.();
    held.unwatch = undefined;
    held.wantedWatch?.stop();
    held.wantedWatch = undefined;
  }

  /** Forgets it. `false`: it was forgotten before. */
  end(held: Held): boolean {
    this.#deadlines.clear(held);
    this.quiet(held);
    return this.#held.get(held.claim.id) === held && this.#held.delete(held.claim.id);
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#watchTimer);
    this.#deadlines.stop();
    for (const held of this.all()) this.end(held);
  }

  #expire(nowMs: number): void {
    for (let due = this.#deadlines.take(nowMs); due !== undefined; due = this.#deadlines.take(nowMs)) {
      this.#listener.expired(due);
    }
  }

  #watchSoon(held: Held): void {
    if (this.#isStopped) return;
    this.#unwatched.add(held);
    if (this.#watchTimer !== undefined) return;
    this.#watchTimer = setTimeout(() => {
      this.#watchTimer = undefined;
      const due = [...this.#unwatched];
      this.#unwatched.clear();
      for (const one of due) {
        this.#watch(one);
        this.#listener.lasts(one);
      }
    }, WATCH_AFTER_MS);
    this.#watchTimer.unref();
  }

  #watch(held: Held): void {
    held.unwatch = this.#client.watchDeletes({ key: held.place.key }, held.seenRevision + 1n, {
      changed: () => {
        if (this.#isHeld(held)) this.#listener.deleted(held);
      },
      ended: () => {
        held.unwatch = undefined;
        if (!this.#isHeld(held)) return;
        // From what a renewal has seen: the rest may be compacted.
        this.#listener.unheard(held);
        this.#watchSoon(held);
      },
    });
  }

  #isHeld(held: Held): boolean {
    return this.#held.get(held.claim.id) === held;
  }
}

export function toGranted({ place, fence, ttlMs }: Held, wanted: boolean): Granted {
  const granted = { granted: true, fence, run: 1, fromMs: place.lease.provenMs, ttlMs, mayLinger: true } as const;
  return wanted ? { ...granted, wanted } : granted;
}
