/**
 * Changes of a lease that holds its lock: another ttl, or another lease file.
 *
 * A lease that another process handed over becomes the claim's own here. It gets the ttl that the claim asks for. If it must
 * outlive its process, it also changes from the file that the claim waited by, which ends with the process, to one that does
 * not. That change is one entry: before it the lock is free as soon as the process dies; from then on the lease lasts for its
 * ttl, whichever process goes on with it. The lease is reported only afterwards.
 */
import { join } from "node:path";
import { type Clock, machineMs } from "../../contract/clock.ts";
import { without } from "./admission.ts";
import { holderIn, type LocalClaim, withHolder } from "./local-claim.ts";
import { createFile, disk, remove, tryRename } from "./disk.ts";
import { type DirectoryPaths, freshName } from "./directory.ts";
import { type Announce, type Head, isHead, type LockLog } from "./log.ts";
import type { LeaseFile } from "./lease-file.ts";
import type { LeaseFiles } from "./lease-files.ts";
import { type Holder, type LeaseFacts, writeEntry } from "./records.ts";
import { leaseIn } from "./resume.ts";
import { tooBusy } from "./errors.ts";

const TRIES_MAX = 1000;

export interface LeaseChangeOptions {
  readonly leaseFiles: LeaseFiles;
  readonly paths: DirectoryPaths;
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
  // Another process may have taken the lock anew for the same claim, with a file of the same name, before we renewed that.
  const now = options.leaseFiles.resumable ? log.read(false) : head;
  local.fromMs = file.fromMs;
  local.held = now && holderIn(now.state, local);
  return local.held !== undefined;
}

/** Binds a lease to no process any more, and gives it the fence that others will know it by. `false`: it is gone. */
export function detach(log: LockLog, { leaseFiles, paths, clock }: LeaseChangeOptions, local: LocalClaim): boolean {
  const waited = local.file!;
  const file = leaseFiles.own(local.claim);
  const announce: Announce = (fence, run) => leaseFiles.detaching({ fence, run, fromMs: file.fromMs });
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    let head = log.read(false);
    const before = head?.state.holders.find(({ facts }) => facts.id === waited.facts.id);
    // Another process that asked for the same claim may have been faster. Its lease is ours if its file is, and is not over.
    const held = head && leaseIn(paths, head, file.facts.id);
    if (head === undefined || (before === undefined && held === undefined)) return false;
    if (before === undefined && !leaseFiles.renew(file, local.claim.ttlMs)) return false;
    if (held !== undefined) announce(held.fence, held.run);
    if (before !== undefined) {
      const others = without(head.state, waited.facts.id);
      const rest = { ...(held === undefined ? without(others, file.facts.id) : others), forced: [] };
      const done = log.append(
        head,
        held === undefined ? withHolder(rest, file, local.claim, clock, announce) : { state: () => rest },
      );
      if (!isHead(done)) continue;
      head = done;
    }
    remove(waited.path);
    local.file = file;
    [local.held, local.fromMs] = [holderIn(head.state, local), file.fromMs];
    return true;
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
export function writeTtl(log: LockLog, { paths, clock }: LeaseChangeOptions, local: LocalClaim): void {
  const { file, claim } = local;
  if (file === undefined || claim.ttlMs === file.facts.ttlMs) return;
  // A shorter one counts when the time that the longer one gave is over.
  if (claim.ttlMs < file.facts.ttlMs && file.untilMs > machineMs(clock) + claim.ttlMs) return;
  local.file = changeTtl(log, paths, file, claim.ttlMs) ?? file;
}

/**
 * `undefined`: the lease is gone. The lease file's mtime says until when the lease lasts. But where clocks cannot be compared
 * (another boot), others count the ttl from the last renewal, so the written ttl must change too.
 */
function changeTtl(log: LockLog, paths: DirectoryPaths, file: LeaseFile, ttlMs: number): LeaseFile | undefined {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const head = log.read(false);
    const before = head?.state.holders.find(({ facts }) => facts.id === file.facts.id);
    if (head === undefined || before === undefined) return undefined;
    const facts: LeaseFacts = { ...before.facts, ttlMs };
    const changed = { ...before, facts, sinceWallMs: sinceWallMs(head, before) };
    const holders = head.state.holders.map((holder) => (holder === before ? changed : holder));
    if (!isHead(log.append(head, { state: () => ({ ...head.state, holders, forced: [] }) }))) continue;
    // In one step, so the file is never missing: without it the lease would be over.
    const aside = join(paths.trash, freshName());
    createFile(aside, writeEntry(facts));
    disk.utimes(aside, file.untilMs);
    const ino = disk.times(aside)?.ino ?? 0;
    return tryRename(aside, file.path) ? { ...file, facts, ino, shareKey: "" } : undefined;
  }
  throw tooBusy(log.name);
}

/** A lone lease file as an entry does not say since when: its directory does, until the next entry. */
function sinceWallMs(head: Head, holder: Holder): number | undefined {
  return holder.sinceWallMs ?? (head.plain ? disk.times(head.directory)?.mtimeMs : undefined);
}
