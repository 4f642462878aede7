/**
 * What makes a lease of a lock that somebody else handed over: the ttl that the claim asks for, and, where it is to outlive its
 * process, the change from the file that the claim waited by, which ends with the process, to one that does not.
 *
 * That change is one entry: before it the lock is free as soon as the process has died; from it on the lease lasts for its ttl,
 * whoever goes on with it. Nobody is told of the lease before.
 */
import { holderIn, type Mine, withHolder } from "./claims.ts";
import { remove } from "./disk.ts";
import { type Head, isHead, type LockLog, type Told } from "./log.ts";
import type { Moment } from "./moment.ts";
import type { Owners } from "./owners.ts";
import type { Place } from "./place.ts";
import { retime } from "./retime.ts";
import { without } from "./rules.ts";
import { tooBusy } from "./trouble.ts";

const TRIES_MAX = 1000;

export interface AcceptOptions {
  readonly owners: Owners;
  readonly place: Place;
  readonly moment: Moment;
}

/** The claim holds by this entry, and was renewed a moment ago. `false`: its lease is gone. */
export function accept(log: LockLog, options: AcceptOptions, mine: Mine, head: Head): boolean {
  const { claim } = mine;
  const owner = mine.owner!;
  if (options.owners.isProvisional(mine)) return detach(log, options, mine);
  if (claim.ttlMs !== owner.facts.ttlMs) mine.owner = retime(log, options.place, owner, claim.ttlMs) ?? owner;
  mine.fromMs = owner.fromMs;
  mine.held = holderIn(head.state, mine);
  return true;
}

/** Binds a lease to no process any more, and gives it the fence that others will know it by. `false`: it is gone. */
export function detach(log: LockLog, { owners, moment }: AcceptOptions, mine: Mine): boolean {
  const waited = mine.owner!;
  const owner = owners.own(mine.claim);
  const told: Told = (fence, run) => owners.detaching({ fence, run, fromMs: owner.fromMs });
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    let head = log.read(false);
    const before = head?.state.holders.find(({ owner: { id } }) => id === waited.facts.id);
    // Another process that asked for the same claim may have been faster.
    const held = head?.state.holders.find(({ owner: { id } }) => id === owner.facts.id);
    if (head === undefined || (before === undefined && held === undefined)) return false;
    if (held !== undefined) told(held.fence, held.run);
    if (before !== undefined) {
      const rest = { ...without(head.state, waited.facts.id), forced: [] };
      const done = log.append(head, held === undefined ? withHolder(rest, owner, moment, told) : { state: () => rest });
      if (!isHead(done)) continue;
      head = done;
    }
    remove(waited.path);
    mine.owner = owner;
    [mine.held, mine.fromMs] = [holderIn(head.state, mine), owner.fromMs];
    return true;
  }
  throw tooBusy(log.name);
}
