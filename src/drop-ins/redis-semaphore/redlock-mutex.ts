/** The locks of redis-semaphore 5 that are held with a majority of several independent servers. */
import type { AnyClient } from "../rolling/run-script.ts";
import { checkKey, checkLimit, checkPermits, permitMembers } from "./arguments.ts";
import { Clean } from "./clean.ts";
import { mutexLayout, semaphoreLayout } from "./layout.ts";
import { Lock, type LockOptions } from "./lock.ts";
import type { Place } from "./place.ts";
import { SeveralServers } from "./several-servers.ts";

/** One holder at a time. The key on each server is `mutex:<key>`. */
export class RedlockMutex extends Lock {
  protected _kind = "redlock-mutex";
  protected _key: string;
  protected _clients: AnyClient[];
  protected readonly _locks: LockOptions["locks"];

  constructor(clients: AnyClient[], key: string, options?: LockOptions) {
    super(options);
    if (!clients || !Array.isArray(clients)) throw new Error('"clients" array is required');
    checkKey(key);
    this._clients = clients;
    this._key = `mutex:${key}`;
    this._locks = options?.locks;
  }

  protected makePlace(): Place {
    const { ttlMs, _key: name } = this;
    if (this._locks !== undefined) return new Clean(this._locks, { name, limit: 1, permits: 1, ttlMs });
    return new SeveralServers(this._clients, mutexLayout(name, this._identifier, ttlMs), ttlMs);
  }
}

/** As many holders at a time as `limit` says. The key on each server is `semaphore:<key>`. */
export class RedlockSemaphore extends RedlockMutex {
  protected override _kind = "redlock-semaphore";
  protected _limit: number;

  constructor(clients: AnyClient[], key: string, limit: number, options?: LockOptions) {
    super(clients, key, options);
    checkLimit(limit);
    this._key = `semaphore:${key}`;
    this._limit = limit;
  }

  protected override makePlace(): Place {
    const { ttlMs, _key: name, _limit: limit } = this;
    const members = this.members();
    if (this._locks !== undefined) return new Clean(this._locks, { name, limit, permits: members.length, ttlMs });
    return new SeveralServers(this._clients, semaphoreLayout(name, members, limit, ttlMs), ttlMs);
  }

  protected members(): readonly string[] {
    return [this._identifier];
  }
}

/** A semaphore of which several permits are taken at once, all or none. */
export class RedlockMultiSemaphore extends RedlockSemaphore {
  protected override _kind = "redlock-multi-semaphore";
  protected _permits: number;

  constructor(clients: AnyClient[], key: string, limit: number, permits: number, options?: LockOptions) {
    super(clients, key, limit, options);
    checkPermits(permits);
    this._permits = permits;
  }

  protected override members(): readonly string[] {
    return permitMembers(this._identifier, this._permits);
  }
}
