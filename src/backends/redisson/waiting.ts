/**
 * How a claim waits: as Redisson does, it subscribes to the channel of the lock, on which each release is reported. Messages may be lost, so it
 * asks again from time to time, and when the key expires.
 */
import type { Clock } from "../../contract/clock.ts";
import { jitter } from "../../contract/random.ts";
import type { Connection } from "../redis/connection.ts";
import { Feed } from "../redis/layouts/feed.ts";
import type { Keys } from "./keys.ts";
import type { Shown } from "./records.ts";

/** While it is not subscribed: from the least, half as long again each time, to the most. */
const POLL_MIN_MS = 20;
const POLL_MAX_MS = 250;
const POLL_GROWTH = 1.5;
/** While it is. */
const SAFETY_MS = 2000;

export class Waiting {
  readonly #connection: Connection;
  readonly #clock: Clock;
  /** By the address of a cluster's node; otherwise by "". */
  readonly #feeds: Map<string, Feed> = new Map();
  #closed = false;

  constructor(connection: Connection, clock: Clock) {
    this.#connection = connection;
    this.#clock = clock;
  }

  /** When to ask again. `tries`: how often the claim was refused before. */
  retryMs(keys: Keys, { isFree, leftMs }: Shown, tries: number): number {
    // It is free, but left to others for a moment.
    if (isFree && leftMs >= 0) return leftMs + jitter(2, 0.1, 1);
    const pollMs = Math.min(POLL_MAX_MS, POLL_MIN_MS * POLL_GROWTH ** Math.min(tries, 20));
    const pauseMs = this.#isSubscribed(keys) ? jitter(SAFETY_MS, 0.75, 1.25) : jitter(pollMs, 0.5, 1);
    // Of a key that never expires, time says nothing.
    return leftMs < 0 ? pauseMs : Math.min(pauseMs, leftMs + jitter(POLL_MIN_MS, 0.05, 0.5));
  }

  /** Calls `wake` when the lock may have become free since `sinceMs`. Returns what stops it. */
  onEnd({ lock, channel, notes }: Keys, sinceMs: number, wake: () => void): () => void {
    if (this.#closed) return () => {};
    const address = this.#connection.nodeOf(lock);
    let feed = this.#feeds.get(address);
    if (feed === undefined) {
      const sharded = this.#connection.topology === "cluster";
      feed = new Feed(this.#connection, this.#clock, address, { ends: () => true, sharded });
      this.#feeds.set(address, feed);
    }
    // Nothing is sent there: it shows, when a lock is released, how many of those who wait are ours.
    const stopShowing = feed.listen(notes, Infinity, () => {});
    const stop = feed.listen(channel, sinceMs, wake);
    return () => {
      stop();
      stopShowing();
    };
  }

  close(): void {
    this.#closed = true;
    for (const feed of this.#feeds.values()) feed.close();
    this.#feeds.clear();
  }

  #isSubscribed({ lock, channel }: Keys): boolean {
    return this.#feeds.get(this.#connection.nodeOf(lock))?.isSubscribed(channel) === true;
  }
}
