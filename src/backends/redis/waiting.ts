/**
 * This process's waiters in the store's queues: sends heartbeats for all of them, in few calls, and passes the news to each. Messages make
 * it fast; without any, the answers to the heartbeats bring the same.
 */
import type { Claim, Granted } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import type { News } from "./messages.ts";
import { type Learned, toGranted, toLearned, toRun } from "./replies.ts";

const BEAT_MIN_MS = 5;
/** A message that proves nothing makes a claim ask at once, but only this often. */
const HINT_PACE_MS = 50;
/** A grant whose fence is farther than this (µs) above the server's clock and the lock's last fence is not believed, but asked about. */
const AHEAD_MAX_US = 3_600_000_000;

export interface Waiter {
  readonly claim: Claim;
  readonly key: string;
  readonly ticketMs: number;
  /** When the last request that found the claim still queued was sent: before that it was certainly not granted. */
  sentMs: number;
  /** The greatest last fence of the lock in any answer: a grant that is not above it is an old one. */
  last: number;
  /** The identity of the server that answered last. */
  by: string;
  /** The server's clock in µs, at `wallAtMs` of the local clock. */
  wallUs: number;
  wallAtMs: number;
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

/** How heartbeats reach the store. */
export interface Heartbeats {
  /** Divides waiters into portions for one call each. */
  portions(waiters: readonly Waiter[]): readonly Waiter[][];
  /** Sends the heartbeats of one portion. Answers in the order asked (see beat.lua); rejects if no answer came. */
  send(portion: readonly Waiter[]): Promise<readonly unknown[]>;
}

export class Waiters {
  readonly #clock: Clock;
  readonly #confirms: boolean;
  readonly #heartbeats: Heartbeats;
  readonly #waiters: Map<string, Waiter> = new Map();
  /** Messages that arrived before the answer to the attempt. */
  readonly #early: Map<string, News | "done"> = new Map();
  /** When a connection was last replaced: answers from before that prove nothing now. */
  #doubtedMs = -Infinity;
  #timer: Timer;
  #timerAtMs = Infinity;
  #closed = false;

  /** `confirms`: grants by message or heartbeat are not enough, because replicas must confirm them. */
  constructor(clock: Clock, confirms: boolean, heartbeats: Heartbeats) {
    this.#clock = clock;
    this.#confirms = confirms;
    this.#heartbeats = heartbeats;
  }

  /** The store has queued the claim, by a request that was sent at `sentMs`. */
  queued(claim: Claim, key: string, ticketMs: number, sentMs: number, learned: Learned, wallMs: number): void {
    const waiter = this.#note(claim, key, ticketMs);
    waiter.done = false;
    waiter.news = undefined;
    waiter.wallUs = wallMs * 1000;
    waiter.wallAtMs = this.#clock.now();
    this.#learn(waiter, learned, sentMs);
    const early = this.#early.get(claim.id);
    if (early === undefined) return;
    this.#early.delete(claim.id);
    if (early === "done") this.finished(claim);
    else this.granted(claim, early);
  }

  /** The request got no answer, so the claim may be queued or granted: messages about it wait for the next answer. */
  unsure(claim: Claim, key: string, ticketMs: number): void {
    this.#note(claim, key, ticketMs).done = true;
    this.#early.delete(claim.id);
  }

