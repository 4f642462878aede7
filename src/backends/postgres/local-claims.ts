/**
 * The claims of this process, from the first request until the store has answered that they ended. It answers three questions: which claim a
 * message is about; whether a request for a claim is still under way, so that its release does not overtake it on another connection; and what
 * the store has not answered yet, so that close() leaves nothing behind, or says what.
 */
import type { Claim } from "../../contract/backend.ts";
import type { Clock } from "../../contract/clock.ts";
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";
import { SHOWN } from "./inbox.ts";

/** A claim that was never released is forgotten after this long, or four times its ttl. */
const MEMORY_MS = 600_000;
const MEMORY_MIN = 1000;
/** How long close() waits for answers at most. */
export const CLOSE_MS = 2000;
const NAMES_SHOWN = 3;

interface Entry {
  readonly claim: Claim;
  readonly sinceMs: number;
  /** Requests that are not answered yet. Settles, and never rejects, when the last of them is. */
  under: Promise<void> | undefined;
}

export class LocalClaims {
  readonly #clock: Clock;
  readonly #renewed: () => Iterable<Claim>;
  /** By the beginning of their ids. */
  readonly #entries: Map<string, Entry[]> = new Map();
  readonly #unanswered: Map<Promise<void>, string> = new Map();
  #sweepAt = MEMORY_MIN;
  #count = 0;

  /** `renewed`: the claims of the last renewal, which are in use however old they are. */
  constructor(clock: Clock, renewed: () => Iterable<Claim>) {
    this.#clock = clock;
    this.#renewed = renewed;
  }

  /** Sends a request for the claim. From now on there may be messages about it. */
  enter<T>(claim: Claim, send: () => Promise<T>): Promise<T> {
    return this.#track(claim, this.#entry(claim), send());
  }

  /** Sends the release of a claim, after the answers to all requests for it: on another connection it could come first. */
  leave<T>(claim: Claim, send: () => Promise<T>): Promise<T> {
    const entry = this.#find(claim.id);
    const sent = entry?.under === undefined ? send() : entry.under.then(send);
    return this.#track(claim, entry, sent);
  }

  /** The store has answered that the claim is gone. */
  left({ id }: Claim): void {
    const same = this.#entries.get(id.slice(0, SHOWN));
    const rest = same?.filter(({ claim }) => claim.id !== id);
    if (same === undefined || rest?.length === same.length) return;
    this.#count--;
    if (rest!.length === 0) this.#entries.delete(id.slice(0, SHOWN));
    else this.#entries.set(id.slice(0, SHOWN), rest!);
  }

  /** The claim that a message is about. `undefined`: none of these, or the store did not make the message. */
  find(shown: string, isSealed: (id: string) => boolean): Claim | undefined {
    return this.#entries.get(shown)?.find(({ claim }) => isSealed(claim.id))?.claim;
  }

  /** Those that ask for the same lock in shared mode. */
  *readersLike({ name }: Claim): Iterable<Claim> {
    for (const { claim } of [...this.#entries.values()].flat()) {
      if (claim.name === name && claim.mode === "shared") yield claim;
    }
  }

  /** Waits until all is answered, within a time limit. Resolves to an error that says what may be left in the store, if anything. */
  async settled(): Promise<LockBackendError | undefined> {
    let late = false;
    let expire: (() => void) | undefined;
    const expired = new Promise<void>((resolve) => (expire = resolve));
    const timer = this.#clock.setTimer(
      () => {
        late = true;
        expire?.();
      },
      CLOSE_MS,
      true,
    );
    while (!late && this.#unanswered.size > 0) await Promise.race([Promise.all(this.#unanswered.keys()), expired]);
    this.#clock.clearTimer(timer);
    return this.#unanswered.size === 0 ? undefined : leftover([...new Set(this.#unanswered.values())]);
  }

  #track<T>(claim: Claim, entry: Entry | undefined, sent: Promise<T>): Promise<T> {
    const under = sent
      .then(
        () => undefined,
        () => undefined,
      )
      .then(() => {
        this.#unanswered.delete(under);
        if (entry?.under === under) entry.under = undefined;
      });
    this.#unanswered.set(under, claim.name);
    // A later request is answered after this one, or its answer does not matter: the release waits for the last.
    if (entry !== undefined) entry.under = entry.under === undefined ? under : both(entry, under);
    return sent;
  }

  #find(id: string): Entry | undefined {
    return this.#entries.get(id.slice(0, SHOWN))?.find(({ claim }) => claim.id === id);
  }

  #entry(claim: Claim): Entry {
    const known = this.#find(claim.id);
    if (known !== undefined) return known;
    if (this.#count >= this.#sweepAt) this.#sweep();
    const entry: Entry = { claim, sinceMs: this.#clock.now(), under: undefined };
    const shown = claim.id.slice(0, SHOWN);
    this.#entries.set(shown, [...(this.#entries.get(shown) ?? []), entry]);
    this.#count++;
    return entry;
  }

  /** A lease that ended without a release leaves its entry. If one is removed too early, its forced end is only noticed later. */
  #sweep(): void {
    const nowMs = this.#clock.now();
    const renewed = new Set(this.#renewed());
    for (const entry of [...this.#entries.values()].flat()) {
      const oldMs = entry.sinceMs + Math.max(MEMORY_MS, 4 * entry.claim.ttlMs);
      if (oldMs < nowMs && entry.under === undefined && !renewed.has(entry.claim)) this.left(entry.claim);
    }
    this.#sweepAt = Math.max(MEMORY_MIN, 2 * this.#count);
  }
}

function both(entry: Entry, under: Promise<void>): Promise<void> {
  const all = Promise.all([entry.under, under]).then(() => {
    if (entry.under === all) entry.under = undefined;
  });
  return all;
}

function leftover(names: readonly string[]): LockBackendError {
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  const locks = names.slice(0, NAMES_SHOWN).map(quote).join(", ") + more;
  const text = `closed, but Postgres did not answer within ${formatMs(CLOSE_MS)}, so leases may be left there: of ${locks}. They end after their ttl`;
  return new LockBackendError("postgres", names[0] ?? "", `Postgres locks: ${text}.`);
}
