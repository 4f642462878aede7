/** Whether a claim's time is over: its process died, or its lease was not renewed. And who else keeps it alive. */
import { join } from "node:path";
import { createFile, disk, remove, tryRename } from "./disk.ts";
import { comparableStart, isDead, isNeighbour, isRunning, ownLife, sharesClock, startOf } from "./process-identity.ts";
import type { Moment } from "./clock.ts";
import { freshName, type Place } from "./directory.ts";
import {
  type Companion,
  type Company,
  type Holder,
  isId,
  type Kept,
  type OwnerFacts,
  parseCompany,
} from "./records.ts";
import { seal } from "./checksum.ts";

/** Added to every end, for the rounding of a file's times. */
const GUARD_MS = 2;
/** The same where only wall clocks can be compared, which somebody may adjust. */
const WALL_GUARD_MS = 1000;

export type Fate =
  /** `remainingMs`: until the store lets go by itself. */
  | { readonly alive: true; readonly remainingMs: number }
  /** `keepMs`: how long nobody gets the place, counted from now, because the end was unclean. */
  | { readonly alive: false; readonly keepMs: number };

export interface FateOptions {
  readonly place: Place;
  readonly moment: Moment;
}

/** Judges a lease by the times of `path`, a link to its owner file. */
export function fateOf({ place, moment }: FateOptions, facts: OwnerFacts, path: string): Fate {
  const remainingMs = remainingAt(moment, facts, path);
  const { life, ttlMs, lockDelayMs } = facts;
  if (remainingMs === undefined) return { alive: false, keepMs: lockDelayMs };
  const dead = isDead(life);
  if (remainingMs > 0 && !dead) return { alive: true, remainingMs };
  const company = companyOf(place, facts);
  if (company === "alive") return { alive: true, remainingMs: Math.max(remainingMs, ttlMs) };
  // It named somebody, whom nobody can look for any more: the ttl decides.
  if (company === "unknown" && remainingMs > 0) return { alive: true, remainingMs };
  return { alive: false, keepMs: dead ? Math.max(0, Math.min(lockDelayMs, remainingMs)) : 0 };
}

/**
 * How long a claim's place in the queue lasts; 0 when it is over. Only its own process can wait by it: whoever keeps the leases of
 * a dead process alive cannot take a lock that is handed to it. `freshMs`: see isDead().
 */
export function waitsForMs({ moment }: FateOptions, facts: OwnerFacts, path: string, freshMs?: number): number {
  const remainingMs = remainingAt(moment, facts, path) ?? 0;
  return remainingMs > 0 && !isDead(facts.life, freshMs) ? remainingMs : 0;
}

/** The clock is read before the times. `undefined`: the file is gone. */
function remainingAt(moment: Moment, { life, ttlMs, lockDelayMs }: OwnerFacts, path: string): number | undefined {
  const nowMs = moment.machineMs();
  const wallMs = moment.wallMs();
  const times = disk.times(path);
  if (times === undefined) return undefined;
  // Another boot or time namespace: the kernel's own time of the last renewal, by the wall clock, is all there is.
  return sharesClock(life)
    ? times.mtimeMs + lockDelayMs + GUARD_MS - nowMs
    : times.ctimeMs + ttlMs + lockDelayMs + WALL_GUARD_MS - wallMs;
}

/** How long a kept place lasts from now on; not above 0 when it is over. */
export function keptForMs({ moment }: FateOptions, { untilMs, untilWallMs, life }: Kept): number {
  return sharesClock(life) ? untilMs - moment.machineMs() : untilWallMs - moment.wallMs();
}

/** The place that a holder leaves behind. */
export function keep({ moment }: FateOptions, holder: Holder, forMs: number): Kept {
  return { ...holder, life: ownLife(), untilMs: moment.machineMs() + forMs, untilWallMs: moment.wallMs() + forMs };
}

/** Another process that must end before the leases of this backend can: see `alsoAlive`. */
export class Companions {
  readonly #place: Place;
  readonly #path: string;
  readonly #list: Companion[] = [];

  constructor(place: Place, instance: string) {
    this.#place = place;
    this.#path = join(place.companions, instance);
  }

  add(pid: number): () => void {
    const companion: Companion = { pid, start: startOf(pid) };
    this.#list.push(companion);
    this.#write();
    return () => {
      const at = this.#list.indexOf(companion);
      if (at < 0) return;
      this.#list.splice(at, 1);
      this.#write();
    };
  }

  /** The directory was made anew. */
  restore(): void {
    if (this.#list.length > 0) this.#write();
  }

  close(): void {
    remove(this.#path);
  }

  /** Written aside and renamed, so that no reader ever finds half a list. */
  #write(): void {
    if (this.#list.length === 0) return this.close();
    const aside = join(this.#place.trash, freshName());
    createFile(aside, seal({ life: ownLife(), companions: this.#list } satisfies Company));
    if (!tryRename(aside, this.#path)) throw new Error(`${this.#path} could not be written`);
  }
}

/** Whether a companion of the backend that made this claim runs, as far as that can be seen from here. */
function companyOf(place: Place, { instance, life }: OwnerFacts): "alive" | "none" | "unknown" {
  if (!isNeighbour(life) || !isId(instance)) return "none";
  const path = join(place.companions, instance);
  if (!disk.exists(path)) return "none";
  const company = readCompany(path);
  if (company === undefined) return "unknown";
  return isAccompanied(company) ? "alive" : "none";
}

/** `undefined`: it is gone, or not to be read. */
export function readCompany(path: string): Company | undefined {
  try {
    return parseCompany(disk.read(path) ?? "");
  } catch {
    return undefined;
  }
}

export function isAccompanied({ life, companions }: Company): boolean {
  return companions.some(({ pid, start }) => isRunning(pid, comparableStart(life, start)));
}
