/**
 * This process's waiters in the store's queues: sends heartbeats for all of them, in few statements, and passes the news to each. Messages
 * make it fast; where none can arrive, heartbeats follow each other quickly at first, and then more slowly.
 */
import type { Claim, Granted } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import { onAbort } from "../../contract/on-abort.ts";
import { OutcomeNews } from "./outcome-news.ts";
import { type Learned, type Run, toLearned, toRun } from "./records.ts";

const BEAT_MIN_MS = 5;
/** Without messages: the first pause, how pauses grow, and the longest. */
const POLL_FIRST_MS = 10;
const POLL_GROWTH = 1.5;
const POLL_MOST_MS = 250;
/** The row of the lock was locked: it will not be for long. */
const BUSY_MS = 10;
/** A message that proves nothing makes a claim ask at once, but only this often. */
const HINT_PACE_MS = 50;
/** A grant whose fence is farther than this (µs) above the server's clock and the lock's last fence is not believed, but asked about. */
const AHEAD_MAX_US = 3_600_000_000n;
/** One statement for so many waiters. */
const PORTION = 200;

interface Waiter {
  readonly claim: Claim;
  readonly ticketMs: number;
  /** When the last request that found the claim still queued was sent: before that it was certainly not granted. */
  sentMs: number;
  /** The greatest last fence of the lock in any answer: a grant that is not above it is an old one. */
  last: bigint;
  /** The server's clock in µs, at `wallAtMs` of the local clock. */
  wallUs: bigint;
  wallAtMs: number;
  pollMs: number;
  dueMs: number;
  /** When to follow a hint, and when the last one was followed. */
  hintMs: number;
  hintedMs: number;
  /** Granted, or no longer known: the news, until watch() takes it. */
  news: Granted | "ask" | undefined;
  done: boolean;
  /** A heartbeat is under way. */
  asking: boolean;
  wake: (() => void) | undefined;
}

/** Sends heartbeats. Answers in the order asked (see beat.sql), with when they left; rejects if no answer came. */
export type Beat = (
  claims: readonly Claim[],
) => Promise<{ readonly answers: readonly unknown[]; readonly sentMs: number }>;

export class Waiters {
  readonly #clock: Clock;
  readonly #beat: Beat;
  /** Whether messages arrive. */
  readonly #hears: () => boolean;
  readonly #waiters: Map<string, Waiter> = new Map();
  /** Messages that arrived before the answer to the attempt. */
  readonly #early: Map<string, Run> = new Map();
  readonly #outcomes = new OutcomeNews();
  /** When a connection was last replaced: answers from before that prove nothing now. */
  #doubtedMs = -Infinity;
  #timer: Timer;
  #timerAtMs = Infinity;
  #closed = false;

  constructor(clock: Clock, hears: () => boolean, beat: Beat) {
    this.#clock = clock;
    this.#hears = hears;
    this.#beat = beat;
  }

