/** The Web Locks standard as types, with what a distributed lock adds. They fit those of TypeScript's DOM library and of Node. */

/** How a lock is held, as the standard names it. */
export type WebLockMode = "exclusive" | "shared";

/** A lock while it is held. */
export interface WebLock {
  readonly name: string;
  readonly mode: WebLockMode;
  /** Not in the standard. Give it to whatever you write to, and let that refuse smaller ones. */
  readonly fence: bigint;
  /** Not in the standard. Aborts, with a `LockLostError` as reason, before the store gives the lock to anyone else. */
  readonly signal: AbortSignal;
}

export interface WebLockOptions {
  /** @default "exclusive" */
  readonly mode?: WebLockMode | undefined;
  /** The callback gets `null` where the lock is not free now. @default false */
  readonly ifAvailable?: boolean | undefined;
  /** Ends the leases of all who hold the lock, and takes it before all who wait. @default false */
  readonly steal?: boolean | undefined;
  /** Stops the waiting; once granted, it no longer matters. */
  readonly signal?: AbortSignal | undefined;
}

export type WebLockCallback<T> = (lock: WebLock | null) => T;

export interface WebLockInfo {
  readonly name: string;
  readonly mode: WebLockMode;
  readonly clientId: string;
}

export interface WebLockSnapshot {
  readonly held: WebLockInfo[];
  readonly pending: WebLockInfo[];
}

/** `navigator.locks` across processes and machines. */
export interface WebLockManager {
  request<T>(name: string, callback: WebLockCallback<T>): Promise<Awaited<T>>;
  request<T>(name: string, options: WebLockOptions, callback: WebLockCallback<T>): Promise<Awaited<T>>;
  query(): Promise<WebLockSnapshot>;
}
