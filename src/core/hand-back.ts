/**
 * A try that is refused for a holder that may linger: perhaps nothing uses the lock. So its claim queues, once, which makes the store tell
 * that holder, and it has its answer when the lock comes back, or after a bounded time: no lock is idle for longer than its holder lingers.
 */
import type { Claim, Refused } from "../contract/backend.ts";

/** For the message, the release and the grant, besides what answers of the store take. */
const SLACK_MS = 20;
const ANSWERS = 3;
const MOST_MS = 500;

export class HandBack {
  #untilMs: number;

  private constructor(untilMs: number) {
    this.#untilMs = untilMs;
  }

  /** What follows a refusal. `undefined`: its holder does not linger, or there is no time. `untilMs`: the try needs an answer by then. */
  static after(refused: Refused, askedMs: number, nowMs: number, untilMs: number): HandBack | undefined {
    const lingerMs = lingerOf(refused);
    if (lingerMs === 0) return undefined;
    const ms = Math.min(MOST_MS, lingerMs + SLACK_MS + ANSWERS * (nowMs - askedMs), (untilMs - nowMs) / 2);
    return ms < 1 ? undefined : new HandBack(nowMs + ms);
  }

  /** The claim as it is asked for now: the last time it leaves the queue, if it is not granted. */
  queueing(claim: Claim, nowMs: number): Claim {
    const queues = nowMs < this.#untilMs;
    return queues === claim.queues ? claim : { ...claim, queues };
  }

  /** It does not come back to this claim: that is asked for the last time. */
  isHopeless(refused: Refused): boolean {
    if (lingerOf(refused) > 0) return false;
    this.#untilMs = -Infinity;
    return true;
  }

  leftMs(nowMs: number): number {
    return Math.max(1, this.#untilMs - nowMs);
  }
}

/** For how long the holder may linger. 0: it does not, or others are before the claim. What a backend says may be anything. */
function lingerOf({ heldBy, position = 1 }: Refused): number {
  let longestMs = 0;
  try {
    const all: unknown = position > 1 ? [] : heldBy;
    for (const { lingerMs } of Array.isArray(all) ? (all as Refused["heldBy"]) : []) {
      if (typeof lingerMs === "number" && lingerMs > longestMs) longestMs = lingerMs;
    }
  } catch {
    // It cannot be read.
  }
  return longestMs;
}
