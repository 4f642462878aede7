/** Guards in Redis: writes that run only under the latest fence, and marks for other guards. */
export type { IoredisLike, NodeRedisLike, RedisLike, RedisValue } from "./client.ts";
export {
  fenceKey,
  type MarkKeyOptions,
  type RedisCommand,
  redisMarks,
  writeFenced,
  type WriteFencedOptions,
} from "./guard.ts";
