/** A claim that this process knows: its key, if it has one, and what is known of it. Its operations run one after the other. */
import type { Claim, Outcome, Released } from "../../contract/backend.ts";
import { below, type KeySpan, type NameKeys } from "./keys.ts";
import type { Lease } from "./lease.ts";

/** A claim's key, and the lease that it lives with. */
export interface Place {
  readonly key: Buffer;
  readonly lease: Lease;
  /** The revision that created the key. Absent: it is unknown whether that has happened. */
  createRevision: bigint | undefined;
  /** A request that creates the key was sent, and its answer was lost. */
  mayAppear: boolean;
  /** What the claim shows of itself is here, or may be: it goes with the claim's key. */
  shownKey: Buffer | undefined;
}

/** What a waiting claim waits for. */
export interface Blocked {
  readonly keys: readonly Buffer[];
  /** So many of them must leave. */
  readonly mustLeave: number;
  /** They were there at this revision. */
  readonly revision: bigint;
  /** The greatest that any answer had shown then. */
  readonly knownRevision: bigint;
}

export interface Ending {
  readonly outcome: Outcome | undefined;
  readonly released: Promise<Released>;
}

export class LocalClaim {
  claim: Claim;
  /** All keys of the lock. */
  readonly span: KeySpan;
  /** Where the lock's outcome is. */
  readonly outcomeKey: Buffer;
  /** The last change of what is there and is no outcome: of another program's making, so that it does not count. 0: nothing is. */
  outcomeIgnored: bigint = 0n;
  /** Leases of the cluster that were taken for the claim's own outcome, as long as it is unknown which of them has it. */
  readonly outcomeLeases: Set<bigint> = new Set();
  place: Place | undefined;
  blocked: Blocked | undefined;
  /** The revision at which what blocked it went, as its watch reported. A hint: see hand-over.ts. */
  freedRevision: bigint | undefined;
  /** Ends the watch that waits for it: its key is gone. */
  upset: (() => void) | undefined;
  /** The claim, where it shows something else than what was written, and when that was written: see shown.ts. */
  toShow: Claim | undefined;
  /** When it began to hold, by the wall clock, where its own record does not say that. */
  heldSinceMs: number | undefined;
  shownMs: number = -Infinity;
  shownHolds = "";
  /** It is being released. */
  isLeaving = false;
  /** The last operation that was begun, if it is its release: the same that is asked for meanwhile shares it. */
  ending: Ending | undefined;
  #isBusy = false;
  readonly #waiting: (() => void)[] = [];

  constructor(claim: Claim, keys: NameKeys) {
    this.claim = claim;
    this.span = below(keys.prefix(claim.name));
    this.outcomeKey = keys.beside.outcome(claim.name);
  }

  /** Waits for its turn: a release runs after the attempt before it, and removes what that made. Ends with leave(). */
  enter(): Promise<void> | undefined {
    this.ending = undefined;
    if (this.#isBusy) return new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#isBusy = true;
    return undefined;
  }

  leave(): void {
    const next = this.#waiting.shift();
    // Handed over without a gap, so no other operation gets in between.
    if (next === undefined) this.#isBusy = false;
    else next();
  }
}
