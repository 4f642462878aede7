/** The locks of redis-semaphore 5 that live on one server. */
import type { AnyClient } from "../rolling/run-script.ts";
import { Clean } from "./clean.ts";
import { mutexLayout, semaphoreLayout } from "./layout.ts";
import { Lock, type LockOptions } from "./lock.ts";
import { checkKey, checkLimit, checkPermits, permitMembers } from "./arguments.ts";
import { OneServer } from "./one-server.ts";
import type { Place } from "./place.ts";

/** One holder at a time. The key is `mutex:<key>`. */
export class Mutex extends Lock {
  protected _kind = "mutex";
  protected _key: string;
  protected _client: AnyClient;
  protected readonly _locks: LockOptions["locks"];

  constructor(client: AnyClient, key: string, options?: LockOptions) {
    super(options);
    if (!client) throw new Error('"client" is required');
    checkKey(key);
    this._client = client;
    this._key = `mutex:${key}`;
    this._locks = options?.locks;
  }

  protected makePlace(): Place {
    const { ttlMs, _key: name } = this;
    if (this._locks !== undefined) return new Clean(this._locks, { name, limit: 1, permits: 1, ttlMs });
    return new OneServer(this._client, mutexLayout(name, this._identifier, ttlMs), ttlMs);
  }
}

/** As many holders at a time as `limit` says. The key is `semaphore:<key>`. */
export class Semaphore extends Mutex {
  protected override _kind = "semaphore";
  protected _limit: number;

  constructor(client: AnyClient, key: string, limit: number, options?: LockOptions) {
    super(client, key, options);
    checkLimit(limit);
    this._key = `semaphore:${key}`;
    this._limit = limit;
  }

  protected override makePlace(): Place {
    const { ttlMs, _key: name, _limit: limit } = this;
    const members = this.members();
    if (this._locks !== undefined) return new Clean(this._locks, { name, limit, permits: members.length, ttlMs });
    return new OneServer(this._client, semaphoreLayout(name, members, limit, ttlMs), ttlMs);
  }

  protected members(): readonly string[] {
    return [this._identifier];
  }
}

/** A semaphore of which several permits are taken at once, all or none. */
export class MultiSemaphore extends Semaphore {
  protected override _kind = "multi-semaphore";
  protected _permits: number;

  constructor(client: AnyClient, key: string, limit: number, permits: number, options?: LockOptions) {
    super(client, key, limit, options);
    checkPermits(permits);
    this._permits = permits;
  }

  protected override members(): readonly string[] {
    return permitMembers(this._identifier, this._permits);
  }
}
