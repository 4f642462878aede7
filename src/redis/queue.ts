/**
 * This process's waiters in the store's queues: says for all of them that they are alive, in few calls, and hands each
 * its news. Messages make it fast; without any, the answers to the signs of life bring the same.
 */
import type { Claim, Granted } from "../backend.ts";
import type { Clock, Timer } from "../clock.ts";
import { type Run, toRun } from "./reply.ts";

/** A message for a claim that nobody knows may be ahead of the answer to its attempt; after this long it is abandoned. */
const STRAY_MS = 1000;
const BEAT_MIN_MS = 5;
/** Claims that are done are remembered this long, so that a late message about them is not taken for a stray. */
const MEMORY_MS = 600_000;
const MEMORY_MIN = 1000;

export interface Waiter {
  readonly claim: Claim;
  readonly key: string;
  readonly ticketMs: number;
  /** When the last request that found the claim still queued left: before that it was certainly not granted. */
  sentMs: number;
  dueMs: number;
  /** Granted, or no longer known: the news, until somebody takes it. */
  news: Granted | "ask" | undefined;
  done: boolean;
  /** A sign of life is on its way. */
  asking: boolean;
  touchedMs: number;
  wake: (() => void) | undefined;
}

export interface QueueHome {
  readonly clock: Clock;
  /** True: grants that come by message or beat are not enough, because replicas must confirm them. */
  readonly confirms: boolean;
  /** Cuts waiters into portions that one call may ask about. */
  portions(waiters: readonly Waiter[]): readonly Waiter[][];
  /** Sends signs of life of one portion; answers in the order asked: a fence, an error, or a number (see beat.lua). */
  beat(portion: readonly Waiter[]): Promise<readonly unknown[]>;
  /** Releases a grant that nobody waits for. */
  abandon(key: string, id: string): void;
}

export class Queue {
  readonly #home: QueueHome;
  readonly #waiters: Map<string, Waiter> = new Map();
  readonly #strays: Map<string, { fences: Run; sure: boolean; timer: Timer }> = new Map();
  #timer: Timer;
  #timerAtMs = Infinity;
  #sweepAt = MEMORY_MIN;
  #closed = false;

  constructor(home: QueueHome) {
    this.#home = home;
  }

  /** The store has queued the claim, by a request that left at `sentMs`; `headMs` > 0 tells the head when to ask again. */
  queued(claim: Claim, key: string, ticketMs: number, sentMs: number, headMs: number): void {
    const waiter = this.#note(claim, key, ticketMs);
    waiter.sentMs = sentMs;
    waiter.done = false;
    waiter.news = undefined;
    this.#schedule(waiter, headMs);
    const stray = this.#takeStray(claim.id);
    if (stray !== undefined) this.granted(claim.id, stray.fences, stray.sure, key);
  }

  /** The request got no answer, so the claim may be queued or granted: messages about it are no strays. */
  unsure(claim: Claim, key: string, ticketMs: number): void {
    const waiter = this.#note(claim, key, ticketMs);
    waiter.done = true;
    this.#takeStray(claim.id);
  }

