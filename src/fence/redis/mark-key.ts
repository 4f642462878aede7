/** Where a lock's mark lives in Redis. */
import { checkLock } from "../fenced.ts";

/**
 * The key of a lock's mark. In a Redis Cluster the data must be in the same slot: put the lock's name in the data
 * keys as a hash tag (`{invoice:42}:total`), or use a name that has a tag (`invoice:{42}`) and the same tag in the data keys.
 */
export function fenceKey(lock: string): string {
  checkLock(lock);
  // The second colon keeps the names `x` and `{x}` apart.
  return hasTag(lock) ? `holdfast:fence::${lock}` : `holdfast:fence:{${lock}}`;
}

/** Redis hashes what is between the first `{` and the first `}` after it, unless that is empty. */
function hasTag(name: string): boolean {
  const open = name.indexOf("{");
  return open !== -1 && name.indexOf("}", open) > open + 1;
}
