/**
 * Going on with a claim that another process made under the same id: a step that is repeated because its answer was lost. What
 * that process made is used as it is, by whoever comes: nothing that may be held by is replaced or removed.
 *
 * Such a claim holds by a file that bears its id and is bound to no process. It waits by other files: one for each process that
 * waits, bound to that process, whose id begins with the claim's.
 */
import { join } from "node:path";
import type { Claim } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { disk } from "./disk.ts";
import type { Head, LockLog } from "./log.ts";
import { freshName, isFreshName, type Place } from "./directory.ts";
import { type Holder, isId, type OwnerFacts } from "./records.ts";

/** A new id for a file to wait by: it becomes a name in the lock directory. */
export function waitingId(claimId: string): string {
  const id = `${claimId}-${freshName()}`;
  if (!isId(id))
    throw new TypeError(`Expected a claim's id of up to 40 letters, digits, - and _, got ${quote(claimId)}`);
  return id;
}

/** True for the id of a file by which some process waits for this claim. */
export function isWaitingId(ownerId: string, claimId: string): boolean {
  return ownerId.startsWith(`${claimId}-`) && isFreshName(ownerId.slice(claimId.length + 1));
}

/** The lease of that id, if others judge it by the file that bears the id: not by one that this file took the place of. */
export function leaseIn({ owners }: Place, head: Head, ownerId: string): Holder | undefined {
  const holder = head.state.holders.find(({ owner }) => owner.id === ownerId);
  if (holder === undefined || !head.plain) return holder;
  return isSameFile(`${head.directory}/${head.seq}`, join(owners, ownerId)) ? holder : undefined;
}

/** What the claim holds by: its own file, or, if it was handed the lock a moment ago, one of those that it waited by. */
export function holdingIn(place: Place, head: Head, claimId: string): Holder | undefined {
  const waited = head.state.holders.find(({ owner }) => isWaitingId(owner.id, claimId));
  return leaseIn(place, head, claimId) ?? (waited && leaseIn(place, head, waited.owner.id));
}

/** The lease of that id, by the newest entry there is. */
export function leaseOf(place: Place, log: LockLog, ownerId: string): Holder | undefined {
  const head = log.read(false);
  return head && leaseIn(place, head, ownerId);
}

export function isSameFile(one: string, two: string): boolean {
  const ino = disk.times(one)?.ino;
  return ino !== undefined && ino === disk.times(two)?.ino;
}

/** Throws if the claim asks for something else than what it got, or waits for, under its id. */
export function checkTerms(claim: Claim, facts: OwnerFacts): void {
  if (facts.mode === claim.mode && facts.limit === claim.limit) return;
  throw inUse(claim, `${facts.mode}, limit ${facts.limit}`);
}

/** The same for a file by which nothing is held yet: it has to say all that the claim says about its end. */
export function checkWording(claim: Claim, facts: OwnerFacts): void {
  checkTerms(claim, facts);
  const { ttlMs, lockDelayMs, minHoldMs } = facts;
  if (ttlMs === claim.ttlMs && lockDelayMs === claim.lockDelayMs && minHoldMs === claim.minHoldMs) return;
  throw inUse(claim, `ttl ${ttlMs} ms, lockDelay ${lockDelayMs} ms, minHold ${minHoldMs} ms`);
}

function inUse({ name }: Claim, terms: string): LockBackendError {
  return new LockBackendError(
    "file",
    name,
    `The claim for lock ${quote(name)} is in use with other terms (${terms}). Repeat it with the same ones, or make a new claim.`,
    { fatal: true },
  );
}