  /** The claim was granted by an answer. */
  settled(id: string): void {
    this.#takeStray(id);
    if (this.#waiters.size === 0) return;
    const waiter = this.#waiters.get(id);
    if (waiter !== undefined) waiter.done = true;
  }

  /** Nobody wants the claim any more. */
  forget(id: string): void {
    if (this.#waiters.size > 0) this.#waiters.delete(id);
  }

  /** Still held: what is known of it must be kept. */
  touch(claims: readonly Claim[]): void {
    if (this.#waiters.size === 0) return;
    const nowMs = this.#home.clock.now();
    for (const { id } of claims) {
      const waiter = this.#waiters.get(id);
      if (waiter !== undefined) waiter.touchedMs = nowMs;
    }
  }

  /** Waits for news: a grant, or `undefined` for "attempt again". */
  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    const waiter = this.#waiters.get(claim.id);
    if (waiter === undefined || waiter.done || signal.aborted) return Promise.resolve(this.#takeNews(waiter));
    return new Promise((resolve) => {
      const wake = (): void => {
        signal.removeEventListener("abort", wake);
        waiter.wake = undefined;
        resolve(this.#takeNews(waiter));
      };
      waiter.wake = wake;
      signal.addEventListener("abort", wake, { once: true });
      if (waiter.news !== undefined) wake();
    });
  }

  /** A message says that the claim was granted. */
  granted(id: string, fences: Run, sure: boolean, key: string): void {
    const waiter = this.#waiters.get(id);
    if (waiter === undefined) return this.#keepStray(id, fences, sure, key);
    if (waiter.done) return;
    const { clock } = this.#home;
    const { claim, sentMs } = waiter;
    const leftMs = sentMs + claim.ttlMs - clock.now();
    if (!sure || this.#home.confirms || leftMs < claim.ttlMs / 3) return this.#tell(waiter, "ask");
    this.#tell(waiter, { granted: true, ...fences, fromMs: sentMs });
  }

  /** Asks about every waiter now: messages may have been missed. */
  beatAll(): void {
    for (const waiter of this.#waiters.values()) if (!waiter.done) waiter.dueMs = -Infinity;
    this.#setTimer(0);
  }

  get waiting(): number {
    let count = 0;
    for (const waiter of this.#waiters.values()) if (!waiter.done) count++;
    return count;
  }

  close(): void {
    this.#closed = true;
    const { clock } = this.#home;
    clock.clearTimer(this.#timer);
    for (const { timer } of this.#strays.values()) clock.clearTimer(timer);
    this.#strays.clear();
    for (const waiter of this.#waiters.values()) this.#tell(waiter, "ask");
    this.#waiters.clear();
  }

  #note(claim: Claim, key: string, ticketMs: number): Waiter {
    const nowMs = this.#home.clock.now();
    let waiter = this.#waiters.get(claim.id);
    if (waiter === undefined) {
      this.#sweep(nowMs);
      const fresh = {
        sentMs: -Infinity,
        dueMs: Infinity,
        news: undefined,
        done: false,
        asking: false,
        touchedMs: nowMs,
        wake: undefined,
      };
      waiter = { claim, key, ticketMs, ...fresh };
      this.#waiters.set(claim.id, waiter);
    }
    waiter.touchedMs = nowMs;
    return waiter;
  }

  #sweep(nowMs: number): void {
    if (this.#waiters.size < this.#sweepAt) return;
    for (const [id, waiter] of this.#waiters) {
      const keepMs = Math.max(MEMORY_MS, 4 * waiter.claim.ttlMs);
      if (waiter.done && waiter.touchedMs + keepMs < nowMs) this.#waiters.delete(id);
    }
    this.#sweepAt = Math.max(MEMORY_MIN, 2 * this.#waiters.size);
  }

  #tell(waiter: Waiter, news: Granted | "ask"): void {
    if (waiter.done) return;
    waiter.news = news;
    waiter.done = true;
    waiter.wake?.();
  }

  #takeNews(waiter: Waiter | undefined): Granted | undefined {
    const news = waiter?.news;
    if (waiter !== undefined) waiter.news = undefined;
    return news === "ask" ? undefined : news;
  }

  #keepStray(id: string, fences: Run, sure: boolean, key: string): void {
    const { clock } = this.#home;
    clock.clearTimer(this.#strays.get(id)?.timer);
    const timer = clock.setTimer(() => {
      if (this.#strays.delete(id) && !this.#waiters.has(id)) this.#home.abandon(key, id);
    }, STRAY_MS);
    this.#strays.set(id, { fences, sure, timer });
  }

  #takeStray(id: string): { fences: Run; sure: boolean } | undefined {
    if (this.#strays.size === 0) return undefined;
    const stray = this.#strays.get(id);
    if (stray === undefined) return undefined;
    this.#strays.delete(id);
    this.#home.clock.clearTimer(stray.timer);
    return stray;
  }

  #schedule(waiter: Waiter, headMs: number): void {
    const nowMs = this.#home.clock.now();
    const paceMs = waiter.ticketMs / 3;
    waiter.dueMs = nowMs + Math.max(BEAT_MIN_MS, headMs > 0 ? Math.min(headMs + 1, paceMs) : paceMs);
    this.#setTimer(waiter.dueMs - nowMs);
  }

  #setTimer(ms: number): void {
    const { clock } = this.#home;
    const atMs = clock.now() + ms;
    if (this.#closed || atMs >= this.#timerAtMs) return;
    clock.clearTimer(this.#timer);
    this.#timerAtMs = atMs;
    this.#timer = clock.setTimer(
      () => {
        this.#timerAtMs = Infinity;
        this.#beat();
      },
      Math.max(0, ms),
    );
  }

  /** One round of signs of life. Those due within a quarter of their pace ride along. */
  #beat(): void {
    if (this.#closed) return;
    const nowMs = this.#home.clock.now();
    const due: Waiter[] = [];
    for (const waiter of this.#waiters.values()) {
      if (!waiter.done && !waiter.asking && waiter.dueMs <= nowMs + waiter.ticketMs / 12) due.push(waiter);
    }
    // Each portion for itself: a node that does not answer must not silence the waiters on others.
    for (const portion of this.#home.portions(due)) void this.#beatPortion(portion);
    this.#rearm();
  }

  async #beatPortion(portion: readonly Waiter[]): Promise<void> {
    const sentMs = this.#home.clock.now();
    for (const waiter of portion) waiter.asking = true;
    const answers = await this.#home.beat(portion).catch(() => []);
    for (const [index, waiter] of portion.entries()) {
      waiter.asking = false;
      this.#hear(waiter, answers[index], sentMs);
    }
  }

  #hear(waiter: Waiter, answer: unknown, sentMs: number): void {
    if (waiter.done || this.#waiters.get(waiter.claim.id) !== waiter) return;
    if (typeof answer === "number" && answer >= 0) {
      waiter.sentMs = Math.max(waiter.sentMs, sentMs);
      return this.#schedule(waiter, answer);
    }
    if (answer === undefined) return this.#schedule(waiter, 0);
    const fences = toRun(answer);
    // Not queued any more, or an error: the attempt that follows brings the place in the queue, or the error.
    if (fences === undefined || this.#home.confirms) return this.#tell(waiter, "ask");
    this.#tell(waiter, { granted: true, ...fences, fromMs: sentMs });
  }

  #rearm(): void {
    let firstMs = Infinity;
    for (const waiter of this.#waiters.values()) {
      if (!waiter.done && !waiter.asking && waiter.dueMs < firstMs) firstMs = waiter.dueMs;
    }
    if (firstMs < Infinity) this.#setTimer(firstMs - this.#home.clock.now());
  }
}
