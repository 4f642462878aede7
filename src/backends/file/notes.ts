/**
 * What a process says of itself beside its leases and tickets: counts of its own queue, the locks that its waiters hold, meta that
 * has changed, and which claim it is. It is for people, and decides nothing. A lease file never changes, and serves one claim after
 * the other, so this has a file of its own, beside the epochs of the lock, which is replaced as a whole.
 *
 * A note costs as much as taking a lock. So only what may show a deadlock is written at once: the locks that are held by those who
 * wait. The rest is written when the claim still waits, or its lease is renewed: most claims have ended before, and have no note.
 */
import { join } from "node:path";
import type { Claim, LocalFacts, Meta } from "../../contract/backend.ts";
import { HELD_LOCKS_MAX } from "../../contract/claim.ts";
import { holdsText } from "../../contract/local-facts.ts";
import type { Clock } from "../../contract/clock.ts";
import { isCount, isId, isMeta, isRecord, parseChecked, toList, withChecksum } from "./checked-text.ts";
import { createFile, disk, remove, tryRename } from "./disk.ts";
import { type DirectoryPaths, freshName } from "./directory.ts";
import type { LocalClaim } from "./local-claim.ts";
import type { Head } from "./log.ts";

/** The name of a note begins with this, in the directory of the lock's incarnation. The lease file's id follows. */
const NOTE = "i";
/** What changes more often is written at the next renewal or attempt after this part of a ttl. */
const PAUSE = 1 / 3;
const FENCE = /^\d{1,20}$/;

export interface Note {
  readonly claim: string;
  readonly meta: Meta;
  readonly local: LocalFacts | undefined;
}

export class Notes {
  readonly #paths: DirectoryPaths;
  readonly #clock: Clock;

  constructor(paths: DirectoryPaths, clock: Clock) {
    this.#paths = paths;
    this.#clock = clock;
  }

  /** Writes what the claim says now, if that is news and the last note is not too young. `again`: it still waits, or is renewed. */
  write(local: LocalClaim, head: Head | undefined, again: boolean): void {
    const { claim, file, note, held } = local;
    if (file === undefined || head === undefined) return;
    if (note === undefined && !isUrgent(claim, file.facts.meta) && !(again && isWorthIt(local))) return;
    const nowMs = this.#clock.now();
    // A note of a waiter is not believed of the lease that it became.
    const holds = holdsText(claim.local);
    const isYoung = note !== undefined && nowMs < note.atMs + claim.ttlMs * PAUSE;
    if (isYoung && note.fence === held?.fence && note.holds === holds) return;
    const text = toText(claim, held?.fence);
    if (text === note?.text) return;
    const path = join(head.incarnation, NOTE + file.facts.id);
    const aside = join(this.#paths.trash, freshName());
    try {
      createFile(aside, text);
      // A lease that has got another file, or a lock that was made again.
      if (note !== undefined && note.path !== path) remove(note.path);
      // The first one does not count: what changes soon after it is not held back.
      if (tryRename(aside, path))
        local.note = { path, text, fence: held?.fence, holds, atMs: note === undefined ? -Infinity : nowMs };
      else remove(aside);
    } catch {
      // Whatever is wrong with the disk, nothing depends on a note.
    }
  }

  /** The claim has ended. */
  remove(local: LocalClaim): void {
    if (local.note !== undefined) remove(local.note.path);
    local.note = undefined;
  }
}

/** The note beside a lease or ticket. `undefined`: there is none, or it is of an earlier claim with the same file, or foreign. */
export function readNote(
  incarnation: string,
  fileId: string,
  claim: string | undefined,
  fence?: number,
): Note | undefined {
  let text: string | undefined;
  try {
    text = disk.read(join(incarnation, NOTE + fileId));
  } catch {
    return undefined;
  }
  const note = text === undefined ? undefined : toNote(parseChecked(text));
  return note !== undefined && (note.claim === claim || (fence !== undefined && note.fence === fence))
    ? note
    : undefined;
}

/** The lease file whose note is in a file of that name. `undefined`: it is no note. */
export function noteIn(file: string): string | undefined {
  return file.startsWith(NOTE) && isId(file.slice(1)) ? file.slice(1) : undefined;
}

function isUrgent({ meta, local }: Claim, written: Meta): boolean {
  return (local !== undefined && local.holds.length > 0) || (meta !== written && !isSame(meta, written));
}

/** Counts, and the claim's id where nothing else says it. Leases that share a file are too many for the latter. */
function isWorthIt({ claim: { local }, file, held }: LocalClaim): boolean {
  if (local !== undefined && (local.waiters > 0 || local.users > 1)) return true;
  return (
    held !== undefined && held.claim === undefined && file?.facts.claim === undefined && file?.leases === undefined
  );
}

function isSame(one: Meta, two: Meta): boolean {
  const keys = Object.keys(one);
  return keys.length === Object.keys(two).length && keys.every((key) => one[key] === two[key]);
}

function toText({ id, meta, local }: Claim, fence: number | undefined): string {
  const holds = local?.holds.map((held) => ({ ...held, fence: String(held.fence) }));
  return withChecksum({ kind: "note", claim: id, fence, meta, local: local && { ...local, holds } });
}

function toNote(value: unknown): (Note & { readonly fence: number | undefined }) | undefined {
  if (!isRecord(value) || value["kind"] !== "note") return undefined;
  const { claim, fence, meta, local: said } = value;
  const local = toLocalFacts(said);
  if (typeof claim !== "string" || !isMeta(meta) || (said !== undefined && local === undefined)) return undefined;
  return { claim, fence: isCount(fence) ? fence : undefined, meta, local };
}

function toLocalFacts(value: unknown): LocalFacts | undefined {
  if (!isRecord(value)) return undefined;
  const { waiters, users, holdsMore } = value;
  const holds = toList(value["holds"], (held) => {
    if (!isRecord(held)) return undefined;
    const { name, fence, yields } = held;
    return typeof name === "string" && typeof fence === "string" && FENCE.test(fence)
      ? { name, fence: BigInt(fence), ...(yields === true && { yields: true as const }) }
      : undefined;
  });
  if (!isCount(waiters) || !isCount(users) || typeof holdsMore !== "boolean") return undefined;
  return holds === undefined || holds.length > HELD_LOCKS_MAX ? undefined : { waiters, users, holds, holdsMore };
}
