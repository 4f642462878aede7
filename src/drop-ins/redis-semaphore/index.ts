/** A drop-in for redis-semaphore 5: its names over the same keys, or over Holdfast's own. */
export { LostLockError, TimeoutError } from "./errors.ts";
export type { LockLostCallback, LockOptions } from "./lock.ts";
export { MultiSemaphore, Mutex, Semaphore } from "./mutex.ts";
export { defaultTimeoutOptions, type TimeoutOptions } from "./options.ts";
export { RedlockMultiSemaphore, RedlockMutex, RedlockSemaphore } from "./redlock-mutex.ts";
