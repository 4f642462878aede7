/** Plain locks of Redis: the common string lock of Redis, shared with redis-py, redsync, redlock and others. */
export { redisPlain } from "./backend.ts";
export type { RedisPlainBackend } from "./backend.ts";
export type { RedisPlainOptions } from "./options.ts";
