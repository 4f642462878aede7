// Locks of Holdfast on plain keys, for a drop-in with `locks`. Loaded only where they are used.
import { redisPlain } from "../../dist/backends/redis-plain/index.js";
import { createLocks } from "../../dist/index.js";

export function locksOf(client) {
  return { locks: createLocks(redisPlain(client)) };
}
