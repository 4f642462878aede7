/**
 * One subscription per process for all its locks: grants, forced ends, and hints for quorums arrive here.
 *
 * Anyone who may publish on these channels may send anything, as often as they like, and database numbers do not separate channels. So a
 * message counts only if its seal is right, and no message costs more than it can be worth.
 */
import type { Claim } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import { within } from "../../contract/time-limit.ts";
import type { Connection } from "./connection.ts";
import type { Entry, LocalClaims } from "./local-claims.ts";
import { type News, readMessage } from "./messages.ts";
import type { Releases } from "./release.ts";
import { Subscriber } from "./subscriber.ts";
import type { Waiters } from "./waiting.ts";

/** How many releases of one lock may wake waiters at once, and at which interval after that. */
const WAKES_BURST = 50;
const WAKES_PACE_MS = 4;

/** A claim is doubted, and its holder learns that it is wanted, at most this often, however often the message is repeated. */
const FORCED_PACE_MS = 1000;
const WANTED_PACE_MS = 50;

interface Channel {
  readonly wakes: Set<() => void>;
  readonly throttle: Throttle;
}

/** Who gets the news. */
export interface Recipients {
  readonly claims: LocalClaims;
  readonly waiters: Waiters;
  readonly releases: Releases;
  /** One lease may have been ended by force; without a claim, messages may have been missed, so any may have been. */
  doubt(claim?: Claim): void;
  /** A claim queues for the lock that this one holds. */
  wanted(claim: Claim): void;
}

export class Inbox {
  /** True from the first confirmed subscription on; it may be reconnecting. */
  ready = false;
  /** It was waited for once. If that failed, it continues in the background and no caller waits again. */
  tried = false;
  readonly #connection: Connection;
  readonly #channel: string;
  readonly #clock: Clock;
  readonly #to: Recipients;
  readonly #freed: Map<string, Channel> = new Map();
  readonly #forced: WeakMap<Claim, Throttle> = new WeakMap();
  readonly #wanted: WeakMap<Claim, Throttle> = new WeakMap();
  #subscriber: Subscriber | undefined;
  #opening: Promise<void> | undefined;
  #closed = false;

  constructor(connection: Connection, channel: string, clock: Clock, to: Recipients) {
    this.#connection = connection;
    this.#channel = channel;
    this.#clock = clock;
    this.#to = to;
  }

  /** Subscribes, once. Resolves also if that failed: waiting works without messages, only slower. */
  open(): Promise<void> {
    if (this.ready || this.tried || this.#closed) return Promise.resolve();
    this.#opening ??= this.#subscribe().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  /** Subscribes, but waits no longer than `ms` for it, and only once. */
  async openWithin(ms: number): Promise<void> {
    if (this.ready || this.tried) return;
    await within(this.#clock, this.open(), ms);
    this.tried = true;
  }

  /** Calls `wake` when a voted lease of this lock was released. Returns a function that stops it. */
  onFreed(name: string, wake: () => void): () => void {
    const known = this.#freed.get(name);
    if (known === undefined) {
      const wakes = new Set([wake]);
      const throttle = new Throttle(this.#clock, WAKES_BURST, WAKES_PACE_MS, () => {
        // A copy, because a woken waiter may stop listening, or start.
        const woken = [...wakes];
        for (const each of woken) each();
      });
      this.#freed.set(name, { wakes, throttle });
      void this.#listenTo(name);
    } else {
      known.wakes.add(wake);
    }
    return () => {
      const channel = this.#freed.get(name);
      if (!channel?.wakes.delete(wake) || channel.wakes.size > 0) return;
      channel.throttle.stop();
      this.#freed.delete(name);
      void this.#subscriber?.remove(name).catch(() => {});
    };
  }

  close(): void {
    this.#closed = true;
    this.ready = false;
    for (const { throttle } of this.#freed.values()) throttle.stop();
    this.#subscriber?.close();
  }

  async #listenTo(channel: string): Promise<void> {
    await this.open();
    // The waiter may have given up meanwhile.
    if (!this.#freed.has(channel)) return;
    // The lock may have been free between the refusal and this subscription; an unnecessary hint does no harm.
    await this.#subscriber?.add(channel).then(
      () => this.#freed.get(channel)?.throttle.call(),
      () => {},
    );
  }

  async #subscribe(): Promise<void> {
    this.#subscriber ??= new Subscriber(
      this.#connection,
      (channel, text) => this.#read(channel, text),
      () => this.#listening(),
    );
    await this.#subscriber.add(this.#channel).catch(() => {});
    this.tried = true;
  }

