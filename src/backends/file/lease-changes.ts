/**
 * Changes of a lease that holds its lock: another ttl, or another lease file.
 *
 * A lease that another process handed over becomes the claim's own here. It gets the ttl that the claim asks for. If it must
 * outlive its process, it also changes from the file that the claim waited by, which ends with the process, to one that does
 * not. That change is one entry: before it the lock is free as soon as the process dies; from then on the lease lasts for its
 * ttl, whichever process goes on with it. The lease is reported only afterwards.
 */
import type { Clock } from "../../contract/clock.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import type { Claim } from "../../contract/backend.ts";
import { without } from "./admission.ts";
import { holderIn, type LocalClaim, withHolder } from "./local-claim.ts";
import { disk, remove } from "./disk.ts";
import { type Announce, type Head, isHead, type LockLog } from "./log.ts";
import type { LeaseFile } from "./lease-file.ts";
import type { LeaseFiles } from "./lease-files.ts";
import type { Holder, LeaseFacts } from "./records.ts";
import { tooBusy } from "./errors.ts";

const TRIES_MAX = 1000;

export interface LeaseChangeOptions {
  readonly leaseFiles: LeaseFiles;
  readonly clock: Clock;
}

/** The claim holds by this entry, and was renewed just before. `false`: its lease is gone. */
export function accept(log: LockLog, options: LeaseChangeOptions, local: LocalClaim, head: Head): boolean {
  const { claim } = local;
  const file = local.file!;
  if (options.leaseFiles.isProvisional(local)) return detach(log, options, local);
  if (claim.ttlMs !== file.facts.ttlMs) {
    if (file.leases !== undefined) return separate(log, options, local);
    writeTtl(log, options, local);
  }
  local.fromMs = file.fromMs;
  return confirm(options, local, options.leaseFiles.resumable ? log.read(false) : head);
}

/** True if the claim still holds by this entry: another process may have released it while we renewed it. */
function confirm({ leaseFiles }: LeaseChangeOptions, local: LocalClaim, now: Head | undefined): boolean {
  local.held = now && holderIn(now.state, local);
  if (local.held !== undefined && leaseFiles.resumable) outlast(leaseFiles, local, local.held);
  return local.held !== undefined;
}

/** Binds a lease to no process any more, and gives it the fence that others will know it by. `false`: it is gone. */
export function detach(log: LockLog, options: LeaseChangeOptions, local: LocalClaim): boolean {
  const { leaseFiles, clock } = options;
  const { claim } = local;
  const waited = local.file!;
  const own = leaseFiles.own(claim);
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    let head = log.read(false);
    const hasWaited = head?.state.holders.some(({ facts }) => facts.id === waited.facts.id) === true;
    // Another process that asked for the same claim may have been faster: its lease is ours, unless it is over.
    const found = head && leaseFiles.leaseFileIn(head, claim);
    const isOther = found !== undefined && found.facts.id !== own.facts.id;
    const file = isOther && leaseFiles.renew(found, claim.ttlMs) ? found : own;
    const held = head?.state.holders.find(({ facts }) => facts.id === file.facts.id);
    if (head === undefined || (!hasWaited && (held === undefined || !leaseFiles.renew(file, claim.ttlMs)))) {
      remove(own.path);
      return false;
    }
    const announce: Announce = (fence, run) => leaseFiles.detaching({ fence, run, fromMs: file.fromMs });
    if (held !== undefined) announce(held.fence, held.run);
    if (hasWaited) {
      const rest = { ...without(head.state, waited.facts.id), forced: [] };
      const done = log.append(
        head,
        held === undefined ? withHolder(rest, file, claim, clock, announce) : { state: () => rest },
      );
      if (!isHead(done)) continue;
      head = done;
    }
    remove(waited.path);
    [local.file, local.fromMs] = [file, file.fromMs];
    if (file === own) {
      local.held = holderIn(head.state, local);
      return true;
    }
    remove(own.path);
    writeTtl(log, options, local);
    return confirm(options, local, log.read(false));
  }
  throw tooBusy(log.name);
}

