/** The messages of one server for those who wait: one subscription for each channel that is waited for, and a moment longer. */
import type { Clock, Timer } from "../../../contract/clock.ts";
import type { Connection, Destination } from "../connection.ts";
import { Subscriber } from "../subscriber.ts";

/** A subscription outlives its last waiter, because a claim that asks again waits again. */
const LINGER_MS = 2000;

/** One channel that is waited for. */
interface Watched {
  readonly wakes: Set<() => void>;
  /** When it was last heard that a lock has ended. */
  endedMs: number;
  linger: Timer;
  isSubscribed: boolean;
}

export interface FeedOptions {
  /** Whether the message says that a lock has ended. */
  readonly ends: (text: string) => boolean;
  /** Called for each message on a channel that is waited for. */
  readonly heard?: (() => void) | undefined;
  /** True: in a cluster the same channels are listened to as sharded ones, too. */
  readonly sharded?: boolean | undefined;
}

export class Feed {
  readonly #clock: Clock;
  readonly #subscriber: Subscriber;
  readonly #channels: Map<string, Watched> = new Map();

  constructor(connection: Connection, clock: Clock, address: Destination, options: FeedOptions) {
    this.#clock = clock;
    this.#subscriber = new Subscriber(
      connection,
      (channel, text) => {
        if (!this.#channels.has(channel)) return;
        options.heard?.();
        if (options.ends(text)) this.#ended(channel);
      },
      () => {
        // Messages may have been missed while it was not connected.
        const all = [...this.#channels.keys()];
        for (const channel of all) this.#ended(channel);
      },
      address,
      options.sharded,
    );
  }

  /** Calls `wake` when a lock of the channel may have ended since `sinceMs`. Returns what stops it. */
  listen(channel: string, sinceMs: number, wake: () => void): () => void {
    const watched = this.#channels.get(channel) ?? this.#subscribe(channel);
    const { wakes } = watched;
    this.#clock.clearTimer(watched.linger);
    watched.linger = undefined;
    // A function of its own: the same one may be passed twice.
    const own = (): void => wake();
    wakes.add(own);
    if (watched.endedMs >= sinceMs) queueMicrotask(own);
    return () => {
      if (!wakes.delete(own) || wakes.size > 0) return;
      watched.linger = this.#clock.setTimer(() => {
        this.#channels.delete(channel);
        void this.#subscriber.remove(channel).catch(() => {});
      }, LINGER_MS);
    };
  }

  /** The server has confirmed the subscription. It may have ended since: messages are never relied on alone. */
  isSubscribed(channel: string): boolean {
    return this.#channels.get(channel)?.isSubscribed === true;
  }

  close(): void {
    this.#subscriber.close();
    for (const { linger } of this.#channels.values()) this.#clock.clearTimer(linger);
    this.#channels.clear();
  }

  #subscribe(channel: string): Watched {
    const watched: Watched = { wakes: new Set(), endedMs: -Infinity, linger: undefined, isSubscribed: false };
    this.#channels.set(channel, watched);
    this.#subscriber.add(channel).then(
      () => {
        watched.isSubscribed = true;
        // The lock may have ended between the refusal and this subscription; an unnecessary question does no harm.
        this.#ended(channel);
      },
      () => {},
    );
    return watched;
  }

  #ended(channel: string): void {
    const watched = this.#channels.get(channel);
    if (watched === undefined) return;
    watched.endedMs = this.#clock.now();
    // A copy: one that is woken may stop waiting, or wait again.
    const wakes = [...watched.wakes];
    for (const wake of wakes) wake();
  }
}
