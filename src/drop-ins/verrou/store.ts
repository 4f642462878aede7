/** A store for Verrou's locks. Each that is saved is a lease of Holdfast, with its fence and its signal. */
import { randomBytes } from "node:crypto";
import { E_LOCK_NOT_OWNED } from "@verrou/core";
import { ArgumentError } from "../../contract/argument-error.ts";
import { MAX_TTL_MS } from "../../contract/duration.ts";
import { isA, LockBackendError, LockLostError, quote } from "../../contract/errors.ts";
import type { AcquireOptions, Lease, Locks } from "../../core/api.ts";
import { takeByClaim } from "../../core/by-claim.ts";
import { type Inside, insides } from "../../core/inside.ts";
import { toClaim } from "../../core/options.ts";
import { CLAIM_BYTES, claimIdOf, toMeta } from "./owners.ts";

const TTL_MIN_MS = 100;
/** A lock without an end ends then. */
const HOLD_MAX_MS = 30 * MAX_TTL_MS;
/** Leases that are over are forgotten when there are more. */
const LEASES_MAX = 1024;

/** What Verrou asks of a store. */
export interface VerrouStore {
  save(key: string, owner: string, ttl: number | null): Promise<boolean>;
  delete(key: string, owner: string): Promise<void>;
  forceDelete(key: string): Promise<void>;
  exists(key: string): Promise<boolean>;
  extend(key: string, owner: string, duration: number): Promise<void>;
}

/** A lock of Verrou, as far as it is known by. */
export interface VerrouLock {
  serialize(): { readonly key: string; readonly owner: string };
}

/** In the place of `redisStore({ connection })` and its like. */
export interface HoldfastDriver {
  factory(): VerrouStore;
  /** The lease of a lock that this process has acquired: its `fence`, its `signal`, its `remaining()`. `undefined`: it has none. */
  leaseOf(lock: VerrouLock): Lease | undefined;
}

const stores = new WeakMap<Locks, HoldfastStore>();

/** A driver for Verrou over these locks: `new Verrou({ default: "main", stores: { main: { driver: holdfastStore(locks) } } })`. */
export function holdfastStore(locks: Locks): HoldfastDriver {
  const inside = insides.get(locks);
  if (inside === undefined) throw new ArgumentError("Expected `locks` to be those of createLocks() or connect()");
  const store = stores.get(locks) ?? new HoldfastStore(locks, inside);
  stores.set(locks, store);
  return { factory: () => store, leaseOf: (lock) => store.leaseOf(lock) };
}

class HoldfastStore implements VerrouStore {
  readonly #locks: Locks;
  readonly #inside: Inside;
  /** Those of this process, by key and owner. */
  readonly #leases = new Map<string, Lease>();

  constructor(locks: Locks, inside: Inside) {
    this.#locks = locks;
    this.#inside = inside;
  }

  leaseOf(lock: VerrouLock): Lease | undefined {
    const { key, owner } = lock.serialize();
    return this.#leases.get(placeOf(key, owner));
  }

  async save(key: string, owner: string, ttl: number | null): Promise<boolean> {
    // Of whole bytes, so that it is the same when it was hidden.
    const id = randomBytes(CLAIM_BYTES).toString("base64url");
    const lease = await takeByClaim(this.#inside, key, { ...termsOf(ttl), meta: toMeta(key, owner, id) }, { id });
    if (lease === null) return false;
    this.#forgetOld();
    this.#leases.set(placeOf(key, owner), lease);
    return true;
  }

  async delete(key: string, owner: string): Promise<void> {
    const lease = this.#mine(key, owner);
    this.#leases.delete(placeOf(key, owner));
    if (lease === undefined) return await this.#deleteElsewhere(key, owner);
    const result = await lease.release();
    if (result === "unknown") throw this.#unknown(key, "it was released");
    if (result === "lost") throw new E_LOCK_NOT_OWNED();
  }

  async forceDelete(key: string): Promise<void> {
    const { held } = await this.#locks.inspect(key);
    for (const { fence } of held) await this.#locks.forceRelease(key, { fence, reason: "forceRelease() of Verrou" });
  }

  async exists(key: string): Promise<boolean> {
    return await this.#locks.isHeld(key);
  }

  async extend(key: string, owner: string, duration: number): Promise<void> {
    const lease = this.#mine(key, owner);
    if (lease === undefined) return await this.#extendElsewhere(key, owner, duration);
    try {
      await lease.extend(toTtlMs(duration));
    } catch (error) {
      throw isA(LockLostError, error) ? new E_LOCK_NOT_OWNED([], { cause: error }) : error;
    }
  }

  /** The lease of this process, if it is surely held. One that another process has extended is over here, and not there. */
  #mine(key: string, owner: string): Lease | undefined {
    const lease = this.#leases.get(placeOf(key, owner));
    return lease !== undefined && lease.remaining() > 0 ? lease : undefined;
  }

