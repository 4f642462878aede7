/** Closes a quorum's members, each when nothing of ours is under way there any more. Does not wait for a minority that does not answer. */
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { within } from "../../contract/time-limit.ts";
import type { MemberLink } from "./member-link.ts";
import type { Settings } from "./options.ts";
import { majorityOf } from "./votes.ts";

/** How long to wait for a majority, and then for the other members. */
const CLOSE_MS = 2000;
const OTHERS_MS = 250;
const NAMES_SHOWN = 3;

/**
 * Settles when a majority confirmed that nothing is left there: what a minority may still hold blocks no claim, and ends with
 * its ttl. Rejects with what may be left when they did not confirm it in time.
 */
export async function closeMembers(links: readonly MemberLink[], { clock, memberWaitMs }: Settings): Promise<void> {
  const majority = majorityOf(links.length);
  const closed = new Set<MemberLink>();
  const left = new Set<string>();
  let enough: () => void;
  const most = new Promise<void>((resolve) => (enough = resolve));
  const all = links.map(async (link) => {
    await link.settled();
    await link.close().then(
      () => closed.add(link),
      (error: unknown) => left.add(error instanceof LockBackendError ? error.lock : ""),
    );
    if (closed.size >= majority) enough();
  });
  const done = Promise.all(all);
  await within(clock, Promise.race([most, done]), CLOSE_MS);
  const isEnough = closed.size >= majority;
  if (isEnough) await within(clock, done, Math.min(memberWaitMs, OTHERS_MS));
  const silent = links.filter((link) => !closed.has(link));
  for (const name of silent.flatMap((link) => link.pendingLocks)) left.add(name);
  // Not awaited: their answer comes too late.
  for (const link of silent) void link.close().catch(() => {});
  if (!isEnough) throw leftover(links.length, silent, [...left]);
}

function leftover(members: number, silent: readonly MemberLink[], locks: readonly string[]): LockBackendError {
  const who = silent.map(({ label }) => label).join(", ");
  const more = locks.length > NAMES_SHOWN ? ` and ${locks.length - NAMES_SHOWN} more` : "";
  const what = locks.slice(0, NAMES_SHOWN).map(quote).join(", ") + more;
  const text = `something may be left, because ${silent.length} of ${members} members did not confirm within ${formatMs(CLOSE_MS)} that they released ${what}: ${who}. It expires after its ttl`;
  return new LockBackendError("quorum", locks[0] ?? "", `Quorum locks: ${text}.`);
}
