/**
 * Going on with a claim that another process made under the same id: a step that is repeated because its answer was lost. What
 * that process made is used as it is: no file that may hold a lock is replaced or removed.
 *
 * Such a claim holds by a file that has its id and is bound to no process. It waits by other files: one for each process that
 * waits, bound to that process, whose id begins with the claim's.
 */
import { join } from "node:path";
import type { Claim } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { disk } from "./disk.ts";
import type { Head, LockLog } from "./log.ts";
import { freshName, isFreshName, type DirectoryPaths } from "./directory.ts";
import { isId } from "./checked-text.ts";
import { type Holder, type LeaseFacts, readLeaseFile } from "./records.ts";

/** A new id for a file to wait by: it becomes a name in the lock directory. */
export function waitingId(claimId: string): string {
  const id = `${claimId}-${freshName()}`;
  if (!isId(id))
    throw new TypeError(`Expected a claim's id of up to 40 letters, digits, - and _, got ${quote(claimId)}`);
  return id;
}

/** True for the id of a file by which a process waits for this claim. */
export function isWaitingId(fileId: string, claimId: string): boolean {
  return fileId.startsWith(`${claimId}-`) && isFreshName(fileId.slice(claimId.length + 1));
}

/** The lease of that id, if others judge it by the file that has the id now, and not by an earlier one. */
export function leaseIn(paths: DirectoryPaths, head: Head, fileId: string): Holder | undefined {
  const holder = head.state.holders.find(({ facts }) => facts.id === fileId);
  if (holder === undefined) return undefined;
  const path = join(paths.leaseFiles, fileId);
  // A state does not say which file it was, but which backend made it: no backend makes two while one of them counts.
  const same = head.plain
    ? isSameFile(`${head.directory}/${head.seq}`, path)
    : readLeaseFile(path)?.instance === holder.facts.instance;
  return same ? holder : undefined;
}

/** The lease of the claim: by its own file, or, if it was just handed the lock, by one of those that it waited by. */
export function holdingIn(paths: DirectoryPaths, head: Head, claimId: string): Holder | undefined {
  const waited = head.state.holders.find(({ facts }) => isWaitingId(facts.id, claimId));
  return leaseIn(paths, head, claimId) ?? (waited && leaseIn(paths, head, waited.facts.id));
}

/** The lease of that id, by the newest entry. */
export function leaseOf(paths: DirectoryPaths, log: LockLog, fileId: string): Holder | undefined {
  const head = log.read(false);
  return head && leaseIn(paths, head, fileId);
}

export function isSameFile(one: string, two: string): boolean {
  const ino = disk.times(one)?.ino;
  return ino !== undefined && ino === disk.times(two)?.ino;
}

/** Throws if the claim asks for another mode or limit than it has, or waits for, under its id. */
export function checkSameMode(claim: Claim, facts: LeaseFacts): void {
  if (facts.mode === claim.mode && facts.limit === claim.limit) return;
  throw inUse(claim, `${facts.mode}, limit ${facts.limit}`);
}

/** The same for a file that holds nothing yet: it must also have the claim's ttl, lockDelay and minHold. */
export function checkSameTerms(claim: Claim, facts: LeaseFacts): void {
  checkSameMode(claim, facts);
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
