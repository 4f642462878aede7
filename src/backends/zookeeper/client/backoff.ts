/**
 * How soon the next server is dialled, and how long that may take.
 *
 * A connection counts as useful only if it lasted: a handshake alone does not make us dial faster. Otherwise a server that
 * answers nonsense would be dialled hundreds of times a second.
 */
import { jitter } from "../../../contract/random.ts";

/** A connection that ended sooner than this after its handshake was useless. */
const PROVEN_MS = 1000;
const DIAL_MIN_MS = 250;
/** A little more than the five seconds that the command line gives a silent store, whose message is the better one. */
const DIAL_MAX_MS = 5500;
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 1000;

export class DialBackoff {
  readonly #servers: number;
  /** Useless connections in a row. */
  #failures = 0;
  #openedMs: number | undefined;

  constructor(servers: number) {
    this.#servers = servers;
  }

  /** True once every server has failed. */
  get allFailed(): boolean {
    return this.#rounds() > 0;
  }

  /** All servers can be tried within a third of the session's time-out; if all failed, each gets longer. */
  dialLimitMs(timeoutMs: number): number {
    const share = timeoutMs / 3 / this.#servers;
    return Math.min(DIAL_MAX_MS, Math.max(DIAL_MIN_MS, share) * 2 ** this.#rounds());
  }

  /** A server answered the handshake. */
  opened(): void {
    this.#openedMs = performance.now();
  }

  /** A connection ended or failed. Returns the pause before the next; `left` servers are untried in this round. */
  ended(left: number): number {
    const isProven = this.#openedMs !== undefined && performance.now() - this.#openedMs >= PROVEN_MS;
    this.#openedMs = undefined;
    this.#failures = isProven ? 0 : this.#failures + 1;
    // The next server at once; a pause only after all of them failed.
    if (isProven || (left > 0 && !this.allFailed)) return 0;
    return PAUSE_MIN_MS + jitter(Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** this.#rounds()), 0, 1);
  }

  #rounds(): number {
    return Math.min(10, Math.floor(this.#failures / this.#servers));
  }
}
