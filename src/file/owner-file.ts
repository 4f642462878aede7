/**
 * One owner file: what it says never changes; its mtime is the instant, by the machine's monotonic clock, at which the time
 * of the claims that it stands for is over, so that one utimes() renews them and everybody sees it.
 *
 * The order that makes this safe: whoever wants to take over reads the clock *before* the mtime. The owner does not renew
 * once its time is over, looks at the clock again *after* the utimes(), and believes the renewal only if its old time was
 * still not over. An owner file whose time is over while it holds is never used again.
 */
import { join } from "node:path";
import type { Claim, Granted } from "../backend.ts";
import type { Mine } from "./claims.ts";
import { codeOf, createFile, disk, remove } from "./disk.ts";
import { isDead, type Life, ownLife, sharesClock } from "./life.ts";
import type { Moment } from "./moment.ts";
import { freshName, type Place } from "./place.ts";
import { isId, type OwnerFacts, parseOwner, writeEntry } from "./records.ts";
import { checkWording, waitingId } from "./resume.ts";

/** An owner file of this process. */
export interface Owner {
  readonly facts: OwnerFacts;
  readonly path: string;
  /** Which file it is: one that was put in its place says nothing about what is linked elsewhere. */
  readonly ino: number;
  /** What it says, apart from its id: files that say the same can stand in for each other. */
  readonly wording: string;
  /** Until when its claims last, by the machine's clock. */
  untilMs: number;
  /** The core's clock just before that was written: from here trust counts. */
  fromMs: number;
  /** The leases that share it, by lock. Absent: it is one claim's own. */
  readonly leases: Map<string, Mine> | undefined;
}

export interface OwnerFileOptions {
  readonly place: Place;
  readonly moment: Moment;
  readonly instance: string;
  /** Leases outlive this process: nobody can tell by its pid whether they are still wanted. */
  readonly detached: boolean;
  /** See {@link FileOptions.beforeDetached}. */
  readonly beforeDetached?: ((lease: Granted) => void) | undefined;
}

/** Makes owner files, and says until when they last. Which claim gets which is decided in `owners.ts`. */
export class OwnerFiles {
  readonly #options: OwnerFileOptions;
  /** Whose end is the end of a lease. */
  readonly #life: Life;

  constructor(options: OwnerFileOptions) {
    this.#options = options;
    this.#life = options.detached ? { ...ownLife(), pid: 0, start: "" } : ownLife();
  }

  /** A file that one claim has for itself. `named`: it bears the claim's id, so that another thread or process can find it. */
  forOne(claim: Claim, wording: string, named: boolean): Owner {
    const found = this.#options.detached ? this.#find(claim) : undefined;
    return found ?? this.#make(claim, this.#idFor(claim, named), wording, undefined);
  }

  /** A file to wait by for a lease that is to outlive this process: a waiter that has died wants nothing any more. */
  forWaiting(claim: Claim, wording: string): Owner {
    return this.#make(claim, waitingId(claim.id), wording, undefined, ownLife());
  }

  /** A file for all claims of this wording, on different locks. */
  forMany(claim: Claim, wording: string): Owner {
    return this.#make(claim, freshName(), wording, new Map());
  }

