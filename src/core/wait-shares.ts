/**
 * For whom it was waited at one lock. All who wait at a time wait for the same: so their time is added up as one area, and goes to those
 * who are known to hold the lock then, in equal parts. Who holds it is known in two ways:
 *
 * - of leases of this process, exactly, when they begin and end;
 * - of others by the word of the store, now and then. Until the next word the time is theirs; the next one says how long it has been
 *   held, and from that instant on the time is the new holder's.
 *
 * Where none is known, it is not known whose the time is.
 */
import type { Holding, Mode } from "../contract/backend.ts";
import { clipped, HOLDER_MAX } from "../contract/foreign.ts";
import type { WaitedFor } from "./contention-api.ts";
import { toMicroseconds } from "./histogram.ts";

/** How many are kept apart; those with the least wait are added up. */
const HOLDERS_MAX = 16;
/** Leases that are held at once for more reasons than these are one. */
const OWN_MAX = 64;
const REASON_SHOWN = 200;
/** More changes of how many wait are added up early. */
const STEPS_MAX = 64;

interface Who {
  readonly holder: string;
  readonly reason: string | undefined;
}

/** A lease that begins. */
export interface Beginning {
  readonly holder: string;
  readonly meta: unknown;
  readonly mode: Mode;
  readonly limit: number;
  /** The first of its run. */
  readonly fence: bigint;
  /** The lock may stay taken after its end, by a `minHold` or a `lockDelay`. */
  readonly remains: boolean;
}

/** A lease of this process. */
export interface OwnLease extends Pick<Beginning, "fence" | "remains"> {
  readonly own: Own;
}

/** Those of one holder and reason. It stays for the next when there are none: to make it anew is what costs most. */
interface Own {
  readonly who: Who;
  count: number;
}

/** A lease of another, as the store reported it. */
interface Reported {
  readonly who: Who;
  readonly mode: Mode;
  readonly limit: number;
  readonly fence: bigint;
  readonly heldMs: number;
}

interface Step {
  readonly atMs: number;
  readonly by: number;
}

interface Share {
  readonly who: Who;
  waitMs: number;
  waits: number;
}

/** Those who are not kept apart. */
const REST: Who = { holder: "", reason: undefined };

export class WaitShares {
  waiting = 0;
  waitMs = 0;
  #unknownMs = 0;
  #shares: Share[] = [];
  #rest: Share = { who: REST, waitMs: 0, waits: 0 };
  /** Leases of this process. */
  readonly #ownRest: Own = { who: REST, count: 0 };
  #own: Own[] = [this.#ownRest];
  #ownCount = 0;
  /** How many of them have each fence: those who share a lock may share it. Looked up often, by thousands of readers at once. */
  readonly #ownFences: Map<bigint, number> = new Map();
  #reported: readonly Reported[] = [];
  /** Changes of how many wait, since it was added up. */
  #steps: Step[] = [];
  /** The last lease of this process that ended: who holds with no greater fence does no longer. */
  #endedFence = 0n;

  /** Nothing is going on here. */
  get idle(): boolean {
    return this.waiting === 0 && this.#ownCount === 0;
  }

  /** The store has named one of another process. */
  get hasOthers(): boolean {
    return this.#reported.length > 0;
  }

