/**
 * Waits until those ahead of a claim have left. A hint, and cheap: one watch of one key, so that a release wakes one waiter.
 *
 * A member looks back for watches that begin in the past only ten times a second. So this one begins now, and the member says
 * after which revision that is. If the claim saw those ahead of it at that revision or later, nothing lies in between. Otherwise
 * they are looked for once more, by a read that is not older: what went before the watch began, this shows; what goes later, the watch.
 */
import { onAbort } from "../../contract/on-abort.ts";
import type { EtcdClient } from "./client/client.ts";
import type { KeyRange } from "./client/watch-messages.ts";
import { below, groupOf } from "./keys.ts";
import type { Blocked, LocalClaim } from "./local-claim.ts";
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
    let isSettled = false;
    const settle = (isTurn: boolean): void => {
      isSettled = true;
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
    const look = async (sinceRevision: bigint): Promise<void> => {
      const there = await stillThere(client, range, blocked, sinceRevision).catch(() => undefined);
      if (isSettled) return;
      if (there === undefined) return upset();
      for (const key of left) if (!there.has(key)) left.delete(key);
      if (left.size <= stay) settle(true);
    };
    const unwatch = client.watchDeletes(range, undefined, {
      began: (revision) => {
        if (revision > blocked.revision) void look(revision);
      },
      changed: (keys, revision) => {
        for (const key of keys) left.delete(key.toString("latin1"));
        if (left.size > stay) return;
        local.freedRevision = revision;
        settle(true);
      },
      ended: upset,
    });
    const ignore =
      local.claim.wantsOutcome === true ? outcomes.listen(local.outcomeKey, blocked.revision, settle) : undefined;
    const unlisten = onAbort(signal, upset);
    local.upset = upset;
  });
}

/** Which of the keys ahead are there, at `sinceRevision` or later. `undefined`: the member that was asked is behind. */
async function stillThere(
  client: EtcdClient,
  range: KeyRange,
  { revision }: Blocked,
  sinceRevision: bigint,
): Promise<ReadonlySet<string> | undefined> {
  const { header, kvs } = await client.range({ ...range, keysOnly: true, serializable: true });
  if (header.revision < sinceRevision) return undefined;
  // A process may have left, and queued again with a key of the same name: that one is behind.
  return new Set(kvs.filter((kv) => kv.createRevision <= revision).map(({ key }) => key.toString("latin1")));
}