  /** The lock was restored: the process that acquired it learns through its signal that it is released. */
  async #deleteElsewhere(key: string, owner: string): Promise<void> {
    const { fence } = await this.#find(key, owner);
    const released = await this.#locks.forceRelease(key, {
      fence,
      reason: "restored and released elsewhere",
    });
    if (!released) throw new E_LOCK_NOT_OWNED();
  }

  async #extendElsewhere(key: string, owner: string, duration: number): Promise<void> {
    const { fence, id } = await this.#find(key, owner);
    const { engine, checked } = this.#inside;
    const spec = checked({ ...termsOf(duration), ttl: toTtlMs(duration) });
    const claim = { ...toClaim(id, key, engine.holder, spec, false), resumes: true };
    const [renewal] = await engine.backend.renew([claim], [fence]);
    if (renewal?.held === false) throw await this.#whyNotExtended(key, owner, fence);
    if (renewal?.held !== true) throw this.#unknown(key, "it was extended", renewal?.cause);
  }

  /** Where the lease is still there, the store renews it only for the process that it lives with: files do. */
  async #whyNotExtended(key: string, owner: string, fence: bigint): Promise<Error> {
    const found = await this.#find(key, owner).catch((error: Error) => error);
    if (found instanceof Error || found.fence !== fence) return new E_LOCK_NOT_OWNED();
    const { name } = this.#inside.engine.backend;
    const message = `Lock ${quote(key)} was not extended: on the ${name} store only the process that acquired it can do that.`;
    return new LockBackendError(name, key, message, { fatal: true });
  }

  /** The lease of an owner, wherever it was acquired. */
  async #find(key: string, owner: string): Promise<{ readonly fence: bigint; readonly id: string }> {
    const { held } = await this.#locks.inspect(key);
    for (const { fence, meta } of held) {
      const id = claimIdOf(meta, key, owner);
      if (id !== undefined) return { fence, id };
    }
    throw new E_LOCK_NOT_OWNED();
  }

  #forgetOld(): void {
    if (this.#leases.size < LEASES_MAX) return;
    for (const [place, lease] of this.#leases) if (lease.remaining() === 0) this.#leases.delete(place);
  }

  #unknown(key: string, what: string, cause?: unknown): LockBackendError {
    const { name } = this.#inside.engine.backend;
    return new LockBackendError(name, key, `Lock ${quote(key)}: the store did not say whether ${what}.`, { cause });
  }
}

/**
 * As Verrou means a ttl: the lock ends after it, unless it is extended. Without one it is kept alive until it is released. A `maxHold` is on
 * every lock that is renewed, also so that no other request of this process gets the lease in memory, with this owner's name on it.
 */
function termsOf(ttl: number | null): AcquireOptions {
  const one = { mode: "exclusive", limit: 1 } as const;
  // As in Verrou, 0 is no ttl.
  if (!ttl) return { ...one, renew: true, maxHold: HOLD_MAX_MS };
  if (ttl > MAX_TTL_MS) return { ...one, renew: true, ttl: MAX_TTL_MS, maxHold: Math.ceil(ttl) };
  return { ...one, renew: false, ttl: toTtlMs(ttl) };
}

/** Shorter ones no store can keep apart from its own delays: they are raised. */
function toTtlMs(ttl: number): number {
  return Math.min(MAX_TTL_MS, Math.max(TTL_MIN_MS, Math.ceil(ttl)));
}

function placeOf(key: string, owner: string): string {
  return JSON.stringify([key, owner]);
}