  /** One waits since `atMs`. */
  enter(atMs: number, nowMs: number): void {
    this.#step(atMs, nowMs, 1);
    for (const who of this.#holding()) this.#share(who).waits++;
  }

  leave(atMs: number): void {
    this.#step(atMs, atMs, -1);
    if (this.waiting > 0) return;
    this.settle(atMs);
    // The store's word was for those who waited: later ones get their own.
    this.#reported = [];
  }

  begin(lease: Beginning, nowMs: number): OwnLease {
    this.settle(nowMs);
    const who = whoOf(lease);
    const isNew = this.waiting > 0 && !this.#holding().some((one) => isSame(one, who));
    if (this.#reported.length > 0)
      this.#reported = this.#reported.filter((other) => fits(other, lease) && other.fence !== lease.fence);
    const own = this.#ownOf(who);
    own.count++;
    this.#ownCount++;
    this.#ownFences.set(lease.fence, (this.#ownFences.get(lease.fence) ?? 0) + 1);
    if (isNew) this.#share(own.who).waits += this.waiting;
    return { own, fence: lease.fence, remains: lease.remains };
  }

  end({ own, fence, remains }: OwnLease, nowMs: number): void {
    this.settle(nowMs);
    if (fence > this.#endedFence && !remains) this.#endedFence = fence;
    own.count--;
    this.#ownCount--;
    const left = (this.#ownFences.get(fence) ?? 1) - 1;
    if (left === 0) this.#ownFences.delete(fence);
    else this.#ownFences.set(fence, left);
  }

  /** The store says who holds the lock. With `isNews: false` it said so some time ago. */
  hear(heldBy: readonly Holding[], nowMs: number, isNews: boolean): void {
    const before = this.#holding();
    if (heldBy.length === 0 || (!isNews && before.length > 0)) return;
    const reported = heldBy.filter((holding) => this.#isAnother(holding)).map(read);
    const added = reported.filter(({ who }) => !before.some((one) => isSame(one, who)));
    // From here on all of them held it.
    const heldMs = added.length === 0 ? 0 : Math.min(...added.map((one) => one.heldMs));
    this.settle(nowMs - heldMs);
    this.#reported = reported;
    for (const share of new Set(added.map(({ who }) => this.#share(who)))) share.waits += this.waiting;
  }

  /** Not of this process, and not known to be over. */
  #isAnother({ mode, limit, fence }: Holding): boolean {
    const isOver = mode === "exclusive" && limit === 1 && fence <= this.#endedFence;
    return !isOver && !this.#ownFences.has(fence);
  }

  #ownOf(who: Who): Own {
    for (const own of this.#own) if (isSame(own.who, who)) return own;
    if (this.#own.length >= OWN_MAX) this.#own = this.#own.filter((own) => own.count > 0 || own === this.#ownRest);
    if (this.#own.length >= OWN_MAX) return this.#ownRest;
    const own: Own = { who, count: 0 };
    this.#own.push(own);
    return own;
  }

  /** Who holds it, as far as is known. */
  #holding(): readonly Who[] {
    const holding: Who[] = [];
    for (const { who, count } of this.#own) if (count > 0) holding.push(who);
    for (const { who } of this.#reported) holding.push(who);
    return holding;
  }

  #step(atMs: number, nowMs: number, by: number): void {
    this.waiting += by;
    this.#steps.push({ atMs, by });
    if (this.#steps.length > STEPS_MAX) this.settle(nowMs);
  }

  /** Adds up to this instant, for those who are known to have held the lock until then. */
  settle(untilMs: number): void {
    if (this.#steps.length === 0) return;
    let area = 0;
    let waiting = 0;
    const later: Step[] = [];
    for (const step of this.#steps) {
      if (step.atMs > untilMs) later.push(step);
      else {
        area += step.by * (untilMs - step.atMs);
        waiting += step.by;
      }
    }
    if (waiting !== 0) later.push({ atMs: untilMs, by: waiting });
    this.#steps = later;
    if (area !== 0) this.#give(area);
  }

  #give(area: number): void {
    this.waitMs += area;
    const all = this.#ownCount + this.#reported.length;
    if (all === 0) this.#unknownMs += area;
    for (const { who, count } of this.#own) if (count > 0) this.#share(who).waitMs += (area * count) / all;
    for (const { who } of this.#reported) this.#share(who).waitMs += area / all;
  }

  #share(who: Who): Share {
    if (who === REST) return this.#rest;
    const known = this.#shares.find((share) => isSame(share.who, who));
    if (known !== undefined) return known;
    if (this.#shares.length >= HOLDERS_MAX) this.#giveWay();
    const share: Share = { who, waitMs: 0, waits: 0 };
    this.#shares.push(share);
    return share;
  }

  /** The smallest, which is not one of those who hold the lock now if that can be helped. */
  #giveWay(): void {
    const now = this.#holding();
    const byWait = this.#shares.toSorted((a, b) => a.waitMs - b.waitMs);
    const least = byWait.find(({ who }) => !now.some((one) => isSame(one, who))) ?? byWait[0]!;
    this.#shares = this.#shares.filter((share) => share !== least);
    this.#rest.waitMs += least.waitMs;
    this.#rest.waits += least.waits;
  }

  /** Forgets what was counted, and goes on. */
  reset(nowMs: number): void {
    this.settle(nowMs);
    this.waitMs = 0;
    this.#unknownMs = 0;
    this.#shares = [];
    this.#rest = { who: REST, waitMs: 0, waits: 0 };
    if (this.waiting > 0) for (const who of this.#holding()) this.#share(who).waits = this.waiting;
  }

  show(): { holders: readonly WaitedFor[]; otherHolders: Omit<WaitedFor, "holder" | "reason">; unknownMs: number } {
    const shown = ({ waitMs, waits }: Share): Pick<Share, "waitMs" | "waits"> => ({
      waitMs: toMicroseconds(waitMs),
      waits,
    });
    const holders = this.#shares.toSorted((a, b) => b.waitMs - a.waitMs);
    return {
      holders: holders.map((share) => ({ ...share.who, ...shown(share) })),
      otherHolders: shown(this.#rest),
      unknownMs: toMicroseconds(this.#unknownMs),
    };
  }
}

function isSame(a: Who, b: Who): boolean {
  return a === b || (a.holder === b.holder && a.reason === b.reason);
}

/** Both may hold the lock at once. */
function fits(a: Pick<Reported, "mode" | "limit">, b: Pick<Reported, "mode" | "limit">): boolean {
  if (a.mode === "shared" || b.mode === "shared") return a.mode === b.mode;
  return a.limit > 1 && b.limit > 1;
}

function read(holding: Holding): Reported {
  const { mode, limit, fence, heldMs } = holding;
  return { who: whoOf(holding), mode, limit, fence, heldMs: Number.isFinite(heldMs) ? Math.max(0, heldMs) : 0 };
}

/** Who it is, for people. What a custom backend says may be anything. */
function whoOf({ holder, meta }: { readonly holder: string; readonly meta: unknown }): Who {
  let reason: unknown;
  try {
    reason = (meta as { readonly reason?: unknown } | undefined)?.reason;
  } catch {
    // A getter that throws.
  }
  const text = typeof reason === "string" ? clipped(reason, REASON_SHOWN) : undefined;
  return { holder: clipped(holder, HOLDER_MAX), reason: text };
}
