/**
 * Since when the leader certainly knows that this client is alive.
 *
 * A client's server answers pings by itself and reports them to the leader only when the leader asks, every half tick.
 * So an answer that came through the leader proves that the session lived when it was asked for, but the leader's
 * clock for it may run from the message before. Two facts bound that: the leader asks at least every half tick, which
 * is at most a quarter of the session's time-out (the time-out is at least two ticks unless an administrator lowered
 * the minimum), and we never stay silent for longer than that either, except when this process was paused.
 */

/** This part of the session's time-out is not used, so the rest counts from the time of asking. */
const MARGIN = 1 / 4;

/** How much of a session's time-out may be trusted from the time of asking. */
export function trustedMs(timeoutMs: number): number {
  return Math.floor(timeoutMs * (1 - MARGIN));
}

export class SessionTrust {
  readonly #marginMs: number;
  #lastSentMs: number;
  /** The last silence that was longer than the margin. */
  #gap: { readonly startMs: number; readonly endMs: number } | undefined;

  /** `openedMs`: before the handshake left. A handshake is answered by the leader, and starts its clock. */
  constructor(openedMs: number, timeoutMs: number) {
    this.#lastSentMs = openedMs;
    this.#marginMs = timeoutMs * MARGIN;
  }

  get lastSentMs(): number {
    return this.#lastSentMs;
  }

  /** Something is sent now. */
  sent(nowMs: number): void {
    if (nowMs - this.#lastSentMs > this.#marginMs) this.#gap = { startMs: this.#lastSentMs, endMs: nowMs };
    this.#lastSentMs = nowMs;
  }

  /** From when {@link trustedMs} counts, after an answer through the leader to what was asked at `askedMs`. */
  since(askedMs: number): number {
    const gap = this.#gap;
    // Once the margin has passed after a silence, the leader has asked in between and learned of us.
    if (gap === undefined || askedMs - gap.endMs >= this.#marginMs) return askedMs;
    return Math.min(askedMs, gap.startMs + this.#marginMs);
  }
}
