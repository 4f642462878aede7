/** Holds that were lost while somebody uses them: the store may have them yet, until their user lets go or the locks are closed. */
import type { Hold } from "./hold.ts";

/** They are looked through when there are more. */
const MANY = 256;

export class LostHolds {
  readonly #holds: Set<Hold> = new Set();
  #max = MANY;

  /** A delay after an unclean end is kept: such a hold is not freed early. */
  add(hold: Hold, nowMs: number): void {
    if (hold.claim.lockDelayMs > 0) return;
    this.#holds.add(hold);
    if (this.#holds.size < this.#max) return;
    // Those that nobody ever releases are not kept for ever: the store has let go of them by now.
    for (const lost of this.#holds) if (nowMs > lost.fromMs + 2 * lost.ttlMs) this.#holds.delete(lost);
    this.#max = Math.max(MANY, 2 * this.#holds.size);
  }

  /** Nobody uses it any more. `false`: it goes, or went, back to the store by another way. */
  delete(hold: Hold): boolean {
    return this.#holds.delete(hold);
  }

  /** Takes them all. */
  clear(): readonly Hold[] {
    const all = [...this.#holds];
    this.#holds.clear();
    return all;
  }
}
