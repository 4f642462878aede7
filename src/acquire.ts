/**
 * All waiting for the store: attempt → watch → attempt, until granted or nobody wants it any more. Whatever was asked
 * for and is not wanted is released, also when its grant arrives late: nothing is left behind.
 */
import type { Claim, Granted, Refused } from "./backend.ts";
import type { Clock } from "./clock.ts";
import { formatMs } from "./duration.ts";
import { LockBackendError } from "./errors.ts";
import { releaseUntil } from "./release.ts";
import type { Surroundings } from "./surroundings.ts";

const POLL_MIN_MS = 20;
const POLL_MAX_MS = 1000;
/** A store that has not answered for this long is in trouble. */
const SILENCE_MS = 1000;

/** When a request left: read before it did. */
export interface Departure {
  readonly atMs: number;
  /** How far the wall clock was ahead of the monotonic one: a sleep on the way shows as a difference. */
  readonly wallLeadMs: number;
}

export function departure(clock: Clock): Departure {
  const atMs = clock.now();
  return { atMs, wallLeadMs: clock.wall() - atMs };
}

/** A grant, and when the request that brought it left. */
export interface Grant {
  readonly granted: Granted;
  readonly sent: Departure;
}

/** One claim on its way through the store. It goes on until it is granted, refused for good, or called off. */
export class Seeker {
  readonly claim: Claim;
  readonly shape: string;
  /** The store's last refusal, for messages. */
  refused: Refused | undefined;
  #trouble: unknown;
  readonly #around: Surroundings;
  #lastSentAtMs = -Infinity;
  /** A question is out, and its answer is not here yet. */
  #asking = false;
  #calledOff: AbortController | undefined;
  #off = false;
  #granted = false;

  constructor(around: Surroundings, claim: Claim, shape: string) {
    this.#around = around;
    this.claim = claim;
    this.shape = shape;
  }

  /** Sends the first question, for whoever wants to hear the answer before {@link seek} does. */
  ask(sent: Departure): Promise<Granted | Refused> {
    this.#lastSentAtMs = sent.atMs;
    this.#asking = true;
    return this.#around.backend.attempt(this.claim);
  }

  /** The answer to a question of this claim is yes. `undefined`: nobody wants it any more, so it goes back. */
  took(granted: Granted, sent: Departure): Grant | undefined {
    if (this.#off) {
      this.#cleanUp();
      return undefined;
    }
    this.#granted = true;
    return { granted, sent };
  }

  /** Resolves with the grant; with `undefined` when refused and the claim does not queue, or when called off. */
  async seek(first?: {
    readonly answer: Promise<Granted | Refused>;
    readonly sent: Departure;
  }): Promise<Grant | undefined> {
    const { backend, clock } = this.#around;
    let ask = first?.answer;
    for (let round = 0; ask !== undefined || !this.#off; round++) {
      const sent = ask === undefined ? departure(clock) : first!.sent;
      this.#lastSentAtMs = sent.atMs;
      this.#asking = true;
      let answer: Granted | Refused | undefined;
      try {
        answer = await (ask ?? backend.attempt(this.claim));
        this.#trouble = undefined;
      } catch (cause) {
        if (cause instanceof LockBackendError && cause.fatal) throw cause;
        if (cause instanceof TypeError) throw cause;
        this.#trouble = cause;
        // A claim that does not queue is asked for once more, with the same id, and then given up.
        if (!this.claim.queues && round > 0) {
          this.#cleanUp();
          throw cause;
        }
      }
      this.#asking = false;
      ask = undefined;
      if (answer?.granted === true) return this.took(answer, sent);
      if (this.#off) {
        // The release that went out when it was called off may have overtaken this attempt.
        this.#cleanUp();
        break;
      }
      if (answer !== undefined) {
        this.refused = answer;
        if (!this.claim.queues) return undefined;
      }
      const news = await this.#wait(this.#pauseMs(round), answer !== undefined);
      // A grant that says from when it may be trusted; without that, only this round's own question is sure to be older.
      if (news !== undefined) return this.took(news, sent);
    }
    return undefined;
  }

  /** For how long a question has been out that the store does not answer; 0 when none is. */
  unansweredMs(nowMs: number): number {
    return this.#asking ? nowMs - this.#lastSentAtMs : 0;
  }

  /** Why the last question got no answer, for messages; `undefined` when it got one. */
  troubleAt(nowMs: number): unknown {
    const silentMs = this.unansweredMs(nowMs);
    if (this.#trouble !== undefined || silentMs < SILENCE_MS) return this.#trouble;
    return new Error(`no answer for ${formatMs(silentMs)}`);
  }

  /** Nobody wants the claim any more: stop, and leave nothing in the store. */
  callOff(): void {
    if (this.#off) return;
    this.#off = true;
    this.#calledOff?.abort();
    // An attempt may be on its way for as long as it likes: the release goes out now, and again when it has come back.
    this.#cleanUp();
  }

  #cleanUp(): void {
    if (this.#granted) return;
    const { clock } = this.#around;
    const untilMs = this.#lastSentAtMs + this.claim.ttlMs + this.claim.lockDelayMs;
    // Nothing waits for this: the answer, if any comes, changes nothing for the caller.
    if (this.#lastSentAtMs > -Infinity) void releaseUntil(this.#around, this.claim, Math.max(untilMs, clock.now()));
  }

  #pauseMs(round: number): number {
    if (this.refused?.retryMs !== undefined && this.#trouble === undefined) return this.refused.retryMs;
    const capMs = Math.min(POLL_MAX_MS, Math.max(1, this.claim.ttlMs / 3));
    const pauseMs = Math.min(capMs, POLL_MIN_MS * 2 ** Math.min(round, 10));
    return pauseMs * (0.5 + 0.5 * this.#around.chance.fraction());
  }

  /** Waits for news or for `pauseMs`, whichever comes first. */
  async #wait(pauseMs: number, queued: boolean): Promise<Granted | undefined> {
    const { backend, clock } = this.#around;
    const over = new AbortController();
    this.#calledOff = over;
    // Waiting keeps the process alive: somebody counts on the lock.
    const timer = clock.setTimer(() => over.abort(), pauseMs, true);
    try {
      if (queued && backend.watch !== undefined) return await backend.watch(this.claim, over.signal);
      await aborted(over.signal);
      return undefined;
    } catch (cause) {
      this.#trouble = cause;
      if (!over.signal.aborted) await aborted(over.signal);
      return undefined;
    } finally {
      clock.clearTimer(timer);
      this.#calledOff = undefined;
    }
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
