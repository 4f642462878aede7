/** What all classes of redis-semaphore 5 share: acquire, refresh and release, with its options and words. */
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import type { Locks } from "../../core/api.ts";
import { raised } from "../rolling/run-script.ts";
import { LostLockError, TimeoutError } from "./errors.ts";
import { type AcquireOptions, defaultTimeoutOptions, type LayoutOptions, type TimeoutOptions } from "./options.ts";
import type { Grant, Place } from "./place.ts";

/** Called when a refresh finds that the lock is lost. */
export interface LockLostCallback {
  (this: Lock, err: LostLockError): void;
}

export interface LockOptions extends TimeoutOptions, LayoutOptions {
  /** @deprecated Use `identifier` with `acquiredExternally: true`. */
  externallyAcquiredIdentifier?: string | undefined;
  /** @deprecated Use `identifier`. */
  identifierSuffix?: string | undefined;
  /** What stands in the key. Two locks with one identifier are one holder. @default a random UUID */
  identifier?: string | undefined;
  /** The lock with that `identifier` was acquired elsewhere: acquire() refreshes it. */
  acquiredExternally?: true | undefined;
  /** @default throws the error, which nothing catches */
  onLockLost?: LockLostCallback | undefined;
}

/** Of `lockTimeout`: when it is refreshed. */
const REFRESH_PART = 0.8;
/** The longest that a timer can wait. */
const TIMER_MAX_MS = 2 ** 31 - 1;

function throwIt(err: LostLockError): never {
  throw err;
}

export abstract class Lock {
  protected abstract _kind: string;
  protected abstract _key: string;
  protected _identifier: string;
  protected _acquireOptions: AcquireOptions;
  protected _refreshTimeInterval: number;
  protected _refreshInterval?: ReturnType<typeof setInterval> | undefined;
  protected _refreshing = false;
  protected _acquired = false;
  protected _acquiredExternally: boolean;
  protected _onLockLost: LockLostCallback;
  #place: Place | undefined;
  /** By the last try. */
  #taken: Grant | undefined;
  #grant: Grant | undefined;
  /** Until when the lock is surely ours, by `performance.now()`. */
  #trustedMs = 0;
  #lost = new AbortController();
  #trustEnds: NodeJS.Timeout | undefined;

  constructor(options: LockOptions = defaultTimeoutOptions) {
    const { lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval } = defaultTimeoutOptions;
    const { identifier, acquiredExternally, externallyAcquiredIdentifier, identifierSuffix } = options;
    if (identifier !== undefined && (!identifier || typeof identifier !== "string")) {
      throw new Error("identifier must be not empty random string");
    }
    if (acquiredExternally && !identifier) {
      throw new Error("acquiredExternally=true meanless without custom identifier");
    }
    if (externallyAcquiredIdentifier && (identifier || acquiredExternally)) {
      throw new Error("Invalid usage. Use custom identifier and acquiredExternally: true");
    }
    this._identifier = identifier || externallyAcquiredIdentifier || newIdentifier(identifierSuffix);
    this._acquiredExternally = !!acquiredExternally || !!externallyAcquiredIdentifier;
    if (options.locks !== undefined) checkLocks(options.locks, this._acquiredExternally);
    this._acquireOptions = {
      identifier: this._identifier,
      lockTimeout: options.lockTimeout ?? lockTimeout,
      acquireTimeout: options.acquireTimeout ?? acquireTimeout,
      acquireAttemptsLimit: options.acquireAttemptsLimit ?? acquireAttemptsLimit,
      retryInterval: options.retryInterval ?? retryInterval,
    };
    this._refreshTimeInterval = options.refreshInterval ?? Math.round(this._acquireOptions.lockTimeout * REFRESH_PART);
    this._onLockLost = options.onLockLost ?? throwIt;
  }

  get identifier(): string {
    return this._identifier;
  }

  get isAcquired(): boolean {
    return this._acquired;
  }

  /** Of the last time that it was acquired: rises from one holder to the next. `undefined`: several servers, or several permits. */
  get fence(): bigint | undefined {
    return this.#grant?.fence;
  }

  /** Of the last time that it was acquired: aborts when it is lost, and at the latest when it is over by time. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** In the keys, or in the lease. */
  protected get ttlMs(): number {
    return raised(this._acquireOptions.lockTimeout);
  }