  /** The file that bears the claim's id, whoever made it. */
  named({ id }: Claim): Owner | undefined {
    const facts = isId(id) ? readOwner(join(this.#options.place.owners, id)) : undefined;
    return facts && this.adopt(facts);
  }

  /** An owner file that another thread or process made for this claim. */
  adopt(facts: OwnerFacts): Owner | undefined {
    const path = join(this.#options.place.owners, facts.id);
    const times = disk.times(path);
    return times && { facts, path, ino: times.ino, wording: "", untilMs: times.mtimeMs, fromMs: 0, leases: undefined };
  }

  /** Renews whatever holds or waits by this file. `false`: its time was over, or the file is gone. */
  renew(owner: Owner, ttlMs: number): boolean {
    const { moment } = this.#options;
    if (owner.leases === undefined && moment.machineMs() >= owner.untilMs) this.#reread(owner);
    const untilMs = owner.untilMs;
    if (moment.machineMs() >= untilMs) return false;
    if (!this.extend(owner, ttlMs)) return false;
    if (moment.machineMs() < untilMs) return true;
    // Too late: somebody may have found it over. It ends when it would have ended.
    disk.utimes(owner.path, untilMs);
    owner.untilMs = untilMs;
    return false;
  }

  /** Gives the file its whole ttl, whatever it had before: right only while nothing holds or waits by it. `false`: it is gone. */
  extend(owner: Owner, ttlMs: number): boolean {
    const { moment } = this.#options;
    const fromMs = moment.localMs();
    let untilMs = moment.machineMs() + ttlMs;
    // Whoever asks for less than the others must not shorten what they are given.
    if (owner.leases !== undefined)
      untilMs = Math.max(untilMs + Math.max(0, owner.facts.ttlMs - ttlMs), owner.leases.size > 1 ? owner.untilMs : 0);
    try {
      disk.utimes(owner.path, untilMs);
      // Somebody restored it from a backup, say: others judge by the file that they have linked.
      if (disk.times(owner.path)?.ino !== owner.ino) return false;
    } catch (error) {
      if (["ENOENT", "ENOTDIR", "ELOOP"].includes(codeOf(error))) return false;
      throw error;
    }
    owner.untilMs = untilMs;
    owner.fromMs = fromMs;
    return true;
  }

  /** Ends its time, which needs no space on the disk. */
  end(owner: Owner): void {
    disk.utimes(owner.path, 1);
    owner.untilMs = 1;
  }

  #make(claim: Claim, id: string, wording: string, leases: Map<string, Mine> | undefined, life = this.#life): Owner {
    const { place, instance } = this.#options;
    const { mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta } = claim;
    const facts: OwnerFacts = {
      kind: "owner",
      id,
      instance,
      life,
      mode,
      limit,
      ttlMs,
      lockDelayMs,
      minHoldMs,
      holder,
      meta,
    };
    const path = join(place.owners, id);
    createFile(path, writeEntry(facts));
    const ino = disk.times(path)?.ino ?? 0;
    const owner: Owner = { facts, path, ino, wording, untilMs: 0, fromMs: 0, leases };
    if (!this.extend(owner, ttlMs)) throw Object.assign(new Error(`${path} vanished`), { code: "ENOENT" });
    return owner;
  }

  /** The file that another process made for this claim, and may hold by at any moment, if its time is not over. */
  #find(claim: Claim): Owner | undefined {
    const path = join(this.#options.place.owners, claim.id);
    if (!isId(claim.id) || !disk.exists(path)) return undefined;
    const facts = readOwner(path);
    if (facts === undefined || !sharesClock(facts.life) || isDead(facts.life)) return undefined;
    const owner = this.adopt(facts);
    if (owner === undefined || owner.untilMs <= this.#options.moment.machineMs()) return undefined;
    checkWording(claim, facts);
    return this.renew(owner, claim.ttlMs) ? owner : undefined;
  }

  #idFor({ id }: Claim, named: boolean): string {
    const path = join(this.#options.place.owners, id);
    if (!isId(id)) return freshName();
    if (!disk.exists(path)) return id;
    if (!named) return freshName();
    // A claim that ended and asks again: its old file is linked nowhere that matters.
    remove(path);
    return id;
  }

  /** A worker thread may have renewed it. */
  #reread(owner: Owner): void {
    const times = disk.times(owner.path);
    if (times !== undefined) owner.untilMs = Math.max(owner.untilMs, times.mtimeMs);
  }
}

/** Reads an owner file. `undefined`: it is gone, or half made. */
export function readOwner(path: string): OwnerFacts | undefined {
  const text = disk.read(path);
  return text === undefined || text === "" ? undefined : parseOwner(path, text);
}
