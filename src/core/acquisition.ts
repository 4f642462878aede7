/**
 * All waiting for the store: attempt → watch → attempt, until it is granted or no longer wanted. Whatever was asked
 * for and is not wanted is released, also when its grant arrives late: nothing is left behind.
 */
import { asked, askFor, type Blockers, readAnswer, readBlockers, trustedUntilMs } from "../contract/answer.ts";
import type { Claim, Granted, Refused } from "../contract/backend.ts";
import { formatMs } from "../contract/duration.ts";
import { aborted } from "../contract/on-abort.ts";
import type { AcquisitionFront } from "./acquisition-front.ts";
import { type Done, type Grant, isFresh, unused } from "./grant.ts";
import { HandBack } from "./hand-back.ts";
import { checkedAnswer } from "./checked-answer.ts";
import { isFinal, pauseMs } from "./pace.ts";
import { isSame } from "./shown.ts";
import type { SentAt } from "../contract/clock.ts";
import { releaseUntil, type Runtime } from "./release-until.ts";
import { within } from "../contract/time-limit.ts";

/** A store that has not answered for this long is in trouble. */
const SILENCE_MS = 1000;
/** How often in a row a backend may say at once that it should be asked again. */
const HASTY_MAX = 10;

/** One claim on its way through the store. It goes on until it is granted, refused for good, or called off. */
export class Acquisition<For = unknown> {
  claim: Claim;
  /** Whom it was made for. Another who wants the same may have taken that place since. */
  request: For;
  /** The tries' own note: the last of them that had been called when the question left. */
  upTo = 0;
  questions = 0;
  /** The store says that it is wanted, and its grant is not here yet. */
  isWanted = false;
  /** Who does not queue needs an answer by then. */
  untilMs: number = Infinity;
  /** A try queues for a lock that may come back. */
  #back: HandBack | undefined;
  /** The store's last refusal. */
  refused: Refused | undefined;
  #refusedAtMs = 0;
  #trouble: unknown;
  #echoes = false;
  #hasty = 0;
  #isOld = false;
  readonly #around: Runtime;
  readonly #front: AcquisitionFront<Acquisition<For>> | undefined;
  #sentAtMs = 0;
  /** The question that is out; its answer is not here yet. */
  #asked: Promise<unknown> | undefined;
  #waiting: AbortController | undefined;
  #off: Promise<boolean> | undefined;

  constructor(around: Runtime, claim: Claim, request: For, front?: AcquisitionFront<Acquisition<For>>) {
    this.#around = around;
    this.#front = front;
    this.claim = claim;
    this.request = request;
  }

  /** Brings what the claim shows up to date. `true`: the store knows something else. */
  show(): boolean {
    const shown = this.#front?.shownOf?.(this);
    if (shown === undefined) return false;
    const { meta, local } = shown;
    if (meta === this.claim.meta && isSame(local, this.claim.local)) return false;
    this.claim = { ...this.claim, meta, local };
    return true;
  }

