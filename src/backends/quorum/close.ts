/** Closes a quorum's members, each when nothing of ours is under way there any more. A minority that does not answer is not waited for. */
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Settings } from "./options.ts";
import { majorityOf, within } from "./round.ts";
import type { Seat } from "./member-link.ts";

/** How long most members are waited for, and then how long the others. */
const CLOSE_MS = 2000;
const OTHERS_MS = 250;
const NAMES_SHOWN = 3;

/**
 * Settles when a majority said that nothing is left there: what a minority may still hold stops nobody, and ends with its
 * ttl. Rejects with what may be left when they did not say so in time.
 */
export async function closeSeats(seats: readonly Seat[], { clock, memberWaitMs }: Settings): Promise<void> {
  const majority = majorityOf(seats.length);
  const closed = new Set<Seat>();
  const left = new Set<string>();
  let enough: () => void;
  const most = new Promise<void>((resolve) => (enough = resolve));
  const all = seats.map(async (seat) => {
    await seat.settled();
    await seat.close().then(
      () => closed.add(seat),
      (error: unknown) => left.add(error instanceof LockBackendError ? error.lock : ""),
    );
    if (closed.size >= majority) enough();
  });
  const done = Promise.all(all);
  await within(clock, Promise.race([most, done]), CLOSE_MS);
  const isEnough = closed.size >= majority;
  if (isEnough) await within(clock, done, Math.min(memberWaitMs, OTHERS_MS));
  const silent = seats.filter((seat) => !closed.has(seat));
  for (const name of silent.flatMap((seat) => seat.leftAt)) left.add(name);
  // Nobody waits for these: what they say now comes too late.
  for (const seat of silent) void seat.close().catch(() => {});
  if (!isEnough) throw leftover(seats.length, silent, [...left]);
}

function leftover(members: number, silent: readonly Seat[], locks: readonly string[]): LockBackendError {
  const who = silent.map(({ label }) => label).join(", ");
  const more = locks.length > NAMES_SHOWN ? ` and ${locks.length - NAMES_SHOWN} more` : "";
  const what = locks.slice(0, NAMES_SHOWN).map(quote).join(", ") + more;
  const text = `something may be left, because ${silent.length} of ${members} members did not answer within ${formatMs(CLOSE_MS)} whether they let go of ${what}: ${who}. It ends by itself after its ttl`;
  return new LockBackendError("quorum", locks[0] ?? "", `Quorum locks: ${text}.`);
}
