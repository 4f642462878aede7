/**
 * Owner files: one per claim that holds or waits. What it says never changes; its mtime is the instant, by the
 * machine's monotonic clock, at which the claim's time is over, so that one utimes() renews it and everybody sees it.
 *
 * The order that makes this safe: whoever wants to take over reads the clock *before* the mtime. The owner does not renew
 * once its time is over, looks at the clock again *after* the utimes(), and believes the renewal only if its old time was
 * still not over. An owner file whose time is over while it holds is never used again.
 *
 * Making a file costs ten times a link, so that a file whose claim has ended serves the next claim that says the same.
 */
import { join } from "node:path";
import type { Claim } from "../backend.ts";
import { codeOf, createFile, disk, remove } from "./disk.ts";
import { type Life, ownLife } from "./life.ts";
import type { Moment } from "./moment.ts";
import { freshName, type Place } from "./place.ts";
import { isId, type OwnerFacts, parseOwner, writeEntry } from "./records.ts";

const IDLE_MAX = 64;

/** An owner file of this process. */
export interface Owner {
  readonly facts: OwnerFacts;
  readonly path: string;
  /** What it says, apart from its id: files that say the same can stand in for each other. */
  readonly wording: string;
  /** Until when its claim lasts, by the machine's clock. */
  untilMs: number;
}

export interface OwnersOptions {
  readonly place: Place;
  readonly moment: Moment;
  readonly instance: string;
  /** Leases outlive this process: nobody can tell by its pid whether they are still wanted. */
  readonly detached: boolean;
}

export class Owners {
  readonly #options: OwnersOptions;
  readonly #life: Life;
  /** By wording; the newest last. */
  readonly #idle = new Map<string, Owner[]>();
  #idleCount = 0;
  /** True: every file is named after its claim, so that another thread or process can find it. */
  #named: boolean;

  constructor(options: OwnersOptions) {
    this.#options = options;
    this.#life = options.detached ? { ...ownLife(), pid: 0, start: "" } : ownLife();
    this.#named = options.detached;
  }

  /** From now on every owner file bears its claim's id, and none is used twice. */
  nameAfterClaims(): void {
    this.#named = true;
  }

  /** An owner file for the claim, with its whole ttl before it. */
  take(claim: Claim): Owner {
    const wording = wordingOf(claim);
    const idle = this.#named ? undefined : this.#idle.get(wording)?.pop();
    if (idle === undefined) return this.#make(claim, wording);
    this.#idleCount--;
    // Nobody's claim, so that there is no old time to be kept: nobody can be taking over from it.
    if (this.#extend(idle)) return idle;
    return this.#make(claim, wording);
  }

  /** The claim has ended and nothing refers to the file any more. */
  giveBack(owner: Owner): void {
    const { minHoldMs, lockDelayMs } = owner.facts;
    // A place kept after its end is known by the file's id, which must not come back for somebody else.
    if (this.#named || minHoldMs + lockDelayMs > 0 || this.#idleCount >= IDLE_MAX) return this.discard(owner);
    const same = this.#idle.get(owner.wording);
    if (same === undefined) this.#idle.set(owner.wording, [owner]);
    else same.push(owner);
    this.#idleCount++;
    if (this.#idle.size > IDLE_MAX) this.#forgetEmpty();
  }

  /** Never to be used again; what is linked elsewhere keeps its times. */
  discard(owner: Owner): void {
    remove(owner.path);
  }

  /** Renews a claim that holds or waits. `false`: its time was over, or its file is gone. */
  renew(owner: Owner): boolean {
    const { moment } = this.#options;
    if (moment.machineMs() >= owner.untilMs) this.#reread(owner);
    const untilMs = owner.untilMs;
    if (moment.machineMs() >= untilMs) return false;
    if (!this.#extend(owner)) return false;
    if (moment.machineMs() < untilMs) return true;
    // Too late: somebody may have found it over. It ends when it would have ended.
    disk.utimes(owner.path, untilMs);
    owner.untilMs = untilMs;
    return false;
  }

  /** Ends the claim's time without needing any space on the disk. */
  resign(owner: Owner): void {
    disk.utimes(owner.path, 1);
    owner.untilMs = 1;
  }

  /** An owner file that another thread or process made for this claim. */
  adopt(facts: OwnerFacts): Owner | undefined {
    const path = join(this.#options.place.owners, facts.id);
    const times = disk.times(path);
    return times && { facts, path, wording: "", untilMs: times.mtimeMs };
  }

  close(): void {
    for (const same of this.#idle.values()) for (const owner of same) this.discard(owner);
    this.#idle.clear();
    this.#idleCount = 0;
  }

  #make(claim: Claim, wording: string): Owner {
    const { place, instance } = this.#options;
    const { mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta } = claim;
    const id = this.#idFor(claim);
    const facts: OwnerFacts = {
      kind: "owner",
      id,
      instance,
      life: this.#life,
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
    const owner: Owner = { facts, path, wording, untilMs: 0 };
    if (!this.#extend(owner)) throw Object.assign(new Error(`${path} vanished`), { code: "ENOENT" });
    return owner;
  }

  #idFor({ id }: Claim): string {
    const path = join(this.#options.place.owners, id);
    if (!isId(id)) return freshName();
    if (!disk.exists(path)) return id;
    if (!this.#named) return freshName();
    // A claim that ended and asks again: its old file is linked nowhere that matters.
    remove(path);
    return id;
  }

  /** `false`: the file is gone. */
  #extend(owner: Owner): boolean {
    const untilMs = this.#options.moment.machineMs() + owner.facts.ttlMs;
    try {
      disk.utimes(owner.path, untilMs);
    } catch (error) {
      if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return false;
      throw error;
    }
    owner.untilMs = untilMs;
    return true;
  }

  /** A worker thread may have renewed it. */
  #reread(owner: Owner): void {
    const times = disk.times(owner.path);
    if (times !== undefined) owner.untilMs = Math.max(owner.untilMs, times.mtimeMs);
  }

  #forgetEmpty(): void {
    for (const [wording, same] of this.#idle) if (same.length === 0) this.#idle.delete(wording);
  }
}

/** Reads an owner file. `undefined`: it is gone, or half made. */
export function readOwner(path: string): OwnerFacts | undefined {
  const text = disk.read(path);
  return text === undefined || text === "" ? undefined : parseOwner(path, text);
}

function wordingOf({ mode, limit, ttlMs, lockDelayMs, minHoldMs, holder, meta }: Claim): string {
  let wording = `${mode} ${limit} ${ttlMs} ${lockDelayMs} ${minHoldMs} ${holder}`;
  for (const text in meta) wording += `\n${JSON.stringify([text, meta[text]])}`;
  return wording;
}
