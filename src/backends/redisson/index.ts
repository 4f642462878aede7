/** Redisson: the locks of Redisson (Java), shared with it: RLock, RReadWriteLock and RFencedLock. */
export { redisson } from "./backend.ts";
export type { RedissonBackend } from "./backend.ts";
export type { RedissonKind, RedissonOptions } from "./options.ts";
