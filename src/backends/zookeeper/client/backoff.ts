/**
 * How soon the next server is dialled, and how long that may take.
 *
 * A connection was of use only if it lasted: whatever a server says in a handshake, or after it, does not make us dial
 * faster. Else a server that answers nonsense would be dialled hundreds of times a second.
 */

/** A connection that ended sooner than this after its handshake was of no use. */
const PROVEN_MS = 1000;
const DIAL_LEAST_MS = 250;
const DIAL_MOST_MS = 5000;
const PAUSE_LEAST_MS = 50;
const PAUSE_MOST_MS = 1000;

export class Pace {
  readonly #servers: number;
  /** Connections in a row that were of no use. */
  #failures = 0;
  #openedMs: number | undefined;

  constructor(servers: number) {
    this.#servers = servers;
  }

  /** True once every server was tried in vain. */
  get isInVain(): boolean {
    return this.#rounds() > 0;
  }

  /** All servers can be tried within a third of the session's time-out; if none was of use, each gets longer. */
  dialLimitMs(timeoutMs: number): number {
    const share = timeoutMs / 3 / this.#servers;
    return Math.min(DIAL_MOST_MS, Math.max(DIAL_LEAST_MS, share) * 2 ** this.#rounds());
  }

  /** A server answered the handshake. */
  opened(): void {
    this.#openedMs = performance.now();
  }

  /** A connection ended, or none came about. Returns the pause before the next; `left` servers are untried in this round. */
  ended(left: number): number {
    const isProven = this.#openedMs !== undefined && performance.now() - this.#openedMs >= PROVEN_MS;
    this.#openedMs = undefined;
    this.#failures = isProven ? 0 : this.#failures + 1;
    // The next server at once; a pause only after none of them was of use.
    if (isProven || (left > 0 && !this.isInVain)) return 0;
    return PAUSE_LEAST_MS + Math.random() * Math.min(PAUSE_MOST_MS, PAUSE_LEAST_MS * 2 ** this.#rounds());
  }

  #rounds(): number {
    return Math.min(10, Math.floor(this.#failures / this.#servers));
  }
}