  /** Shows the store what is new now: after the question that is out, or by asking early. */
  refresh(): void {
    if (this.#asked !== undefined) this.#isOld = true;
    else if (this.show()) this.#waiting?.abort();
  }

  /** A try that waits for a lock to come back, in the store's queue. */
  get isComingBack(): boolean {
    return this.#back !== undefined;
  }

  /** A question of it is out. */
  get isAsking(): boolean {
    return this.#asked !== undefined;
  }

  /** Seeks the claim. Nearly always the first answer is the grant, and then the loop of {@link seek} would only cost promises. */
  start(sentMs?: number): void {
    const { backend, clock, sleep } = this.#around;
    const { claim } = this;
    const sent = sleep.sentNow(sentMs);
    const answer = askFor(backend, claim);
    void this.#follow(answer, sent);
    const goOn = (): void => this.goOn(answer, sent);
    answer.then((first) => {
      const heardAtMs = clock.now();
      const granted = readAnswer(first, heardAtMs);
      if (typeof granted === "string" || !granted.granted || this.#off !== undefined) return goOn();
      const untilMs = trustedUntilMs(granted, claim, sent.atMs);
      if (untilMs <= heardAtMs) return goOn();
      this.#asked = undefined;
      const echoes = granted.sentTwice === true;
      return this.#front?.onEnded(this, { granted, sent, heardAtMs, trustedUntilMs: untilMs, echoes });
    }, goOn);
  }

  /** As {@link start}, where the first question is out: it may have gone out by another way, in a swap. */
  goOn(answer: Promise<Granted | Refused>, sent: SentAt): void {
    if (this.#asked !== answer) void this.#follow(answer, sent);
    this.seek({ answer, sent }).then(
      (grant) => this.#front?.onEnded(this, grant),
      (error: unknown) => this.#front?.onEnded(this, undefined, { error }),
    );
  }

  #ask(sent: SentAt): Promise<Granted | Refused> {
    this.show();
    return this.#follow(askFor(this.#around.backend, this.claim), sent);
  }

  #follow<T extends Granted | Refused>(answer: Promise<T>, sent: SentAt): Promise<T> {
    this.questions++;
    this.#sentAtMs = sent.atMs;
    this.#asked = answer;
    this.#front?.onAsked?.(this);
    return answer;
  }

  #toGrant(granted: Granted, sent: SentAt): Grant {
    const untilMs = trustedUntilMs(granted, this.claim, sent.atMs);
    return { granted, sent, heardAtMs: this.#around.clock.now(), trustedUntilMs: untilMs, echoes: this.#echoes };
  }

  /** Resolves with the grant, or the outcome that the claim wants; with `undefined` when refused and the claim does not queue, or when called off. */
  async seek(first?: {
    readonly answer: Promise<Granted | Refused>;
    readonly sent: SentAt;
  }): Promise<Grant | Done | undefined> {
    const { clock, sleep } = this.#around;
    let answer = first?.answer;
    for (let round = 0; this.#off === undefined; round++) {
      const sent = answer === undefined ? sleep.sentNow() : first!.sent;
      if (this.#back !== undefined) this.claim = this.#back.queueing(this.claim, sent.atMs);
      let heard: Granted | Refused | undefined;
      try {
        heard = await this.#checked(await (answer ?? this.#ask(sent)));
        this.#trouble = undefined;
        this.#echoes ||= heard.sentTwice === true;
      } catch (cause) {
        this.#asked = undefined;
        this.#trouble = cause;
        this.#echoes = true;
        // A claim that does not queue is asked for once more, with the same id, and then given up.
        if (isFinal(cause) || (!this.claim.queues && round > 0)) {
          void this.callOff();
          throw cause;
        }
      }
      this.#asked = undefined;
      answer = undefined;
      if (this.#off !== undefined) return undefined;
      if (heard?.granted === true) {
        const grant = this.#toGrant(heard, sent);
        if (grant.trustedUntilMs > grant.heardAtMs) return grant;
        // Asked for again with the same claim, but not without a pause for ever: the next may be as slow, or as short.
        this.#trouble = new Error("its grant was over too soon");
        if (round === 0) continue;
      } else if (heard?.outcome !== undefined && this.claim.wantsOutcome === true) {
        return { outcome: heard.outcome, sentAtMs: sent.atMs };
      } else if (heard !== undefined) {
        this.#refusedAtMs = clock.now();
        this.refused = heard;
        if (!this.claim.queues) {
          this.#back =
            this.#back === undefined ? HandBack.after(heard, sent.atMs, clock.now(), this.untilMs) : undefined;
          if (this.#back === undefined) return undefined;
          continue;
        }
        if (this.#back?.isHopeless(heard) === true) continue;
      }
      this.#front?.onHeard?.(this);
      if (this.#off !== undefined) return undefined;
      const ms = pauseMs(
        round,
        this.claim,
        this.#trouble === undefined ? this.refused : undefined,
        this.#around.chance,
      );
      const leftMs = this.#back?.leftMs(clock.now()) ?? Infinity;
      const news = await this.#wait(Math.min(ms, leftMs), heard?.granted === false);
      // A grant that says from when it may be trusted; without that, only this round's own question is sure to be older.
      if (this.#off === undefined && news !== undefined && isFresh(news, this.claim, sent, clock.now()))
        return this.#toGrant(news, sent);
    }
    return undefined;
  }

  #checked(answer: Granted | Refused): Granted | Refused | Promise<never> {
    const { backend, clock } = this.#around;
    return checkedAnswer(backend.name, this.claim.name, answer, clock.now());
  }

  /** Who is in the way: the store's last word, with its ages brought up to date. */
  blockers(nowMs: number): Blockers {
    return readBlockers(this.refused, nowMs - this.#refusedAtMs);
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

  /** It is no longer wanted: stop. Settles when nothing of it is left in the store. `false`: the store did not answer, and that is unknown. */
  callOff(): Promise<boolean> {
    if (this.#off !== undefined) return this.#off;
    this.#off = this.#leave();
    this.#waiting?.abort();
    return this.#off;
  }

  /** The release goes out now, and again after an attempt that is still on its way: the first may have overtaken it. */
  async #leave(): Promise<boolean> {
    const released = this.#release();
    // A turn later, where it is called off while it is asked: what the backend reports then may run any code.
    const asked = this.#asked ?? (await Promise.resolve(), this.#asked);
    const again = asked?.catch(() => {}).then(() => this.#release());
    return !(await Promise.all([released, again])).includes(false);
  }

  /** What was asked for has reached the store by now, or another release follows. A queued claim keeps its place for a ttl, and may be granted at its end for another. */
  async #release(): Promise<boolean> {
    const { ttlMs, lockDelayMs, queues } = this.claim;
    const keptMs = (queues || this.#back !== undefined ? 2 : 1) * ttlMs + lockDelayMs;
    return (await releaseUntil(this.#around, unused(this.claim), this.#around.clock.now() + keptMs)) !== undefined;
  }

  /** Waits for news or for `pauseMs`, whichever comes first. */
  async #wait(pauseMs: number, queued: boolean): Promise<Granted | undefined> {
    const { clock } = this.#around;
    const isOld = this.#isOld;
    this.#isOld = false;
    if (isOld && this.show()) return undefined;
    const over = new AbortController();
    this.#waiting = over;
    // Waiting keeps the process alive: its user counts on the lock.
    const untilMs = clock.now() + pauseMs;
    // A claim that is to show something new is asked for again earlier, but no more often than a lease is renewed.
    const lookMs = this.claim.ttlMs / 3;
    const look = (): void => {
      const leftMs = untilMs - clock.now();
      // Less than a millisecond is nothing: timers fire that much early, and would be set again for ever.
      if (leftMs < 1 || this.show()) over.abort();
      else timer = clock.setTimer(look, Math.min(leftMs, lookMs), true);
    };
    let timer = clock.setTimer(look, Math.min(pauseMs, lookMs), true);
    try {
      const news = queued ? await this.#watch(over.signal) : "none";
      if (news !== "none") return news;
      await aborted(over.signal);
      return undefined;
    } finally {
      clock.clearTimer(timer);
      this.#waiting = undefined;
    }
  }

  /** The grant, or `undefined` for "ask again". `"none"`: nothing that would be a reason to ask before the pause is over. */
  async #watch(signal: AbortSignal): Promise<Granted | "none" | undefined> {
    const { backend, clock } = this.#around;
    if (backend.watch === undefined) return "none";
    const sinceMs = clock.now();
    try {
      const watching = asked(() => backend.watch!(this.claim, signal));
      let news = (await Promise.race([watching, aborted(signal)])) ?? undefined;
      // It settles soon after the signal; one that never does holds up no other.
      if (signal.aborted && this.#off === undefined) news ??= await within(clock, watching, SILENCE_MS);
      const read = news?.granted === true ? await this.#checked(news) : undefined;
      // To ask again at once is right after news, but a backend that always has some, such as a grant that is over, would be
      // asked without end.
      this.#hasty = clock.now() - sinceMs < 1 ? this.#hasty + 1 : 0;
      if (this.#hasty >= HASTY_MAX) return "none";
      return read?.granted === true ? read : undefined;
    } catch (cause) {
      this.#trouble = cause;
      return "none";
    }
  }
}