/**
 * Gives a lease that shares its lease file one of its own, for another ttl: the others keep theirs. One entry changes it, with the
 * same fence; until then the shared file counts. `false`: the lease is gone, or was over.
 */
export function separate(log: LockLog, { leaseFiles, clock }: LeaseChangeOptions, local: LocalClaim): boolean {
  const shared = local.file!;
  if (machineMs(clock) >= shared.untilMs) return false;
  const own = leaseFiles.apart(local.claim, shared);
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const head = log.read(false);
    const before = head?.state.holders.find(({ facts }) => facts.id === shared.facts.id);
    // An entry that was overtaken may have made the change already.
    const after = head?.state.holders.find(({ facts }) => facts.id === own.facts.id);
    if (head === undefined || (before ?? after) === undefined) {
      leaseFiles.discard(own, local);
      return false;
    }
    if (before !== undefined) {
      const changed = { ...before, facts: own.facts, claim: local.claim.id, sinceWallMs: sinceWallMs(head, before) };
      const holders = head.state.holders.map((holder) => (holder === before ? changed : holder));
      if (!isHead(log.append(head, { state: () => ({ ...head.state, holders, forced: [] }) }))) continue;
    }
    leaseFiles.giveBack(shared, local);
    local.file = own;
    [local.held, local.fromMs] = [holderIn(log.seen!.state, local), own.fromMs];
    return true;
  }
  throw tooBusy(log.name);
}

/** Writes the ttl down for a lease that was renewed with it just before, as far as others may count with it already. */
export function writeTtl(log: LockLog, { clock, leaseFiles }: LeaseChangeOptions, local: LocalClaim): void {
  const { file, claim } = local;
  if (file === undefined || claim.ttlMs === file.facts.ttlMs) return;
  // A shorter one counts when the time that the longer one gave is over.
  if (claim.ttlMs < file.facts.ttlMs && file.untilMs > machineMs(clock) + claim.ttlMs) return;
  local.file = changeTtl(log, file, claim) ?? file;
  // Another process that did not see the longer one yet may have set the end back, before this entry. After it, it will see it.
  if (leaseFiles.resumable && claim.ttlMs > file.facts.ttlMs) leaseFiles.renew(local.file, claim.ttlMs);
}

/**
 * Renews a lease once more if its lock says a longer ttl than was known here: while we renewed it, another process that uses the same
 * claim may have given it that, and our end may have come after its own. The log is read after the renewal, and that process renews
 * after its entry, so one of the two sees it.
 */
export function outlast(leaseFiles: LeaseFiles, local: LocalClaim, { facts }: Holder): void {
  const file = local.file!;
  if (facts.ttlMs <= file.facts.ttlMs) return;
  local.file = { ...file, facts };
  leaseFiles.renew(local.file, facts.ttlMs);
}

/**
 * `undefined`: the lease is gone. The lease file's mtime says until when the lease lasts. But where clocks cannot be compared
 * (another boot), others count the ttl from the last renewal, so the ttl in the lock's log must change too. The lease file stays
 * the same: another process may renew the lease by it at this moment.
 */
function changeTtl(log: LockLog, file: LeaseFile, { id: claim, ttlMs }: Claim): LeaseFile | undefined {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const head = log.read(false);
    const before = head?.state.holders.find(({ facts }) => facts.id === file.facts.id);
    if (head === undefined || before === undefined) return undefined;
    const facts: LeaseFacts = { ...before.facts, ttlMs };
    const changed = { ...before, facts, claim, sinceWallMs: sinceWallMs(head, before) };
    const holders = head.state.holders.map((holder) => (holder === before ? changed : holder));
    if (!isHead(log.append(head, { state: () => ({ ...head.state, holders, forced: [] }) }))) continue;
    return { ...file, facts, shareKey: "" };
  }
  throw tooBusy(log.name);
}

/** A lone lease file as an entry does not say since when: its directory does, until the next entry. */
function sinceWallMs(head: Head, holder: Holder): number | undefined {
  return holder.sinceWallMs ?? (head.plain ? disk.times(head.directory)?.mtimeMs : undefined);
}
