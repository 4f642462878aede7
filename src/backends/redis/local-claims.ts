/**
 * The claims of this process, from the moment they are asked for until the store has answered that they left. A message is
 * about one of these or about nothing: it shows the beginning of the claim's id and proves with a seal that whoever made it
 * knows the rest, which only the store and this process do.
 */
import { hash } from "node:crypto";
import type { Claim } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import type { Sealed } from "./replies.ts";
import { LIMIT } from "./wire.ts";
import type { Asked } from "./pending-calls.ts";

/** What was never released is forgotten after this long, or four times its ttl. */
const MEMORY_MS = 600_000;
const MEMORY_MIN = 1000;

/** Whoever asks for the claim, or lets it go, keeps its entry until the answer is there: nothing is looked up twice. */
export interface Entry extends Asked {
  /** As it was asked for last, or released: whether its minHold counts is the release's to say. */
  claim: Claim;
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
  add(claim: Claim, nowMs: number): Entry {
    const entry = this.#entry(claim, nowMs);
    if (entry.state === "unwanted") entry.state = "wanted";
    return entry;
  }

  /** The claim's release is about to be sent. */
  leave(claim: Claim): Entry {
    const entry = this.#entry(claim, undefined);
    entry.claim = claim;
    entry.state = "leaving";
    return entry;
  }

  /** The store has answered that the claim is not there any more, or the answer will never come. */
  left(entry: Entry | undefined, answered: boolean): void {
    if (entry === undefined) return;
    entry.state = "unwanted";
    if (answered) this.#remove(entry);
  }

  get({ id }: Claim): Entry | undefined {
    let entry = this.#entries.get(id.slice(0, LIMIT.shown));
    while (entry !== undefined && entry.claim.id !== id) entry = entry.next;
    return entry;
  }

  /** Whose message this is. `undefined`: nobody's here, or it was not made by the store. */
  find({ shown, text, seal }: Sealed): Entry | undefined {
    if (seal.length !== LIMIT.seal) return undefined;
    for (let entry = this.#entries.get(shown); entry !== undefined; entry = entry.next) {
      if (hash("sha1", entry.claim.id + text).startsWith(seal)) return entry;
    }
    return undefined;
  }

  /** `nowMs` where it is known: a look at the clock costs as much as all the rest. */
  #entry(claim: Claim, nowMs: number | undefined): Entry {
    const shown = claim.id.slice(0, LIMIT.shown);
    let first = this.#entries.get(shown);
    for (let entry = first; entry !== undefined; entry = entry.next) if (entry.claim.id === claim.id) return entry;
    const sinceMs = nowMs ?? this.#clock.now();
    if (this.#entries.size >= this.#sweepAt) {
      this.#sweep(sinceMs);
      first = this.#entries.get(shown);
    }
    const state = "wanted";
    const entry: Entry = { claim, shown, sinceMs, state, next: first, asked: 0, before: undefined, after: undefined };
    this.#entries.set(shown, entry);
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
  #sweep(nowMs: number): void {
    const renewed = new Set(this.#renewed());
    const entries = [...this.#all()];
    for (const entry of entries) {
      const oldMs = entry.sinceMs + Math.max(MEMORY_MS, 4 * entry.claim.ttlMs);
      if (oldMs < nowMs && entry.asked === 0 && !renewed.has(entry.claim)) this.#remove(entry);
    }
    this.#sweepAt = Math.max(MEMORY_MIN, 2 * this.#entries.size);
  }
}
