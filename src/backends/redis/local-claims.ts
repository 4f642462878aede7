/**
 * The claims of this process, from the first request until the store has answered that they ended. It answers two questions: which claim a
 * message is about, and what the store has not answered yet, so that close() leaves nothing behind, or says what.
 *
 * A message shows the beginning of a claim's id, and proves with a seal that its sender knows the rest, which only the store and this
 * process do.
 */
import { hash } from "node:crypto";
import type { Claim } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import type { Sealed } from "./messages.ts";
import { LIMIT } from "./wire.ts";

/** A claim that was never released is forgotten after this long, or four times its ttl. */
const MEMORY_MS = 600_000;
const MEMORY_MIN = 1000;
/** How long close() waits for answers at most. */
const CLOSE_MS = 2000;
const NAMES_SHOWN = 3;

/** What the store has not answered yet. */
export const ENTERING = 1;
export const LEAVING = 2;

/** The caller keeps a claim's entry until the answer is there, so that nothing is looked up twice. */
export interface Entry {
  /** As it was last requested or released: the release decides whether its minHold counts. */
  claim: Claim;
  /** The beginning of its id. */
  readonly shown: string;
  readonly sinceMs: number;
  /** How many connections the client had lost when the claim was last requested. */
  breaks: number;
  /** `leaving`: its release is under way. `unwanted`: it was released, but the store did not answer. */
  state: "wanted" | "leaving" | "unwanted";
  /** Another claim whose id begins with the same characters. */
  next: Entry | undefined;
  /** What is not answered: {@link ENTERING}, {@link LEAVING}, both, or 0. */
  asked: number;
  /** Those with something unanswered are a linked list, so that beginning and ending cost neither a search nor memory. */
  before: Entry | undefined;
  after: Entry | undefined;
}

export class LocalClaims {
  /** From now on, nothing is started that no caller waits for. */
  isClosing = false;
  readonly #clock: Clock;
  readonly #renewed: () => Iterable<Claim>;
  readonly #entries: Map<string, Entry> = new Map();
  #sweepAt = MEMORY_MIN;
  #firstAsked: Entry | undefined;
  #allAnswered: (() => void) | undefined;

  /** `renewed`: the claims of the last renewal, which are in use however old they are. */
  constructor(clock: Clock, renewed: () => Iterable<Claim>) {
    this.#clock = clock;
    this.#renewed = renewed;
  }

  /** The claim is about to be requested: from now on there may be messages about it. */
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

  /** The store has answered that the claim is gone, or the answer will never come. */
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

  /** The claim that a message is about. `undefined`: none of these, or the store did not make the message. */
  find({ shown, text, seal }: Sealed): Entry | undefined {
    if (seal.length !== LIMIT.seal) return undefined;
    for (let entry = this.#entries.get(shown); entry !== undefined; entry = entry.next) {
      if (hash("sha1", entry.claim.id + text).startsWith(seal)) return entry;
    }
    return undefined;
  }

  /** A request for the claim, or its release, was sent. */
  begin(entry: Entry, what: typeof ENTERING | typeof LEAVING): void {
    if (entry.asked === 0) {
      const first = this.#firstAsked;
      entry.after = first;
      if (first !== undefined) first.before = entry;
      this.#firstAsked = entry;
    }
    entry.asked |= what;
  }

  /** It was answered, or failed. */
  end(entry: Entry, what: typeof ENTERING | typeof LEAVING): void {
    if (entry.asked === 0) return;
    entry.asked &= ~what;
    if (entry.asked !== 0) return;
    const { before, after } = entry;
    if (before === undefined) this.#firstAsked = after;
    else before.after = after;
    if (after !== undefined) after.before = before;
    entry.before = undefined;
    entry.after = undefined;
    if (after === undefined && before === undefined) this.#allAnswered?.();
  }

  /** Waits until all is answered, within a time limit. Resolves to an error that says what may be left in the store, if anything. */
  async settled(): Promise<LockBackendError | undefined> {
    this.isClosing = true;
    let late = false;
    const expired = this.#clock.setTimer(() => {
      late = true;
      this.#allAnswered?.();
    }, CLOSE_MS);
    while (!late && this.#firstAsked !== undefined) {
      await new Promise<void>((resolve) => (this.#allAnswered = resolve));
      // The answer may lead to another request: a late grant is given back.
      if (!late) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#clock.clearTimer(expired);
    this.#allAnswered = undefined;
    const names = new Set<string>();
    for (let entry = this.#firstAsked; entry !== undefined; entry = entry.after) names.add(entry.claim.name);
    return names.size === 0 ? undefined : leftover([...names]);
  }

  /** `nowMs` if it is known: reading the clock costs as much as all the rest. */
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
    const none = undefined;
    const asked = 0;
    const entry: Entry = { claim, shown, sinceMs, breaks: 0, state, next: first, asked, before: none, after: none };
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

  /** A lease that ended without a release leaves its entry. If one is removed too early, its forced end is only noticed later. */
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

function leftover(names: readonly string[]): LockBackendError {
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  const locks = names.slice(0, NAMES_SHOWN).map(quote).join(", ") + more;
  const text = `closed, but Redis did not answer within ${formatMs(CLOSE_MS)}, so leases may be left there: of ${locks}. They end after their ttl`;
  return new LockBackendError("redis", names[0] ?? "", `Redis locks: ${text}.`);
}
