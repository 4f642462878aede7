/**
 * Going on with a claim that another process made under the same id: a step that is repeated because its answer was lost.
 *
 * Several processes may ask for such a claim at once. Each makes files of its own, whose ids begin with the claim's: one to wait
 * by, which is bound to the process, and one to hold by, which is not. No id is used twice, so no process can replace or remove
 * what another one holds by; which of the files is the claim's lease is said by the lock's log alone.
 */
import { join } from "node:path";
import { ArgumentError } from "../../contract/argument-error.ts";
import type { Claim } from "../../contract/backend.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { disk } from "./disk.ts";
import type { Head } from "./log.ts";
import { freshName, isFreshName, type DirectoryPaths } from "./directory.ts";
import { isId } from "./checked-text.ts";
import { type Holder, type LeaseFacts, readLeaseFile } from "./records.ts";

/** A new id for a file of this claim: it becomes a name in the lock directory. */
export function newFileId(claimId: string): string {
  const id = `${claimId}-${freshName()}`;
  if (!isId(id))
    throw new ArgumentError(`Expected a claim's id of up to 40 letters, digits, - and _, got ${quote(claimId)}`);
  return id;
}

/** True for a file by which a process waits for this claim. */
export function isWaitFor(claimId: string, facts: LeaseFacts): boolean {
  return isFileOf(claimId, facts) && !isDetached(facts);
}

function isFileOf(claimId: string, { id }: LeaseFacts): boolean {
  return id.startsWith(`${claimId}-`) && isFreshName(id.slice(claimId.length + 1));
}

function isDetached({ process }: LeaseFacts): boolean {
  return process.pid === 0;
}

/**
 * The claim's lease by this entry: by a file with its very id (see `named` in lease-files.ts), or by one of a claim that others may
 * ask for. Only if others judge it by the file that is there now, and not by one that was replaced, as from a backup.
 */
export function leaseIn(paths: DirectoryPaths, head: Head, claimId: string): Holder | undefined {
  const isLease = (facts: LeaseFacts): boolean =>
    facts.id === claimId || (isFileOf(claimId, facts) && isDetached(facts));
  return head.state.holders.find((holder) => isLease(holder.facts) && isJudgedByItsFile(paths, head, holder));
}

/** The claim's lease, or what it was just handed by one of the files that it waited by. */
export function holdingIn(paths: DirectoryPaths, head: Head, claimId: string): Holder | undefined {
  const isHanded = (holder: Holder): boolean =>
    isWaitFor(claimId, holder.facts) && isJudgedByItsFile(paths, head, holder);
  return leaseIn(paths, head, claimId) ?? head.state.holders.find(isHanded);
}

function isJudgedByItsFile(paths: DirectoryPaths, head: Head, { facts }: Holder): boolean {
  const path = join(paths.leaseFiles, facts.id);
  if (head.plain) return isSameFile(`${head.directory}/${head.seq}`, path);
  return readLeaseFile(path)?.instance === facts.instance;
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
