/** Closes a quorum's members. A minority that does not answer is not waited for. */
import type { Member } from "../backend.ts";
import type { Clock } from "../clock.ts";
import { within } from "./round.ts";

/** Resolves when a majority has closed, and the others have or `waitMs` has passed. Rejects when most of them could not say that nothing is left. */
export async function closeMembers(clock: Clock, members: readonly Member[], waitMs: number): Promise<void> {
  const troubles: unknown[] = [];
  const closing = members.map((member) => member.close().catch((error: unknown) => troubles.push(error)));
  let left = closing.length;
  await new Promise<void>((resolve) => {
    // What a minority may still hold stops nobody, and ends with its ttl.
    for (const one of closing) void one.then(() => (--left * 2 < closing.length ? resolve() : undefined));
  });
  await within(clock, Promise.all(closing), waitMs);
  if (troubles.length * 2 > closing.length) throw troubles[0];
}
