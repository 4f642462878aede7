/** Resumes a lease that another process has won: members know it by the claim's id with the suffix of that process's round. */
import type { Claim, Recalled } from "../../contract/backend.ts";
import { askMembers } from "./ask-members.ts";
import { ClaimState } from "./claim-state.ts";
import type { MemberLink } from "./member-link.ts";
import type { Settings } from "./options.ts";
import { Round } from "./round.ts";

/** The lease that most members know under that id, as if it had been won here. A renewal decides whether a majority still holds it. */
export async function resumeLease(
  links: readonly MemberLink[],
  settings: Settings,
  claim: Claim,
): Promise<ClaimState | undefined> {
  const answers = await askMembers(links, settings, claim.name, (link) =>
    link.ask(async (member) => member.recall?.(claim.name, claim.id)),
  );
  const counts = new Map<string, { readonly lease: Recalled; count: number }>();
  for (const { value } of answers) {
    if (value === undefined) continue;
    const known = counts.get(value.id);
    const isNewer = known === undefined || value.ballot > known.lease.ballot;
    counts.set(value.id, { lease: isNewer ? value : known.lease, count: (known?.count ?? 0) + 1 });
  }
  const [most] = [...counts.values()].toSorted((a, b) => b.count - a.count);
  if (most === undefined) return undefined;
  const state = new ClaimState(claim);
  state.round = new Round(links, settings, claim, most.lease.ballot, () => undefined, undefined, most.lease.id);
  // This process has not trusted it yet: it is enough that a majority still holds it.
  state.trustedUntilMs = Infinity;
  return state;
}