  /** The store has queued the claim, by a request that was sent at `sentMs`. */
  queued(claim: Claim, ticketMs: number, sentMs: number, learned: Learned, wallUs: bigint): void {
    const waiter = this.#note(claim, ticketMs);
    waiter.done = false;
    waiter.news = undefined;
    waiter.wallUs = wallUs;
    waiter.wallAtMs = this.#clock.now();
    this.#learn(waiter, learned, sentMs);
    if (this.#outcomes.cameAfter(sentMs, claim)) return this.#notify(waiter, "ask");
    const early = this.#early.get(claim.id);
    if (early === undefined) return;
    this.#early.delete(claim.id);
    this.granted(claim.id, early);
  }

  /** The request got no answer, so the claim may be queued or granted: messages about it wait for the next answer. */
  unsure(claim: Claim, ticketMs: number): void {
    this.#note(claim, ticketMs).done = true;
    this.#early.delete(claim.id);
  }

  /** The claim no longer waits: an answer granted it, or it was given up. */
  forget(id: string): void {
    if (this.#early.size > 0) this.#early.delete(id);
    const waiter = this.#waiters.size > 0 ? this.#waiters.get(id) : undefined;
    if (waiter === undefined) return;
    this.#waiters.delete(id);
    this.#notify(waiter, "ask");
  }

  /** Waits for news: a grant, or `undefined` for "attempt again". */
  watch(claim: Claim, signal: AbortSignal): Promise<Granted | undefined> {
    const waiter = this.#waiters.get(claim.id);
    if (waiter === undefined || waiter.done || signal.aborted) return Promise.resolve(this.#takeNews(waiter));
    return new Promise((resolve) => {
      const stop = onAbort(signal, () => wake());
      const wake = (waiter.wake = (): void => {
        stop();
        waiter.wake = undefined;
        resolve(this.#takeNews(waiter));
      });
      if (waiter.news !== undefined) wake();
    });
  }

  /**
   * A message says that the claim was granted. It may be late: that lease may be over, and the claim queued again. It counts if no answer is
   * newer; otherwise it is a reason to ask.
   */
  granted(id: string, run: Run): void {
    const waiter = this.#waiters.get(id);
    // An attempt is under way, or will be. Its answer may be older than this message, so the message is judged after it.
    if (waiter === undefined || waiter.done) return void this.#early.set(id, run);
    const { ttlMs } = waiter.claim;
    const leftMs = waiter.sentMs + ttlMs - this.#clock.now();
    if (leftMs < ttlMs / 3 || !this.#fits(waiter, run.fence)) return this.#hint(waiter);
    this.#notify(waiter, { ...run, fromMs: waiter.sentMs });
  }

  /** A message says that the lock has an outcome: all who wait for one here may have it. */
  outcome(name: string): void {
    this.#outcomes.came(name, this.#clock.now());
    for (const waiter of this.#waiters.values()) {
      if (waiter.claim.name === name && waiter.claim.wantsOutcome === true) this.#notify(waiter, "ask");
    }
  }

  /** Sends every waiter's heartbeat now: messages may have been missed, and those that still arrive may come from another server. */
  beatAll(): void {
    this.#doubtedMs = this.#clock.now();
    for (const waiter of this.#waiters.values()) {
      waiter.pollMs = POLL_FIRST_MS;
      if (!waiter.done) waiter.dueMs = -Infinity;
    }
    this.#setTimer(0);
  }

  close(): void {
    this.#closed = true;
    this.#clock.clearTimer(this.#timer);
    this.#early.clear();
    for (const waiter of this.#waiters.values()) this.#notify(waiter, "ask");
    this.#waiters.clear();
  }

  #note(claim: Claim, ticketMs: number): Waiter {
    let waiter = this.#waiters.get(claim.id);
    if (waiter === undefined) {
      waiter = {
        claim,
        ticketMs,
        sentMs: -Infinity,
        last: 0n,
        wallUs: 0n,
        wallAtMs: 0,
        pollMs: POLL_FIRST_MS,
        dueMs: Infinity,
        hintMs: Infinity,
        hintedMs: -Infinity,
        news: undefined,
        done: false,
        asking: false,
        wake: undefined,
      };
      this.#waiters.set(claim.id, waiter);
    }
    return waiter;
  }

  #notify(waiter: Waiter, news: Granted | "ask"): void {
    if (waiter.done) return;
    waiter.news = news;
    waiter.done = true;
    waiter.wake?.();
  }

  #takeNews(waiter: Waiter | undefined): Granted | undefined {
    const news = waiter?.news;
    if (waiter === undefined || news === undefined) return undefined;
    waiter.news = undefined;
    if (news === "ask") return undefined;
    this.forget(waiter.claim.id);
    return news;
  }

  /** Whether a grant with this fence can be newer than every answer about the claim. */
  #fits(waiter: Waiter, fence: bigint): boolean {
    const sinceUs = BigInt(Math.round((this.#clock.now() - waiter.wallAtMs) * 1000));
    const highest = (waiter.last > waiter.wallUs ? waiter.last : waiter.wallUs) + sinceUs + AHEAD_MAX_US;
    return fence > waiter.last && fence <= highest && waiter.sentMs > this.#doubtedMs;
  }

  /** An answer says that the claim is still queued. */
  #learn(waiter: Waiter, { last, againMs }: Learned, sentMs: number): void {
    waiter.sentMs = Math.max(waiter.sentMs, sentMs);
    if (last > waiter.last) waiter.last = last;
    this.#schedule(waiter, againMs);
  }

  /** Something may have happened to the claim: its next heartbeat is sent at once, but only at intervals. */
  #hint(waiter: Waiter): void {
    const nowMs = this.#clock.now();
    waiter.hintMs = Math.max(nowMs, waiter.hintedMs + HINT_PACE_MS);
    waiter.dueMs = Math.min(waiter.dueMs, waiter.hintMs);
    if (!waiter.asking) this.#setTimer(waiter.dueMs - nowMs);
  }

  /** `againMs`: when the lock may become free by itself; 0 if that is not known. */
  #schedule(waiter: Waiter, againMs: number): void {
    const nowMs = this.#clock.now();
    let paceMs = waiter.ticketMs / 3;
    if (!this.#hears()) {
      paceMs = Math.min(paceMs, waiter.pollMs);
      waiter.pollMs = Math.min(waiter.pollMs * POLL_GROWTH, POLL_MOST_MS);
    }
    const dueMs = nowMs + Math.max(BEAT_MIN_MS, againMs > 0 ? Math.min(againMs + 1, paceMs) : paceMs);
    waiter.dueMs = Math.min(dueMs, waiter.hintMs);
    this.#setTimer(waiter.dueMs - nowMs);
  }

  #setTimer(ms: number): void {
    const atMs = this.#clock.now() + ms;
    if (this.#closed || atMs >= this.#timerAtMs) return;
    this.#clock.clearTimer(this.#timer);
    this.#timerAtMs = atMs;
    this.#timer = this.#clock.setTimer(
      () => {
        this.#timerAtMs = Infinity;
        this.#beatDue();
      },
      Math.max(0, ms),
    );
  }

  /** One round of heartbeats. Those due within a quarter of their interval are sent along. */
  #beatDue(): void {
    if (this.#closed) return;
    const nowMs = this.#clock.now();
    const due: Waiter[] = [];
    for (const waiter of this.#waiters.values()) {
      const early = Math.min(waiter.ticketMs / 12, this.#hears() ? Infinity : waiter.pollMs / 4);
      if (!waiter.done && !waiter.asking && waiter.dueMs <= nowMs + early) due.push(waiter);
    }
    for (let from = 0; from < due.length; from += PORTION) void this.#beatPortion(due.slice(from, from + PORTION));
    this.#rearm();
  }

  async #beatPortion(portion: readonly Waiter[]): Promise<void> {
    const nowMs = this.#clock.now();
    for (const waiter of portion) {
      waiter.asking = true;
      if (waiter.hintMs > nowMs) continue;
      waiter.hintMs = Infinity;
      waiter.hintedMs = nowMs;
    }
    const { answers, sentMs } = await this.#beat(portion.map(({ claim }) => claim)).catch(() => ({
      answers: [],
      sentMs: nowMs,
    }));
    for (const [index, waiter] of portion.entries()) {
      waiter.asking = false;
      this.#hear(waiter, answers[index], sentMs);
    }
  }

  #hear(waiter: Waiter, answer: unknown, sentMs: number): void {
    if (waiter.done || this.#waiters.get(waiter.claim.id) !== waiter) return;
    const learned = toLearned(answer);
    if (learned !== undefined) return this.#learn(waiter, learned, sentMs);
    if (answer === undefined) return this.#schedule(waiter, 0);
    if (answer === "busy") return this.#schedule(waiter, BUSY_MS);
    const run = toRun(answer);
    // A request that was sent later found it queued: this answer is outdated.
    if (run === undefined && sentMs < waiter.sentMs) return;
    // No longer queued: the next attempt brings the place in the queue, or the error.
    if (run === undefined) return this.#notify(waiter, "ask");
    this.#notify(waiter, { ...run, fromMs: sentMs });
  }

  #rearm(): void {
    let firstMs = Infinity;
    for (const waiter of this.#waiters.values()) {
      if (!waiter.done && !waiter.asking && waiter.dueMs < firstMs) firstMs = waiter.dueMs;
    }
    if (firstMs < Infinity) this.#setTimer(firstMs - this.#clock.now());
  }
}
