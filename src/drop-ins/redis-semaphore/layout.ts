/** The keys of redis-semaphore: a string for a mutex, a sorted set for a semaphore. */
import { extend, extendPermits, release, releasePermits, take, takePermits } from "../rolling/generated/scripts.ts";
import type { Call } from "../rolling/run-script.ts";

/** What is asked of a server. `take` and `refresh` have done it if they answer 1. */
export interface Layout {
  /** `isOurs`: only this question can have put its identifier there, so that one that is there is no other's. */
  readonly take: (isOurs: boolean) => Call;
  readonly refresh: Call;
  readonly release: Call;
}

export function mutexLayout(key: string, identifier: string, ttlMs: number): Layout {
  const keys = [key];
  const args = [identifier, String(ttlMs)];
  return {
    take: (isOurs) => ({ script: take, keys, args: isOurs ? args : [...args, "1"] }),
    refresh: { script: extend, keys, args },
    release: { script: release, keys, args: [identifier] },
  };
}

/** `members`: one for each permit. */
export function semaphoreLayout(key: string, members: readonly string[], limit: number, ttlMs: number): Layout {
  const keys = [key];
  const terms = [String(ttlMs), String(limit)];
  return {
    take: (isOurs) => ({ script: takePermits, keys, args: [...terms, isOurs ? "0" : "1", ...members] }),
    refresh: { script: extendPermits, keys, args: [String(ttlMs), ...members] },
    release: { script: releasePermits, keys, args: members },
  };
}
