/**
 * What makes a lease of a lock that somebody else handed over: the ttl that the claim asks for, and, where it is to outlive its
 * process, the change from the file that the claim waited by, which ends with the process, to one that does not.
 *
 * That change is one entry: before it the lock is free as soon as the process has died; from it on the lease lasts for its ttl,
 * whoever goes on with it. Nobody is told of the lease before.
 */
import { holderIn, type Mine } from "./local-claim.ts";
import { disk, remove } from "./disk.ts";
import { type Head, isHead, type LockLog } from "./log.ts";
import type { Owners } from "./lease-files.ts";
import type { Place } from "./directory.ts";
import { retime } from "./retime.ts";
import { tooBusy } from "./errors.ts";

const TRIES_MAX = 1000;

/** The claim holds by this entry, and was renewed a moment ago. `false`: its lease is gone. */
export function accept(log: LockLog, options: { owners: Owners; place: Place }, mine: Mine, head: Head): boolean {
  const { claim } = mine;
  const owner = mine.owner!;
  if (options.owners.isProvisional(mine)) return detach(log, options.owners, mine);
  if (claim.ttlMs !== owner.facts.ttlMs) mine.owner = retime(log, options.place, owner, claim.ttlMs) ?? owner;
  mine.fromMs = owner.fromMs;
  mine.held = holderIn(head.state, mine);
  return true;
}

/** Binds a lease to no process any more. `false`: it is gone. */
export function detach(log: LockLog, owners: Owners, mine: Mine): boolean {
  const waited = mine.owner!;
  const owner = owners.own(mine.claim);
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const head = log.read(false);
    const before = head?.state.holders.find(({ owner: { id } }) => id === waited.facts.id);
    // Another process that asked for the same claim may have been faster.
    let held = head?.state.holders.find(({ owner: { id } }) => id === owner.facts.id);
    if (head === undefined || (before === undefined && held === undefined)) return false;
    if (before !== undefined) {
      const others = head.state.holders.filter((holder) => holder !== before);
      const sinceWallMs = before.sinceWallMs ?? (head.plain ? disk.times(head.directory)?.mtimeMs : undefined);
      held ??= { ...before, owner: owner.facts, sinceWallMs };
      const holders = [...others.filter((holder) => holder !== held), held];
      if (!isHead(log.append(head, { state: () => ({ ...head.state, holders, forced: [] }) }))) continue;
    }
    remove(waited.path);
    [mine.owner, mine.held, mine.fromMs] = [owner, held, owner.fromMs];
    return true;
  }
  throw tooBusy(log.name);
}
