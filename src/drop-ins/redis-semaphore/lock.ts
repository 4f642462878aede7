/** What all classes of redis-semaphore 5 share: acquire, refresh and release, with its options and words. */
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { ArgumentError, got } from "../../contract/argument-error.ts";
import type { Locks } from "../../core/api.ts";
import { raised } from "../rolling/run-script.ts";
import { LostLockError, TimeoutError } from "./errors.ts";
import { Hold } from "./hold.ts";
import { type AcquireOptions, defaultTimeoutOptions, type LayoutOptions, type TimeoutOptions } from "./options.ts";
import { type Grant, type Place, UnknownError } from "./place.ts";

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
  readonly #isRandom: boolean;
  #place: Place | undefined;
  /** By the last try. */
  #taken: Grant | undefined;
  /** The last time that it was acquired. */
  #hold: Hold | undefined;
  /** Its release has begun. */
  #leaving: Hold | undefined;
  /** Calls of acquire() that are under way. */
  #tries = 0;
  readonly #never = new AbortController();

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
    this.#isRandom = !identifier && !externallyAcquiredIdentifier;
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

  /** While it is refreshed, false from when its time is over: also where no timer has run yet. */
  get isAcquired(): boolean {
    return this._acquired && (this._refreshInterval === undefined || this.#hold?.isTrusted !== false);
  }

  /** Of the last time that it was acquired: rises from one holder to the next. `undefined`: several servers, or several permits. */
  get fence(): bigint | undefined {
    return this.#hold?.fence;
  }

  /** Of the last time that it was acquired: aborts when it is lost, and at the latest when it is over by time. */
  get signal(): AbortSignal {
    return (this.#hold ?? this.#never).signal;
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
    const isOurs = (): boolean => this.#isRandom && !this._acquired && this.#tries === 1;
    const grant = await this.place.acquire(this._acquireOptions, { signal: abortSignal, isOurs });
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
    this.#tries++;
    try {
      const sentMs = performance.now();
      const acquired = this._acquiredExternally ? await this.#adopt() : await this._acquire(abortSignal);
      return acquired && this.#begin(this.#taken ?? { sentMs, fence: undefined });
    } finally {
      this.#tries--;
    }
  }

  /** Does nothing where the lock is no longer this one's. */
  async release(): Promise<void> {
    if (this._refreshTimeInterval > 0) this.stopRefresh();
    const hold = (this.#leaving = this.#hold);
    hold?.leave();
    // Where that fails, its signal still aborts when its time is over.
    if (this._acquired || this._acquiredExternally) await this._release();
    hold?.end();
    // It may have been acquired again meanwhile.
    if (hold !== this.#hold) return;
    this._acquired = false;
    this._acquiredExternally = false;
  }

  /** What was acquired elsewhere is this one's if a refresh finds it. */
  async #adopt(): Promise<boolean> {
    return await this._refresh().catch((error: unknown) => {
      if (error instanceof UnknownError) return false;
      throw error;
    });
  }

  /** False: the answer came too late to be believed. */
  #begin(grant: Grant): boolean {
    const hold = new Hold(grant, this.ttlMs, (one) => this.#over(one));
    if (!hold.isTrusted) {
      hold.end();
      return false;
    }
    this.#hold?.end();
    this.#hold = hold;
    this._acquired = true;
    this._acquiredExternally = false;
    this._refreshing = false;
    if (this._refreshTimeInterval <= 0) return true;
    this.stopRefresh();
    this._refreshInterval = setInterval(() => void this.#processRefresh(hold), this._refreshTimeInterval).unref();
    return true;
  }

  /** Rejects with what `onLockLost` throws: without one, that ends the process, as in redis-semaphore. */
  async #processRefresh(hold: Hold): Promise<void> {
    if (this._refreshing) return;
    this._refreshing = true;
    const sentMs = performance.now();
    // A refresh that fails proves nothing, until the lock's time is over.
    const refreshed = await this._refresh().catch(() => undefined);
    // An answer about an earlier time that it was acquired says nothing about this one; nor does one that a release overtook.
    if (hold !== this.#hold || hold === this.#leaving) return;
    this._refreshing = false;
    const isHeld = refreshed === true ? hold.confirm(sentMs) : refreshed === undefined && hold.isTrusted;
    if (!isHeld) this.#lose(hold);
  }

  /** Its time is over, though a refresh may be under way; or its lease is lost, which a lease knows before a refresh does. */
  #over(hold: Hold): void {
    // Without refreshes nothing is reported, as in redis-semaphore.
    if (hold !== this.#hold || this._refreshInterval === undefined) hold.abort(this.#lostError());
    else void Promise.resolve().then(() => this.#lose(hold));
  }

  #lose(hold: Hold): void {
    // It may have been released meanwhile.
    if (!this._acquired || hold !== this.#hold) return;
    this._acquired = false;
    this.stopRefresh();
    hold.end();
    hold.abort(this.#lostError());
    this._onLockLost(this.#lostError());
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
