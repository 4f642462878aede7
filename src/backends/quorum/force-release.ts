/** Force release: ends a lease at every member that answers. */
import { askMembers } from "./ask-members.ts";
import { ballotOf } from "./ballot.ts";
import type { MemberLink } from "./member-link.ts";
import type { Settings } from "./options.ts";
import { majorityOf } from "./votes.ts";

/** True when it was a lease, and a majority certainly does not hold it any more. */
export async function forceRelease(
  links: readonly MemberLink[],
  settings: Settings,
  name: string,
  fence: bigint,
  by: string,
  reason: string,
): Promise<boolean> {
  const ballot = ballotOf(fence);
  const answers = await askMembers(links, settings, name, (link) =>
    link.ask((member) => member.forceRelease(name, ballot, by, reason)),
  );
  const silent = links.length - answers.length;
  const hits = answers.filter(({ value }) => value).length;
  // What fewer than a majority held was a lost round: it is gone now too, but it was no lease.
  return hits > 0 && hits + silent >= majorityOf(links.length);
}