  /** The claim no longer waits: an answer granted it, or it was given up. */
  forget(id: string): void {
    if (this.#early.size > 0) this.#early.delete(id);
    if (this.#waiters.size > 0) this.#waiters.delete(id);
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

  /**
   * A message says that the claim was granted. It may be late: that lease may be over, and the claim queued again. It counts if no answer is
   * newer; otherwise it is a reason to ask.
   */
  granted(claim: Claim, news: News): void {
    const waiter = this.#waiters.get(claim.id);
    // An attempt is under way, or will be. Its answer may be older than this message, so the message is judged after it.
    if (waiter === undefined || waiter.done) return void this.#early.set(claim.id, news);
    const leftMs = waiter.sentMs + claim.ttlMs - this.#clock.now();
    if (!news.sure || leftMs < claim.ttlMs / 3 || !this.#fits(waiter, news)) return this.#hint(waiter);
    if (this.#confirms) return this.#notify(waiter, "ask");
    this.#notify(waiter, toGranted(news.fences, waiter.sentMs));
  }

  /** A message says that the lock has an outcome, for which the claim waits. It is a reason to ask: at once, but only at intervals. */
  finished(claim: Claim): void {
    const waiter = this.#waiters.get(claim.id);
    if (waiter === undefined || waiter.done) return void this.#early.set(claim.id, "done");
    const nowMs = this.#clock.now();
    if (nowMs < waiter.hintedMs + HINT_PACE_MS) return this.#hint(waiter);
    waiter.hintedMs = nowMs;
    this.#notify(waiter, "ask");
  }

  /** Sends every waiter's heartbeat now: messages may have been missed, and those that still arrive may come from another server. */
  beatAll(): void {
    this.#doubtedMs = this.#clock.now();
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
    this.#clock.clearTimer(this.#timer);
    this.#early.clear();
    for (const waiter of this.#waiters.values()) this.#notify(waiter, "ask");
    this.#waiters.clear();
  }

  #note(claim: Claim, key: string, ticketMs: number): Waiter {
    let waiter = this.#waiters.get(claim.id);
    if (waiter === undefined) {
      const fresh = {
        sentMs: -Infinity,
        last: 0,
        by: "",
        wallUs: 0,
        wallAtMs: 0,
        dueMs: Infinity,
        hintMs: Infinity,
        hintedMs: -Infinity,
        news: undefined,
        done: false,
        asking: false,
        wake: undefined,
      };
      waiter = { claim, key, ticketMs, ...fresh };
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

  /** Whether a grant with this fence can be newer than every answer about the claim, and from the same server. */
  #fits(waiter: Waiter, { fences, by }: News): boolean {
    const fence = Number(fences.fence);
    const sinceUs = (this.#clock.now() - waiter.wallAtMs) * 1000;
    const highest = Math.max(waiter.last, waiter.wallUs) + sinceUs + AHEAD_MAX_US;
    return fence > waiter.last && fence <= highest && by === waiter.by && waiter.sentMs > this.#doubtedMs;
  }

  /** An answer says that the claim is still queued. */
  #learn(waiter: Waiter, { last, againMs, by }: Learned, sentMs: number): void {
    waiter.sentMs = Math.max(waiter.sentMs, sentMs);
    waiter.last = Math.max(waiter.last, last);
    waiter.by = by;
    this.#schedule(waiter, againMs);
  }

  /** Something may have happened to the claim: its next heartbeat is sent at once, but only at intervals. */
  #hint(waiter: Waiter): void {
    const nowMs = this.#clock.now();
    waiter.hintMs = Math.max(nowMs, waiter.hintedMs + HINT_PACE_MS);
    waiter.dueMs = Math.min(waiter.dueMs, waiter.hintMs);
    if (!waiter.asking) this.#setTimer(waiter.dueMs - nowMs);
  }

  #schedule(waiter: Waiter, againMs: number): void {
    const nowMs = this.#clock.now();
    const paceMs = waiter.ticketMs / 3;
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
        this.#beat();
      },
      Math.max(0, ms),
    );
  }

  /** One round of heartbeats. Those due within a quarter of their interval are sent along. */
  #beat(): void {
    if (this.#closed) return;
    const nowMs = this.#clock.now();
    const due: Waiter[] = [];
    for (const waiter of this.#waiters.values()) {
      if (!waiter.done && !waiter.asking && waiter.dueMs <= nowMs + waiter.ticketMs / 12) due.push(waiter);
    }
    // Each portion by itself: a node that does not answer must not delay the heartbeats of waiters on other nodes.
    for (const portion of this.#heartbeats.portions(due)) void this.#beatPortion(portion);
    this.#rearm();
  }

  async #beatPortion(portion: readonly Waiter[]): Promise<void> {
    const sentMs = this.#clock.now();
    for (const waiter of portion) {
      waiter.asking = true;
      if (waiter.hintMs > sentMs) continue;
      waiter.hintMs = Infinity;
      waiter.hintedMs = sentMs;
    }
    const answers = await this.#heartbeats.send(portion).catch(() => []);
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
    const fences = toRun(answer);
    // A request that was sent later found it queued: this answer is outdated.
    if (fences === undefined && sentMs < waiter.sentMs) return;
    // No longer queued, or an error: the next attempt brings the place in the queue, or the error.
    if (fences === undefined || this.#confirms) return this.#notify(waiter, "ask");
    this.#notify(waiter, toGranted(fences, sentMs));
  }

  #rearm(): void {
    let firstMs = Infinity;
    for (const waiter of this.#waiters.values()) {
      if (!waiter.done && !waiter.asking && waiter.dueMs < firstMs) firstMs = waiter.dueMs;
    }
    if (firstMs < Infinity) this.#setTimer(firstMs - this.#clock.now());
  }
}
