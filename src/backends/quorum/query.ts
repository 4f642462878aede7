/** What a majority of the members says about locks. */
import type { Forced, Holding, LockState, Snapshot } from "../../contract/backend.ts";
import { askMembers } from "./ask-members.ts";
import { firstFence } from "./ballot.ts";
import type { MemberLink } from "./member-link.ts";
import type { Settings } from "./options.ts";
import { claimId } from "./round.ts";
import { majorityOf } from "./votes.ts";

/** Leases that a majority holds, or would if the members that did not answer held them too. */
export async function queryMembers(
  links: readonly MemberLink[],
  settings: Settings,
  prefix: string,
): Promise<Snapshot> {
  const answers = await askMembers(links, settings, prefix, (link) => link.ask((member) => member.query(prefix)));
  return mergeAll(
    answers.map(({ value }) => value),
    links.length,
  );
}

/** The same of one lock, and for how long too few members vote because they may have lost leases. */
export async function inspectMembers(
  links: readonly MemberLink[],
  settings: Settings,
  name: string,
): Promise<LockState> {
  const answers = await askMembers(links, settings, name, (link) => link.ask((member) => member.inspect(name)));
  const states = answers.map(({ value }) => value);
  // The lock can be granted when a majority votes again: at least that many have answered. Others may be none of those.
  const abstain = states.map(({ quarantineMs }) => quarantineMs ?? 0).toSorted((a, b) => a - b);
  const quarantineMs = abstain[majorityOf(links.length) - 1]!;
  return { ...mergeAll(states, links.length), ...(quarantineMs > 0 && { quarantineMs }) };
}

function mergeAll(parts: readonly Snapshot[], members: number): Snapshot {
  const copies = new Map<string, Holding[]>();
  const forced = new Map<string, Forced>();
  for (const part of parts) {
    for (const holding of part.held) {
      // One ballot may have been proposed by two: what counts is the claim that has it.
      add(copies, `${holding.fence} ${holding.id ?? holding.holder} ${holding.name}`, holding);
    }
    for (const record of part.forced) {
      const fence = firstFence(record.fence);
      const id = `${fence} ${record.name}`;
      if (!forced.has(id)) forced.set(id, { ...record, fence });
    }
  }
  const silent = members - parts.length;
  const majority = majorityOf(members);
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
  const { meta, local } = mostSaid(longest);
  const id = decisive.id === undefined ? undefined : claimId(decisive.id);
  return { ...decisive, fence: firstFence(decisive.fence), heldMs, meta, ...(local && { local }), ...(id && { id }) };
}

/** What most members show: one that missed the last change has what was said before. */
function mostSaid(holdings: readonly Holding[]): Holding {
  const counts = new Map<string, number>();
  const text = ({ meta, local }: Holding): string =>
    JSON.stringify([meta, local], (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
  for (const holding of holdings) counts.set(text(holding), (counts.get(text(holding)) ?? 0) + 1);
  return holdings.reduce((most, one) => (counts.get(text(one))! > counts.get(text(most))! ? one : most));
}
