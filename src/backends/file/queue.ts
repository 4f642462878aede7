/**
 * The queue in front of a lock: a directory with one ticket per waiting claim, which is a link to the claim's owner
 * file. Its name begins with the instant of arrival, so that a listing is the order. Whoever hands the lock over links the
 * ticket itself into the log: a waiter that has removed its ticket can no longer be handed anything.
 *
 * The directory exists only while somebody waits, or did a moment ago: one look tells that nobody does.
 */
import { join } from "node:path";
import type { Mine } from "./local-claim.ts";
import { checkDirectory, disk, remove, tryLink, tryMkdir, tryRmdir } from "./disk.ts";
import { type FateOptions, waitsForMs } from "./liveness.ts";
import { type Owner, readOwner } from "./lease-file.ts";
import type { LockState, OwnerFacts } from "./records.ts";
import { limitsDiffer, otherLimit } from "./admission.ts";

/** Removing a directory costs more than leaving it: an empty one stays this long. */
const EMPTY_MS = 1000;
const FACTS_MAX = 2000;
/** Behind the first, a waiter that died a moment ago does no harm. */
const PATIENT_MS = 100;
const NAME = /^(\d{16,20})-([-_A-Za-z0-9]{1,64})$/;

export interface Ticket {
  readonly path: string;
  readonly facts: OwnerFacts;
  readonly arrivalUs: number;
  readonly remainingMs: number;
}

/** What owner files say; it never changes, and an id is used once. */
export class FactsCache {
  readonly #known = new Map<string, OwnerFacts>();

  of(id: string, path: string): OwnerFacts | undefined {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const facts = factsAt(path);
    if (facts?.id !== id) return undefined;
    if (this.#known.size >= FACTS_MAX) this.#known.clear();
    this.#known.set(id, facts);
    return facts;
  }
}

/** `undefined`: it is gone, half made, or no ticket: nobody waits by it, whatever its name. */
function factsAt(path: string): OwnerFacts | undefined {
  try {
    return readOwner(path);
  } catch {
    return undefined;
  }
}

export class Queue {
  readonly #path: string;
  readonly #around: FateOptions;
  readonly #facts: FactsCache;

  constructor(directory: string, around: FateOptions, facts: FactsCache) {
    this.#path = join(around.place.queues, directory);
    this.#around = around;
    this.#facts = facts;
  }

  /** True when somebody may wait: a look that costs a microsecond. */
  mayExist(): boolean {
    return disk.exists(this.#path);
  }

  ticketOf(owner: Owner, arrivalUs: number): string {
    return join(this.#path, `${String(arrivalUs).padStart(16, "0")}-${owner.facts.id}`);
  }

  /** Adds a ticket. `"too many"`: the owner file has no links left; take another. `"gone"`: it vanished. */
  join(owner: Owner, arrivalUs: number): "joined" | "too many" | "gone" {
    const path = this.ticketOf(owner, arrivalUs);
    for (let tries = 0; tries < 100; tries++) {
      const outcome = tryLink(owner.path, path);
      if (outcome === "linked" || outcome === "exists") return "joined";
      if (outcome === "too many") return "too many";
      if (!disk.exists(owner.path)) return "gone";
      if (!tryMkdir(this.#path)) checkDirectory(this.#path);
    }
    return "gone";
  }

  /** Removes a ticket. `false`: it was not there. */
  leave(ticket: string): boolean {
    return remove(ticket);
  }

  /** Who waits, in order; tickets whose time is over are removed on the way. */
  list(): Ticket[] {
    const names = disk.list(this.#path);
    if (names === undefined) return [];
    const tickets: Ticket[] = [];
    for (const name of names.toSorted()) {
      const ticket = this.#look(name, tickets.length === 0 ? undefined : PATIENT_MS);
      if (ticket !== undefined) tickets.push(ticket);
    }
    if (tickets.length === 0) this.#tidy();
    return tickets;
  }

  #look(name: string, freshMs: number | undefined): Ticket | undefined {
    const [, arrival, id] = NAME.exec(name) ?? [];
    if (arrival === undefined || id === undefined) return undefined;
    const path = join(this.#path, name);
    const facts = this.#facts.of(id, path);
    if (facts === undefined) return undefined;
    const remainingMs = waitsForMs(this.#around, facts, path, freshMs);
    if (remainingMs > 0) return { path, facts, arrivalUs: Number(arrival), remainingMs };
    remove(path);
    return undefined;
  }

  #tidy(): void {
    const times = disk.times(this.#path);
    if (times !== undefined && Math.abs(this.#around.moment.wallMs() - times.mtimeMs) > EMPTY_MS) tryRmdir(this.#path);
  }
}

export function factsOf(line: readonly Ticket[]): OwnerFacts[] {
  return line.map(({ facts }) => facts);
}

/** The error for a claim that asks for another limit than everybody else here agreed on. */
export function limitFlaw({ claim, owner }: Mine, state: LockState, line: readonly Ticket[]): Error | undefined {
  const others = line.filter(({ facts: { id } }) => id !== owner?.facts.id);
  const known = otherLimit(claim, state, factsOf(others));
  return known === undefined ? undefined : limitsDiffer(claim, known);
}
