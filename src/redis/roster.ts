/**
 * The claims of this process, from the moment they are asked for until the store has answered that they left. A message is
 * about one of these or about nothing: it shows the beginning of the claim's id and proves with a seal that whoever made it
 * knows the rest, which only the store and this process do.
 */
import { hash } from "node:crypto";
import type { Claim } from "../backend.ts";
import type { Clock } from "../clock.ts";

/** Of a claim's 22 characters a message shows these; the others are a secret of 84 bits. */
const SHOWN = 8;
const SEAL_LENGTH = 20;
/** What was never released is forgotten after this long, or four times its ttl. */
const MEMORY_MS = 600_000;
const MEMORY_MIN = 1000;

/** What a message says of one claim, and what proves it. */
export interface Sealed {
  readonly shown: string;
  readonly text: string;
  readonly seal: string;
}

interface Entry {
  readonly claim: Claim;
  /** How its id begins. */
  readonly shown: string;
  readonly sinceMs: number;
  /** `leaving`: its release is under way. `unwanted`: it was released, but the store did not answer. */
  state: "wanted" | "leaving" | "unwanted";
  /** Another claim whose id begins alike. */
  next: Entry | undefined;
}

export class Roster {
  readonly #clock: Clock;
  readonly #renewed: () => Iterable<Claim>;
  readonly #entries: Map<string, Entry> = new Map();
  #sweepAt = MEMORY_MIN;

  /** `renewed`: the claims that were renewed last, however long ago they began. */
  constructor(clock: Clock, renewed: () => Iterable<Claim>) {
    this.#clock = clock;
    this.#renewed = renewed;
  }

  /** The claim is about to be asked for: from now on there may be messages about it. */
  add(claim: Claim): void {
    const entry = this.#entry(claim);
    if (entry.state === "unwanted") entry.state = "wanted";
  }

  /** The claim's release is about to be sent. */
  leave(claim: Claim): void {
    this.#entry(claim).state = "leaving";
  }

  /** The store has answered that the claim is not there any more, or the answer will never come. */
  left(id: string, answered: boolean): void {
    const entry = this.#get(id);
    if (entry === undefined) return;
    entry.state = "unwanted";
    if (answered) this.#remove(entry);
  }

  state(id: string): Entry["state"] | undefined {
    return this.#get(id)?.state;
  }

  /** Whose message this is. `undefined`: nobody's here, or it was not made by the store. */
  find({ shown, text, seal }: Sealed): Claim | undefined {
    for (let entry = this.#entries.get(shown); entry !== undefined; entry = entry.next) {
      if (hash("sha1", entry.claim.id + text).slice(0, SEAL_LENGTH) === seal) return entry.claim;
    }
    return undefined;
  }

  #entry(claim: Claim): Entry {
    const shown = claim.id.slice(0, SHOWN);
    const first = this.#entries.get(shown);
    for (let entry = first; entry !== undefined; entry = entry.next) if (entry.claim.id === claim.id) return entry;
    if (this.#entries.size >= this.#sweepAt) this.#sweep();
    const entry: Entry = { claim, shown, sinceMs: this.#clock.now(), state: "wanted", next: this.#entries.get(shown) };
    this.#entries.set(shown, entry);
    return entry;
  }

  #get(id: string): Entry | undefined {
    let entry = this.#entries.get(id.slice(0, SHOWN));
    while (entry !== undefined && entry.claim.id !== id) entry = entry.next;
    return entry;
  }

  #remove(entry: Entry): void {
    const { shown } = entry;
    const first = this.#entries.get(shown);
    if (first !== entry) {
      for (let before = first; before !== undefined; before = before.next) {
        if (before.next === entry) before.next = entry.next;
      }
    } else if (entry.next === undefined) this.#entries.delete(shown);
    else this.#entries.set(shown, entry.next);
  }

  *#all(): Generator<Entry> {
    for (const first of this.#entries.values()) {
      for (let entry: Entry | undefined = first; entry !== undefined; entry = entry.next) yield entry;
    }
  }

  /** A lease that ended without a release leaves its entry. Forgotten too early, one only hears later that it was broken. */
  #sweep(): void {
    const nowMs = this.#clock.now();
    const renewed = new Set(this.#renewed());
    const entries = [...this.#all()];
    for (const entry of entries) {
      const oldMs = entry.sinceMs + Math.max(MEMORY_MS, 4 * entry.claim.ttlMs);
      if (oldMs < nowMs && entry.state !== "leaving" && !renewed.has(entry.claim)) this.#remove(entry);
    }
    this.#sweepAt = Math.max(MEMORY_MIN, 2 * this.#entries.size);
  }
}
