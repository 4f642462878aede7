/**
 * Gives a lease another ttl than it was taken with. Its owner file's mtime says until when it lasts; but where clocks cannot be
 * compared (another boot), others count the ttl from the last renewal, so that what is written about it has to change too.
 */
import { join } from "node:path";
import { createFile, disk, tryRename } from "./disk.ts";
import { isHead, type LockLog } from "./log.ts";
import type { Owner } from "./lease-file.ts";
import { freshName, type Place } from "./directory.ts";
import { type OwnerFacts, writeEntry } from "./records.ts";
import { tooBusy } from "./errors.ts";

const TRIES_MAX = 1000;

/** Writes the ttl down for a lease that was renewed with it a moment ago. `undefined`: it is gone. */
export function retime(log: LockLog, place: Place, owner: Owner, ttlMs: number): Owner | undefined {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const head = log.read(false);
    const known = head?.state.holders.find(({ owner: { id } }) => id === owner.facts.id);
    if (head === undefined || known === undefined) return undefined;
    const facts: OwnerFacts = { ...known.owner, ttlMs };
    const sinceWallMs = known.sinceWallMs ?? (head.plain ? disk.times(head.directory)?.mtimeMs : undefined);
    const changed = { ...known, owner: facts, sinceWallMs };
    const holders = head.state.holders.map((holder) => (holder === known ? changed : holder));
    if (!isHead(log.append(head, { state: () => ({ ...head.state, holders, forced: [] }) }))) continue;
    // In one step, so that the file is never missing: without it the lease would be over.
    const aside = join(place.trash, freshName());
    createFile(aside, writeEntry(facts));
    disk.utimes(aside, owner.untilMs);
    const ino = disk.times(aside)?.ino ?? 0;
    return tryRename(aside, owner.path) ? { ...owner, facts, ino } : undefined;
  }
  throw tooBusy(log.name);
}
