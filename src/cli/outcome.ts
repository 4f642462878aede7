/**
 * What `holdfast acquire` leaves of a lease: a note for the steps after it, and a line of output. Both are ready before the
 * lease outlives this process, and only the printing comes after it. A process that dies before leaves the lock free.
 */
import type { Claim, Granted } from "../contract/backend.ts";
import { systemClock } from "../contract/clock.ts";
import { driftMs } from "../contract/answer.ts";
import { toPrintableJson } from "../contract/foreign.ts";
import { type Keeper, storeClaim } from "./saved-claims.ts";
import type { Flags } from "./flags.ts";
import type { Io } from "./io.ts";
import { urlOf } from "./open-store.ts";

interface Prepared {
  readonly line: string;
  /** Why there is no note. */
  readonly trouble: Error | undefined;
}

export class Outcome {
  readonly claim: Claim;
  readonly keeper: Keeper | undefined;
  readonly #io: Io;
  readonly #flags: Flags;
  /** By fence: a lease may get another one at the last moment. */
  readonly #prepared = new Map<bigint, Prepared>();

  constructor(io: Io, flags: Flags, claim: Claim, keeper: Keeper | undefined) {
    this.#io = io;
    this.#flags = flags;
    this.claim = claim;
    this.keeper = keeper;
  }

  /** Writes the note, and says what is to be printed. Does nothing for a lease that it was done for. */
  prepare(granted: Granted, sentAtMs: number): Prepared {
    const known = this.#prepared.get(granted.fence);
    if (known !== undefined) return known;
    const ttlMs = granted.ttlMs ?? this.claim.ttlMs;
    const leftMs = (): number => (granted.fromMs ?? sentAtMs) + ttlMs - driftMs(ttlMs) - systemClock.now();
    const trouble = this.#note(granted.fence, Date.now() + leftMs());
    const prepared = { line: this.#lineFor(granted.fence, ttlMs, leftMs()), trouble };
    this.#prepared.set(granted.fence, prepared);
    return prepared;
  }

  #note(fence: bigint, endsAtMs: number): Error | undefined {
    const { claim, keeper } = this;
    try {
      storeClaim(this.#io, urlOf(this.#io, this.#flags), { claim, fence, state: "held", endsAtMs, keeper });
      return undefined;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return new Error(`the claim could not be noted down (${why}; see HOLDFAST_STATE_DIR)`, { cause: error });
    }
  }

  #lineFor(fence: bigint, ttlMs: number, remainingMs: number): string {
    if (!this.#flags.has("json")) return String(fence);
    const { name, id } = this.claim;
    const shown = this.#flags.has("show-claim") ? { claim: id } : {};
    const deadline = new Date(Date.now() + remainingMs).toISOString();
    return toPrintableJson({ name, fence, ...shown, ttlMs, remainingMs: Math.floor(remainingMs), deadline }, 2);
  }
}