  /** Where it is: said once, by the constructor of the class. */
  protected get place(): Place {
    return (this.#place ??= this.makePlace());
  }

  protected abstract makePlace(): Place;

  protected async _acquire(abortSignal?: AbortSignal): Promise<boolean> {
    const grant = await this.place.acquire(this._acquireOptions, abortSignal);
    this.#taken = grant;
    return grant !== undefined;
  }

  protected async _refresh(): Promise<boolean> {
    return await this.place.refresh();
  }

  protected async _release(): Promise<void> {
    await this.place.release();
  }

  stopRefresh(): void {
    clearInterval(this._refreshInterval);
    this._refreshInterval = undefined;
  }

  /** Rejects with a TimeoutError if it could not be had in time, and with the signal's reason. */
  async acquire(abortSignal?: AbortSignal): Promise<void> {
    if (await this.tryAcquire(abortSignal)) return;
    throw new TimeoutError(`Acquire ${this._kind} ${this._key} timeout`);
  }

  /** False: it could not be had in time. */
  async tryAcquire(abortSignal?: AbortSignal): Promise<boolean> {
    this.#taken = undefined;
    const sentMs = performance.now();
    const acquired = this._acquiredExternally ? await this._refresh() : await this._acquire(abortSignal);
    if (acquired) this.#begin(sentMs);
    return acquired;
  }

  /** Does nothing where the lock is no longer this one's. */
  async release(): Promise<void> {
    if (this._refreshTimeInterval > 0) this.stopRefresh();
    clearTimeout(this.#trustEnds);
    this.#grant?.signal?.removeEventListener("abort", this.#leaseLost);
    if (this._acquired || this._acquiredExternally) await this._release();
    this._acquired = false;
    this._acquiredExternally = false;
  }

  #begin(sentMs: number): void {
    this.#grant?.signal?.removeEventListener("abort", this.#leaseLost);
    this.#grant = this.#taken;
    this.#trustedMs = (this.#grant?.sentMs ?? sentMs) + this.ttlMs;
    this._acquired = true;
    this._acquiredExternally = false;
    this.#lost = new AbortController();
    this.#watch();
    this.#grant?.signal?.addEventListener("abort", this.#leaseLost, { once: true });
    if (this._refreshTimeInterval <= 0) return;
    this.stopRefresh();
    this._refreshInterval = setInterval(() => void this.#processRefresh(), this._refreshTimeInterval).unref();
  }

  /** Rejects with what `onLockLost` throws: without one, that ends the process, as in redis-semaphore. */
  async #processRefresh(): Promise<void> {
    if (this._refreshing) return;
    this._refreshing = true;
    const sentMs = performance.now();
    try {
      // A refresh that fails proves nothing, until the lock's time is over.
      const refreshed = await this._refresh().catch(() => (performance.now() < this.#trustedMs ? undefined : false));
      if (refreshed === true) {
        this.#trustedMs = sentMs + this.ttlMs;
        if (this._acquired) this.#watch();
      } else if (refreshed === false) this.#lose();
    } finally {
      this._refreshing = false;
    }
  }

  /** Called by a lease of Holdfast, which knows of its loss before a refresh does. */
  readonly #leaseLost = (): void => {
    // Without refreshes nothing is reported, as in redis-semaphore: the time of the lock is over.
    if (this._refreshInterval === undefined) this.#abort();
    else void Promise.resolve().then(() => this.#lose());
  };

  #lose(): void {
    // It may have been released meanwhile.
    if (!this._acquired) return;
    this._acquired = false;
    this.stopRefresh();
    clearTimeout(this.#trustEnds);
    this.#abort();
    this._onLockLost(this.#lostError());
  }

  /** The signal aborts when trust is over, though a refresh may still be under way. */
  #watch(): void {
    clearTimeout(this.#trustEnds);
    const leftMs = this.#trustedMs - performance.now();
    if (leftMs > TIMER_MAX_MS) return;
    this.#trustEnds = setTimeout(() => this.#abort(), Math.max(0, leftMs)).unref();
  }

  #abort(): void {
    this.#lost.abort(this.#lostError());
  }

  #lostError(): LostLockError {
    return new LostLockError(`Lost ${this._kind} for key ${this._key}`);
  }
}

function checkLocks(locks: unknown, isAcquiredExternally: boolean): void {
  if (typeof (locks as Partial<Locks> | null)?.acquire !== "function") {
    throw new ArgumentError(`Expected \`locks\` to be what createLocks() or connect() gives, got ${got(locks)}`);
  }
  if (!isAcquiredExternally) return;
  throw new ArgumentError(
    "Expected no `acquiredExternally` beside `locks`: a lease of Holdfast belongs to the process that acquired it",
  );
}

function newIdentifier(suffix: string | undefined): string {
  return suffix ? `${randomUUID()}-${suffix}` : randomUUID();
}
