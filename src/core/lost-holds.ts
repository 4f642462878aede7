/** Holds that are lost and still in use: the store may have their leases yet, until their users let go or the locks are closed. */
import type { Clock } from "../contract/clock.ts";
import type { Hold } from "./hold.ts";

/** Looked through when there are more. */
const SOME = 256;

export class LostHolds {
  readonly #clock: Clock;
  readonly #holds: Set<Hold> = new Set();
  #max = SOME;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Not one with a delay after an unclean end: the store keeps that. */
  add(hold: Hold): void {
    if (hold.claim.lockDelayMs > 0) return;
    this.#holds.add(hold);
    if (this.#holds.size < this.#max) return;
    // Those that are never released are not kept for ever: the store has let go of them by now.
    const nowMs = this.#clock.now();
    for (const lost of this.#holds) if (nowMs > lost.fromMs + 2 * lost.ttlMs) this.#holds.delete(lost);
    this.#max = Math.max(SOME, 2 * this.#holds.size);
  }

  /** `false`: it was not here. */
  remove(hold: Hold): boolean {
    return this.#holds.delete(hold);
  }

  removeAll(): readonly Hold[] {
    const all = [...this.#holds];
    this.#holds.clear();
    return all;
  }
}
