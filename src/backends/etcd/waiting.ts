/** Waits until those ahead of a claim have left. A hint, and cheap: one watch of one key, so that a release wakes one waiter. */
import { onAbort } from "../../contract/on-abort.ts";
import type { EtcdClient } from "./client/client.ts";
import { below, groupOf } from "./keys.ts";
import type { LocalClaim } from "./local-claim.ts";
import type { OutcomeNews } from "./outcome-news.ts";

/**
 * `true`: it may be the claim's turn, or there is the outcome that it wants. `false`: the signal aborted, or nothing more would be
 * heard, so that it must be asked.
 */
export function turn(
  client: EtcdClient,
  outcomes: OutcomeNews,
  local: LocalClaim,
  signal: AbortSignal,
): Promise<boolean> {
  const { blocked } = local;
  if (blocked === undefined || signal.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const left = new Set(blocked.keys.map((key) => key.toString("latin1")));
    const stay = left.size - blocked.mustLeave;
    const settle = (isTurn: boolean): void => {
      unwatch();
      ignore?.();
      unlisten();
      if (local.upset === upset) local.upset = undefined;
      resolve(isTurn);
    };
    const upset = (): void => settle(false);
    const [only] = blocked.keys;
    // Any of several holders may leave first: the keys of all of them are watched, and those that left are counted.
    const range =
      blocked.keys.length === 1 && only !== undefined ? { key: only } : below(groupOf(local.span, local.claim));
    const unwatch = client.watchDeletes(range, blocked.revision + 1n, {
      changed: (keys) => {
        for (const key of keys) left.delete(key.toString("latin1"));
        if (left.size <= stay) settle(true);
      },
      ended: upset,
    });
    const ignore =
      local.claim.wantsOutcome === true ? outcomes.listen(local.outcomeKey, blocked.revision, settle) : undefined;
    const unlisten = onAbort(signal, upset);
    local.upset = upset;
  });
}
