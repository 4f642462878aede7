/** The two errors of redis-semaphore 5. As there, neither has a name of its own: `instanceof` tells them. */

/** A refresh found that the lock is no longer ours. */
export class LostLockError extends Error {}

/** The lock could not be had within `acquireTimeout` or `acquireAttemptsLimit`. */
export class TimeoutError extends Error {}
