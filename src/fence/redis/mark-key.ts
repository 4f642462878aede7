/** Where a lock's mark lives in Redis. */
import { checkLock } from "../fenced.ts";

export interface MarkKeyOptions {
  /** What the keys of the marks start with: the backend's `prefix`, say. All writers of the data must agree. @default "holdfast" */
  readonly prefix?: string | undefined;
}

const PREFIX = "holdfast";
/** As the Redis backend's: so one ACL pattern fits both. */
const PREFIX_FORM = /^[^\s{}*?[\]\\]{1,200}$/u;

/**
 * The key of a lock's mark. In a Redis Cluster the data must be in the same slot: put the lock's name in the data
 * keys as a hash tag (`{invoice:42}:total`), or use a name that has a tag (`invoice:{42}`) and the same tag in the data keys.
 */
export function fenceKey(lock: string, options: MarkKeyOptions = {}): string {
  checkLock(lock);
  const { prefix = PREFIX } = options;
  if (!PREFIX_FORM.test(prefix)) {
    throw new TypeError(
      `Expected \`prefix\` to have no braces, spaces or glob characters, got ${JSON.stringify(prefix)}`,
    );
  }
  // The second colon keeps the names `x` and `{x}` apart.
  return hasTag(lock) ? `${prefix}:fence::${lock}` : `${prefix}:fence:{${lock}}`;
}

/** Redis hashes what is between the first `{` and the first `}` after it, unless that is empty. */
function hasTag(name: string): boolean {
  const open = name.indexOf("{");
  return open !== -1 && name.indexOf("}", open) > open + 1;
}
