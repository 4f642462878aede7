/** What a majority of the members says about locks. */
import type { Forced, Holding, Snapshot } from "../../contract/backend.ts";
import { askMembers } from "./ask-members.ts";
import { firstFence } from "./ballot.ts";
import type { MemberLink } from "./member-link.ts";
import type { Settings } from "./options.ts";
import { majorityOf } from "./votes.ts";

/** Leases that a majority holds, or would if the members that did not answer held them too. */
export async function queryMembers(
  links: readonly MemberLink[],
  settings: Settings,
  prefix: string,
): Promise<Snapshot> {
  const answers = await askMembers(links, settings, prefix, (link) => link.ask((member) => member.query(prefix)));
  const copies = new Map<string, Holding[]>();
  const forced = new Map<string, Forced>();
  for (const { value } of answers) {
    for (const holding of value.held) add(copies, `${holding.fence} ${holding.holder} ${holding.name}`, holding);
    for (const record of value.forced) {
      const fence = firstFence(record.fence);
      const id = `${fence} ${record.name}`;
      if (!forced.has(id)) forced.set(id, { ...record, fence });
    }
  }
  const silent = links.length - answers.length;
  const majority = majorityOf(links.length);
  const held = [...copies.values()].filter(({ length }) => length + silent >= majority);
  return {
    held: held.map((holdings) => merge(holdings, majority - silent)),
    // Members keep no queue: a quorum's waiters wait in their own processes.
    pending: [],
    forced: [...forced.values()],
  };
}

function add(copies: Map<string, Holding[]>, id: string, holding: Holding): void {
  const known = copies.get(id);
  if (known === undefined) copies.set(id, [holding]);
  else known.push(holding);
}

/** The lease expires when the first of the `needed` longest holds ends. */
function merge(holdings: readonly Holding[], needed: number): Holding {
  const longest = holdings.toSorted((a, b) => b.remainingMs - a.remainingMs);
  const decisive = longest[Math.max(0, Math.min(needed, longest.length) - 1)]!;
  const heldMs = Math.max(...holdings.map((holding) => holding.heldMs));
  return { ...decisive, fence: firstFence(decisive.fence), heldMs };
}
