/** Finds a lease that another process has won: members know it by the claim's id and what that process's round added to it. */
import type { Claim, Recalled } from "../../contract/backend.ts";
import type { Settings } from "./options.ts";
import { Round } from "./round.ts";
import type { Seat } from "./member-link.ts";
import { Standing } from "./claim-state.ts";
import { askAll } from "./query.ts";

/** What most members know under that id, as if it had been won here. Whether a majority still holds it is for a renewal to say. */
export async function recall(seats: readonly Seat[], settings: Settings, claim: Claim): Promise<Standing | undefined> {
  const answers = await askAll(seats, settings, claim.name, (seat) =>
    seat.ask(async (member) => member.recall?.(claim.name, claim.id)),
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
  const standing = new Standing(claim);
  standing.round = new Round(seats, settings, claim, most.lease.ballot, () => undefined, undefined, most.lease.id);
  // Nobody here has believed in it yet: that a majority still holds it is enough.
  standing.trustedUntilMs = Infinity;
  return standing;
}
