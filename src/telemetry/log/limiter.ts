/** At most so many lines of a kind in a while, so that a bad day does not fill a disk. What was left out is said, also where nothing follows. */
import type { Deadline } from "../../contract/deadlines.ts";

export class Limiter implements Deadline {
  readonly kind: string;
  readonly #most: number;
  readonly #everyMs: number;
  #sinceMs = -Infinity;
  #lines = 0;
  #suppressed = 0;

  // The deadlines' own notes.
  atMs = 0;
  heapIndex = -1;

  constructor(kind: string, most: number, everyMs: number) {
    this.kind = kind;
    this.#most = most;
    this.#everyMs = everyMs;
  }

  /** When what is left out now has to be said. */
  get untilMs(): number {
    return this.#sinceMs + this.#everyMs;
  }

  /** Whether one more line may be written; if not, it is counted. */
  admit(nowMs: number): boolean {
    if (nowMs >= this.untilMs) {
      this.#sinceMs = nowMs;
      this.#lines = 0;
    }
    if (this.#lines < this.#most) {
      this.#lines++;
      return true;
    }
    this.#suppressed++;
    return false;
  }

  /** How many were left out since it was last asked. */
  takeSuppressed(): number {
    const count = this.#suppressed;
    this.#suppressed = 0;
    return count;
  }
}
