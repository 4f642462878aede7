/**
 * Changes of a lease that holds its lock: another ttl, or another lease file.
 *
 * A lease that another process handed over becomes the claim's own here. It gets the ttl that the claim asks for. If it must
 * outlive its process, it also changes from the file that the claim waited by, which ends with the process, to one that does
 * not. That change is one entry: before it the lock is free as soon as the process dies; from then on the lease lasts for its
 * ttl, whichever process goes on with it. The lease is reported only afterwards.
 */
import type { Clock } from "../../contract/clock.ts";
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
  if (claim.ttlMs !== file.facts.ttlMs) local.file = changeTtl(log, file, claim.ttlMs) ?? file;
  // Another process may have released the claim meanwhile.
  const now = options.leaseFiles.resumable ? log.read(false) : head;
  local.fromMs = file.fromMs;
  local.held = now && holderIn(now.state, local);
  return local.held !== undefined;
}

/** Binds a lease to no process any more, and gives it the fence that others will know it by. `false`: it is gone. */
export function detach(log: LockLog, { leaseFiles, clock }: LeaseChangeOptions, local: LocalClaim): boolean {
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
        held === undefined ? withHolder(rest, file, clock, announce) : { state: () => rest },
      );
      if (!isHead(done)) continue;
      head = done;
    }
    remove(waited.path);
    if (file !== own) remove(own.path);
    local.file = file;
    [local.held, local.fromMs] = [holderIn(head.state, local), file.fromMs];
    return true;
  }
  throw tooBusy(log.name);
}

/**
 * Writes the ttl down for a lease that was renewed with it just before. `undefined`: it is gone. The lease file's mtime says until
 * when the lease lasts. But where clocks cannot be compared (another boot), others count the ttl from the last renewal, so the
 * ttl in the lock's log must change too. The lease file stays the same: another process may renew the lease by it at this moment.
 */
export function changeTtl(log: LockLog, file: LeaseFile, ttlMs: number): LeaseFile | undefined {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const head = log.read(false);
    const before = head?.state.holders.find(({ facts }) => facts.id === file.facts.id);
    if (head === undefined || before === undefined) return undefined;
    const facts: LeaseFacts = { ...before.facts, ttlMs };
    const changed = { ...before, facts, sinceWallMs: sinceWallMs(head, before) };
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
