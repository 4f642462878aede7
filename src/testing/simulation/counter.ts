/**
 * The store's side of the simulation: the memory store, served the way Redis is. Every "still queued" carries the lock's last
 * fence, read in the same step; a claim that is granted while it waits gets one message; waiters live by their signs of life.
 */
import type { Backend, Claim, Granted, Refused } from "../../contract/backend.ts";
import type { MemoryStore, StoreChange } from "../../backends/memory/index.ts";

/** A grant that the store made by itself to a claim that waited. */
export interface GrantMessage {
  readonly claim: string;
  readonly lock: string;
  readonly fence: bigint;
  readonly run: number;
}

/** An answer, and the lock's last fence when it was given. */
export interface Counted<A> {
  readonly answer: A;
  readonly last: number;
}

/** What all processes share: follows the store's log. */
export class Counter {
  /** Where the messages of each process go, by its name. */
  readonly inboxes: Map<string, (message: GrantMessage) => void> = new Map();
  readonly #last = new Map<string, number>();
  readonly #queued = new Set<string>();
  /** False: answers do not contain the last fence. Only to show that this would be noticed. */
  readonly #tellsLast: boolean;

  constructor(tellsLast: boolean) {
    this.#tellsLast = tellsLast;
  }

  note(change: StoreChange): void {
    const { kind, claim } = change;
    if (kind === "queued") this.#queued.add(claim);
    else if (kind === "left") this.#queued.delete(claim);
    else if (kind === "granted") {
      const { lock, fence, run, holder } = change;
      this.#last.set(lock, Number(fence) + run - 1);
      if (this.#queued.delete(claim)) this.inboxes.get(holder)?.({ claim, lock, fence, run });
    }
  }

  /** Whether the lock was given to another claim after this grant. */
  isOld({ lock, fence, run }: GrantMessage): boolean {
    return (this.#last.get(lock) ?? 0) > Number(fence) + run - 1;
  }

  /** Nothing may come between the step and the reading: a later grant would seem to be an old one. */
  async count<A extends Granted | Refused>(lock: string, step: () => Promise<A>): Promise<Counted<A>> {
    const answering = step();
    const last = this.#tellsLast ? (this.#last.get(lock) ?? 0) : 0;
    return { answer: await answering, last };
  }
}

/** Signs of life, answered as beat.lua does: the fences of what holds, what a waiter learns, or "-" for what is neither. */
export function beat(
  store: MemoryStore,
  seen: Backend,
  counter: Counter,
  claims: readonly Claim[],
): Promise<readonly string[]> {
  return Promise.all(
    claims.map(async (claim) => {
      const lock = store.view().find(({ name }) => name === claim.name);
      const held = lock?.held.some((lease) => lease.claim.id === claim.id) ?? false;
      const queued = lock?.queued.some(({ id }) => id === claim.id) ?? false;
      if (!held && !queued) return "-";
      const { answer, last } = await counter.count(claim.name, () => seen.attempt(claim));
      return answer.granted ? `${answer.fence}+${answer.run - 1}` : `=${String(last).padStart(16, "0")} 0`;
    }),
  );
}
