/**
 * The queue of a lock: a directory with one ticket per waiting claim, which is a link to the claim's lease file. Its name begins
 * with the instant of arrival, so a sorted listing is the order. A hand-over links the ticket itself into the log: a waiter that
 * has removed its ticket can no longer be handed the lock.
 *
 * The directory exists only while claims wait, or did just before: if it is missing, there is no waiter.
 */
import { join } from "node:path";
import type { Claim } from "../../contract/backend.ts";
import type { LocalClaim } from "./local-claim.ts";
import { isId } from "./checked-text.ts";
import { checkDirectory, disk, remove, tryLink, tryMkdir, tryRmdir } from "./disk.ts";
import { type LivenessOptions, waitsForMs } from "./liveness.ts";
import type { LeaseFile } from "./lease-file.ts";
import { type LockState, type LeaseFacts, readLeaseFile } from "./records.ts";
import { limitsDiffer, otherLimit } from "./admission.ts";

/** Removing a directory costs more than leaving it: an empty one stays this long. */
const EMPTY_MS = 1000;
const FACTS_MAX = 2000;
/** A dead waiter behind the first one may be noticed this much later. */
const BEHIND_FRESH_MS = 100;
/** When it arrived, its lease file, and its claim where the file does not say it. */
const NAME = /^(\d{16,20})-([-_A-Za-z0-9]{1,64})(?:\.([-_A-Za-z0-9]{1,64}))?$/;

export interface Ticket {
  readonly path: string;
  readonly facts: LeaseFacts;
  /** The claim's id. */
  readonly claim: string | undefined;
  readonly arrivalUs: number;
  readonly remainingMs: number;
}

/** What lease files say. It never changes, and an id is used once. */
export class FactsCache {
  readonly #known = new Map<string, LeaseFacts>();

  of(id: string, path: string): LeaseFacts | undefined {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const facts = factsAt(path);
    if (facts?.id !== id) return undefined;
    if (this.#known.size >= FACTS_MAX) this.#known.clear();
    this.#known.set(id, facts);
    return facts;
  }
}

/** `undefined`: the file is gone, half made, or foreign, so no claim waits by it. */
function factsAt(path: string): LeaseFacts | undefined {
  try {
    return readLeaseFile(path);
  } catch {
    return undefined;
  }
}

export class Queue {
  readonly #path: string;
  readonly #options: LivenessOptions;
  readonly #facts: FactsCache;

  constructor(directory: string, options: LivenessOptions, facts: FactsCache) {
    this.#path = join(options.paths.queues, directory);
    this.#options = options;
    this.#facts = facts;
  }

  /** True when claims may wait. This costs a microsecond. */
  mayExist(): boolean {
    return disk.exists(this.#path);
  }

  ticketOf({ facts }: LeaseFile, arrivalUs: number, { id }: Claim): string {
    const name = `${String(arrivalUs).padStart(16, "0")}-${facts.id}`;
    return join(this.#path, facts.claim === undefined && isId(id) ? `${name}.${id}` : name);
  }

  /** Adds the ticket of that path. `"too many"`: the lease file has no links left. `"gone"`: it vanished. */
  join(file: LeaseFile, path: string): "joined" | "too many" | "gone" {
    for (let tries = 0; tries < 100; tries++) {
      const outcome = tryLink(file.path, path);
      if (outcome === "linked" || outcome === "exists") return "joined";
      if (outcome === "too many") return "too many";
      if (!disk.exists(file.path)) return "gone";
      if (!tryMkdir(this.#path)) checkDirectory(this.#path);
    }
    return "gone";
  }

  leave(ticket: string): void {
    remove(ticket);
  }

  /** The waiters, in order. Tickets whose time is over are removed, if `removesDead`. */
  list(removesDead = true): Ticket[] {
    const names = disk.list(this.#path);
    if (names === undefined) return [];
    const tickets: Ticket[] = [];
    for (const name of names.toSorted()) {
      const ticket = this.#read(name, tickets.length === 0 ? undefined : BEHIND_FRESH_MS, removesDead);
      if (ticket !== undefined) tickets.push(ticket);
    }
    if (tickets.length === 0 && removesDead) this.#tidy();
    return tickets;
  }

  #read(name: string, freshMs: number | undefined, removesDead: boolean): Ticket | undefined {
    const [, arrival, id, claim] = NAME.exec(name) ?? [];
    if (arrival === undefined || id === undefined) return undefined;
    const path = join(this.#path, name);
    const facts = this.#facts.of(id, path);
    if (facts === undefined) return undefined;
    const remainingMs = waitsForMs(this.#options, facts, path, freshMs);
    if (remainingMs > 0) return { path, facts, claim: facts.claim ?? claim, arrivalUs: Number(arrival), remainingMs };
    if (removesDead) remove(path);
    return undefined;
  }

  #tidy(): void {
    const times = disk.times(this.#path);
    if (times !== undefined && Math.abs(this.#options.clock.wall() - times.mtimeMs) > EMPTY_MS) tryRmdir(this.#path);
  }
}

export function factsOf(waiters: readonly Ticket[]): LeaseFacts[] {
  return waiters.map(({ facts }) => facts);
}

/** The error for a claim that asks for another limit than all others of this lock. */
export function wrongLimit(
  { claim, file }: LocalClaim,
  state: LockState,
  waiters: readonly Ticket[],
): Error | undefined {
  const others = waiters.filter(({ facts: { id } }) => id !== file?.facts.id);
  const known = otherLimit(claim, state, factsOf(others));
  return known === undefined ? undefined : limitsDiffer(claim, known);
}
