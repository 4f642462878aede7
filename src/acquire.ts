/**
 * All waiting for the store: attempt → watch → attempt, until granted or nobody wants it any more. Whatever was asked
 * for and is not wanted is released, also when its grant arrives late: nothing is left behind.
 */
import type { Claim, Granted, Holding, Refused } from "./backend.ts";
import { formatMs } from "./duration.ts";
import { LockBackendError } from "./errors.ts";
import { type Departure, departure, type Grant } from "./hold.ts";
import { releaseUntil } from "./release.ts";
import { asked, type Surroundings } from "./surroundings.ts";

export type { Grant } from "./hold.ts";

const POLL_MIN_MS = 20;
const POLL_MAX_MS = 1000;
/** A store that has not answered for this long is in trouble. */
const SILENCE_MS = 1000;

/** One claim on its way through the store. It goes on until it is granted, refused for good, or called off. */
export class Seeker {
  readonly claim: Claim;
  readonly shape: string;
  /** The store's last refusal. */
  refused: Refused | undefined;
  /** Called once, when the store has said for the first time that the claim waits there. */
  onQueued: (() => void) | undefined;
  #refusedAtMs = 0;
  #trouble: unknown;
  readonly #around: Surroundings;
  #sentAtMs = -Infinity;
  /** The question that is out; its answer is not here yet. */
  #asked: Promise<unknown> | undefined;
  #waiting: AbortController | undefined;
  #off: Promise<void> | undefined;

  constructor(around: Surroundings, claim: Claim, shape: string) {
    this.#around = around;
    this.claim = claim;
    this.shape = shape;
  }

  /** Sends the first question, for whoever wants to hear the answer before {@link seek} does. */
  ask(sent: Departure): Promise<Granted | Refused> {
    return this.follow(
      asked(() => this.#around.backend.attempt(this.claim)),
      sent,
    );
  }

  /** A question of this claim went out by another way, in a swap. */
  follow<T extends Granted | Refused>(answer: Promise<T>, sent: Departure): Promise<T> {
    this.#sentAtMs = sent.atMs;
    this.#asked = answer;
    return answer;
  }

  /** The answer to a question of this claim is yes. `undefined`: it was called off, and is on its way back. */
  took(granted: Granted, sent: Departure): Grant | undefined {
    this.#asked = undefined;
    return this.#off === undefined ? { granted, sent } : undefined;
  }

  /** Resolves with the grant; with `undefined` when refused and the claim does not queue, or when called off. */
  async seek(first?: {
    readonly answer: Promise<Granted | Refused>;
    readonly sent: Departure;
  }): Promise<Grant | undefined> {
    const { clock } = this.#around;
    let answer = first?.answer;
    for (let round = 0; this.#off === undefined; round++) {
      const sent = answer === undefined ? departure(clock) : first!.sent;
      let heard: Granted | Refused | undefined;
      try {
        heard = await (answer ?? this.ask(sent));
        this.#trouble = undefined;
      } catch (cause) {
        this.#asked = undefined;
        this.#trouble = cause;
        // A claim that does not queue is asked for once more, with the same id, and then given up.
        if (isFinal(cause) || (!this.claim.queues && round > 0)) {
          void this.callOff();
          throw cause;
        }
      }
      this.#asked = undefined;
      answer = undefined;
      if (this.#off !== undefined) return undefined;
      if (heard?.granted === true) return { granted: heard, sent };
      if (heard !== undefined) {
        this.#refusedAtMs = clock.now();
        const isNews = this.refused === undefined;
        this.refused = heard;
        if (!this.claim.queues) return undefined;
        if (isNews) this.onQueued?.();
      }
      const news = await this.#wait(this.#pauseMs(round), heard !== undefined);
      // A grant that says from when it may be trusted; without that, only this round's own question is sure to be older.
      if (news !== undefined && this.#isFresh(news, sent)) return this.took(news, sent);
    }
    return undefined;
  }

  /** A grant that was long on its way is asked for again, with the same claim: much may have happened to it since. */
  #isFresh({ fromMs, ttlMs }: Granted, sent: Departure): boolean {
    const ageMs = this.#around.clock.now() - (fromMs ?? sent.atMs);
    return ageMs < ((ttlMs ?? this.claim.ttlMs) * 2) / 3;
  }

  /** Who is in the way: the store's last word, with its ages brought up to date. */
  heldBy(nowMs: number): readonly Holding[] {
    const ageMs = nowMs - this.#refusedAtMs;
    return (this.refused?.heldBy ?? []).map((holding) => ({
      ...holding,
      heldMs: holding.heldMs + ageMs,
      remainingMs: Math.max(0, holding.remainingMs - ageMs),
    }));
  }

  /** For how long a question has been out that the store does not answer; 0 when none is. */
  unansweredMs(nowMs: number): number {
    return this.#asked === undefined ? 0 : nowMs - this.#sentAtMs;
  }

  /** Why the last question got no answer, for messages; `undefined` when it got one. */
  troubleAt(nowMs: number): unknown {
    const silentMs = this.unansweredMs(nowMs);
    if (this.#trouble !== undefined || silentMs < SILENCE_MS) return this.#trouble;
    return new Error(`no answer for ${formatMs(silentMs)}`);
  }

  /** Nobody wants the claim any more: stop. Settles when nothing of it is left in the store, as far as that can be known. */
  callOff(): Promise<void> {
    if (this.#off !== undefined) return this.#off;
    const asked = this.#asked;
    this.#off = this.#sentAtMs === -Infinity ? Promise.resolve() : this.#leave(asked);
    this.#waiting?.abort();
    return this.#off;
  }

  /** The release goes out now, and again after an attempt that is still on its way: the first may have overtaken it. */
  async #leave(asked: Promise<unknown> | undefined): Promise<void> {
    const again = asked?.catch(() => {}).then(() => this.#release());
    await Promise.all([this.#release(), again]);
  }

  /**
   * Whatever was asked for has reached the store by now, or will be followed by another release. A claim that is queued keeps
   * its place for a ttl, and may be granted at its end for another.
   */
  async #release(): Promise<void> {
    const { ttlMs, lockDelayMs, queues } = this.claim;
    const keptMs = (queues ? 2 : 1) * ttlMs + lockDelayMs;
    await releaseUntil(this.#around, this.claim, this.#around.clock.now() + keptMs);
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
    this.#waiting = over;
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
      this.#waiting = undefined;
    }
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Asking again cannot help. */
function isFinal(cause: unknown): boolean {
  return cause instanceof TypeError || (cause instanceof LockBackendError && cause.fatal);
}
