/** The reference backend: locks inside one process, for tests, for development, and to read how a backend behaves. */
import type {
  Abilities,
  Claim,
  Granted,
  Listener,
  LockState,
  Member,
  Outcome,
  Refused,
  Released,
  Renewal,
  Snapshot,
  Swapped,
  Vote,
} from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import { LockBackendError } from "../../contract/errors.ts";
import type { LossReason } from "../../contract/loss.ts";
import type { Client } from "./lock.ts";
import { MemoryStore, memoryStore, type MemoryStoreOptions } from "./store.ts";

export interface MemoryOptions extends MemoryStoreOptions {
  /** A store shared with other backends, as processes share a server. @default a store of its own */
  readonly store?: MemoryStore | undefined;
}

const CAN: Abilities = { outcomes: true, wanted: true, otherTtl: true, steal: true, waiters: true, linger: true };
const HELD: Renewal = { held: true };
const WANTED: Renewal = { held: true, wanted: true };
const GONE: Renewal = { held: false, reason: { kind: "gone" } };

/** Makes a backend over a store in memory. Several backends over one store behave as several processes would. */
export function memory(options: MemoryOptions = {}): Member {
  const store = options.store ?? memoryStore(options);
  return new MemoryBackend(store, options.clock ?? store.clock);
}

class MemoryBackend implements Member, Client {
  readonly name = "memory";
  readonly ephemeral = true;
  readonly can: Abilities = CAN;
  readonly #store: MemoryStore;
  readonly #clock: Clock;
  readonly #watches = new Set<() => void>();
  #listener: Listener | undefined;
  #closed = false;

  constructor(store: MemoryStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  // The methods are async although nothing in them waits: a throw becomes a rejection, as from any other store.

  async attempt(claim: Claim): Promise<Granted | Refused> {
    this.#assertOpen(claim.name);
    return this.#store.attempt(claim, this);
  }

  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    return new Promise((resolve) => {
      if (this.#closed || signal.aborted) return resolve(undefined);
      let unwatch = (): void => undefined;
      const stop = (granted?: Granted): void => {
        unwatch();
        this.#watches.delete(end);
        signal.removeEventListener("abort", end);
        resolve(granted);
      };
      const end = (): void => stop();
      this.#watches.add(end);
      signal.addEventListener("abort", end, { once: true });
      // Called in the instant of the grant, so trust counts from this process's clock there.
      unwatch = this.#store.watch(claim, (granted) => stop(granted && { ...granted, fromMs: this.#clock.now() }));
    });
  }

  async renew(claims: readonly Claim[], fences?: readonly bigint[]): Promise<readonly Renewal[]> {
    this.#assertOpen(claims[0]?.name ?? "");
    return claims.map((claim, at) => {
      const was = this.#store.renew(claim, fences?.[at]);
      if (was === false) return GONE;
      return was === "wanted" ? WANTED : HELD;
    });
  }

  async release(claim: Claim, outcome?: Outcome): Promise<Released> {
    this.#assertOpen(claim.name);
    const was = this.#store.release(claim, false, outcome);
    if (was === "held") this.#store.freed.notify(claim.name);
    return was;
  }

  async swap(held: Claim, next: Claim): Promise<Swapped> {
    this.#assertOpen(held.name);
    const released = this.#store.release(held);
    return { ...this.#store.attempt(next, this), released };
  }

  async query(prefix: string): Promise<Snapshot> {
    this.#assertOpen(prefix);
    return this.#store.query(prefix);
  }

  async inspect(name: string): Promise<LockState> {
    this.#assertOpen(name);
    return this.#store.inspect(name);
  }

  async forceRelease(name: string, fence: bigint, by: string, reason: string): Promise<boolean> {
    this.#assertOpen(name);
    const was = this.#store.forceRelease(name, fence, by, reason);
    if (was) this.#store.freed.notify(name);
    return was;
  }

  async steal(claim: Claim, reason: string): Promise<Granted | Refused> {
    this.#assertOpen(claim.name);
    return this.#store.steal(claim, this, reason);
  }

  async forget(name: string, fence: bigint): Promise<boolean> {
    this.#assertOpen(name);
    return this.#store.forget(name, fence);
  }

  async vote(claim: Claim, ballot: bigint): Promise<Vote> {
    this.#assertOpen(claim.name);
    return this.#store.vote(claim, ballot, this);
  }

  async withdraw(claim: Claim): Promise<Released> {
    this.#assertOpen(claim.name);
    const was = this.#store.release({ ...claim, minHoldMs: 0 }, true);
    if (was === "held") this.#store.freed.notify(claim.name);
    return was;
  }

  freed(name: string, wake: () => void): () => void {
    return this.#store.freed.listen(name, wake);
  }

  async want(name: string): Promise<void> {
    this.#assertOpen(name);
    this.#store.want(name);
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  /** Called by the store. Reported after its step, so the listener may use the store again. */
  lost(claimId: string, reason: LossReason): void {
    queueMicrotask(() => this.#listener?.lost(claimId, reason));
  }

  wanted(claimId: string): void {
    queueMicrotask(() => this.#listener?.wanted?.(claimId));
  }

  /** Ends what waits here. Leases stay until their ttl, as after the end of any process. The core releases them before. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#listener = undefined;
    for (const end of this.#watches) end();
  }

  #assertOpen(name: string): void {
    if (!this.#closed) return;
    throw new LockBackendError("memory", name, "The memory backend is closed.", { fatal: true });
  }
}
