/**
 * How soon the next member is dialled, and how long that may take. A connection counts as useful only if it lasted: otherwise
 * a server that accepts and hangs up would be dialled hundreds of times a second.
 */

/** A connection that ended sooner than this was useless. */
const PROVEN_MS = 1000;
const DIAL_MIN_MS = 1000;
/** A little more than the five seconds that the command line gives a silent store, whose message is the better one. */
const DIAL_MAX_MS = 5500;
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 1000;

export class DialBackoff {
  readonly #members: number;
  /** Useless connections in a row. */
  #failures = 0;
  #openedMs: number | undefined;

  constructor(members: number) {
    this.#members = members;
  }

  /** True once every member has failed. */
  get allFailed(): boolean {
    return this.#rounds() > 0;
  }

  /** When all have failed, each gets longer. */
  get limitMs(): number {
    return Math.min(DIAL_MAX_MS, DIAL_MIN_MS * 2 ** this.#rounds());
  }

  opened(): void {
    this.#openedMs = performance.now();
  }

  /** A connection ended or failed. Returns the pause before the next. */
  ended(): number {
    const isProven = this.#openedMs !== undefined && performance.now() - this.#openedMs >= PROVEN_MS;
    this.#openedMs = undefined;
    this.#failures = isProven ? 0 : this.#failures + 1;
    // The next member at once; a pause only after all of them failed.
    if (!this.allFailed) return 0;
    return PAUSE_MIN_MS + Math.random() * Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** this.#rounds());
  }

  #rounds(): number {
    return Math.min(10, Math.floor(this.#failures / this.#members));
  }
}