  #listening(): void {
    if (this.#closed) return;
    this.ready = true;
    this.#to.doubt();
  }

  #read(channel: string, text: string): void {
    if (this.#closed) return;
    if (channel !== this.#channel) {
      this.#freed.get(channel)?.throttle.call();
      return;
    }
    const { grants, forced, wanted, done } = readMessage(text);
    for (const grant of grants) {
      const entry = this.#to.claims.find(grant);
      if (entry !== undefined) this.#granted(entry, grant.news);
    }
    for (const sealed of done) {
      const entry = this.#to.claims.find(sealed);
      if (entry?.state === "wanted") this.#to.waiters.finished(entry.claim);
    }
    for (const sealed of wanted) {
      const entry = this.#to.claims.find(sealed);
      if (entry?.state === "wanted")
        this.#paced(this.#wanted, entry.claim, WANTED_PACE_MS, () => this.#to.wanted(entry.claim));
    }
    const entry = forced && this.#to.claims.find(forced);
    if (entry !== undefined) this.#ended(entry.claim);
  }

  #granted({ claim, state }: Entry, news: News): void {
    if (state === "wanted") this.#to.waiters.granted(claim, news);
    // It was released without an answer. If the release fails again, the lease ends after its ttl.
    else if (state === "unwanted") void this.#to.releases.release(claim).catch(() => {});
  }

  /** In a quorum the lease may continue, and anyone who listens may repeat the message, which stays true. */
  #ended(claim: Claim): void {
    // By a timer, because the grant itself may have arrived in this same turn of the event loop.
    this.#paced(this.#forced, claim, FORCED_PACE_MS, () => this.#clock.setTimer(() => this.#to.doubt(claim), 0));
  }

  #paced(known: WeakMap<Claim, Throttle>, claim: Claim, paceMs: number, act: () => void): void {
    let throttle = known.get(claim);
    if (throttle === undefined) {
      throttle = new Throttle(this.#clock, 1, paceMs, () => {
        if (!this.#closed) act();
      });
      known.set(claim, throttle);
    }
    throttle.call();
  }
}

/** Passes calls on at once, but many calls only at a steady rate, so that many hints do not become many requests. */
class Throttle {
  readonly #clock: Clock;
  readonly #burst: number;
  readonly #paceMs: number;
  readonly #act: () => void;
  #left: number;
  #countedMs: number;
  #timer: Timer;

  /** At most `burst` calls in a row, and one more for each `paceMs` that passes. The last call is never lost, only late. */
  constructor(clock: Clock, burst: number, paceMs: number, act: () => void) {
    this.#clock = clock;
    this.#burst = burst;
    this.#paceMs = paceMs;
    this.#act = act;
    this.#left = burst;
    this.#countedMs = clock.now();
  }

  call(): void {
    if (this.#timer !== undefined) return;
    const nowMs = this.#clock.now();
    this.#left = Math.min(this.#burst, this.#left + (nowMs - this.#countedMs) / this.#paceMs);
    this.#countedMs = nowMs;
    if (this.#left >= 1) {
      this.#left--;
      this.#act();
      return;
    }
    this.#timer = this.#clock.setTimer(
      () => {
        this.#timer = undefined;
        this.call();
      },
      Math.ceil((1 - this.#left) * this.#paceMs),
    );
  }

  stop(): void {
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }
}
