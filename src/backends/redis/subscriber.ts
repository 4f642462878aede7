/**
 * The connection for messages: one of our own, whichever the client library and the topology. It sends its own pings, so that no time-out of
 * the client ends it and a dead one is noticed; when it ends, it is opened again to the server that is the primary then.
 */
import { type Connection, type Destination, openOwn, type OwnConnection, withinOpenTime } from "./connection.ts";

/** A ping this often; a connection that does not answer before the next one is replaced. */
const PING_MS = 5000;
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 5000;

export class Subscriber {
  readonly #connection: Connection;
  readonly #message: (channel: string, text: string) => void;
  readonly #ready: () => void;
  readonly #to: Destination;
  readonly #sharded: boolean;
  readonly #channels: Set<string> = new Set();
  readonly #stopWatching: () => void;
  #own: OwnConnection | undefined;
  /** Open, but not all is subscribed yet. */
  #settling: OwnConnection | undefined;
  #opening: Promise<void> | undefined;
  /** How often the primary may have changed. */
  #moves = 0;
  #pauseMs = PAUSE_MIN_MS;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /**
   * `ready` is called whenever all channels are subscribed: the first time, and after each reconnect. `sharded`: the same channels are
   * listened to as sharded ones, too, which need the node of a cluster that has their slot.
   */
  constructor(
    connection: Connection,
    message: (channel: string, text: string) => void,
    ready: () => void,
    to: Destination = "",
    sharded = false,
  ) {
    this.#to = to;
    this.#sharded = sharded;
    this.#connection = connection;
    this.#message = message;
    this.#ready = ready;
    // Behind sentinels the primary may be another one now, while the old one still answers.
    this.#stopWatching =
      connection.topology === "sentinel" ? connection.onReconnect(() => this.#moved()) : (): void => {};
  }

  /** Resolves when the server has confirmed. Rejects if it did not, and keeps trying: see `ready`. */
  async add(channel: string): Promise<void> {
    this.#channels.add(channel);
    const own = this.#own;
    if (own === undefined) return this.#open();
    await this.#subscribe(own, [channel]).catch((error: unknown) => {
      // The next connection subscribes to all.
      own.close();
      throw error;
    });
  }

  async remove(channel: string): Promise<void> {
    if (this.#channels.delete(channel)) await this.#own?.unsubscribe(channel, this.#sharded);
  }

  close(): void {
    this.#closed = true;
    this.#stopWatching();
    clearTimeout(this.#timer);
    this.#settling?.close();
    this.#own?.close();
  }

  #open(): Promise<void> {
    this.#opening ??= this.#openOnce().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  /** Every connection may lead to the old primary: the one in use, the one being subscribed, and the one being opened. */
  #moved(): void {
    this.#moves++;
    this.#settling?.close();
    this.#own?.close();
  }

  async #openOnce(): Promise<void> {
    clearTimeout(this.#timer);
    const moves = this.#moves;
    try {
      const own = await openOwn(this.#connection, this.#to, {
        message: (channel, text) => this.#message(channel, text),
        ended: () => this.#ended(),
      });
      if (this.#closed) return own.close();
      if (moves !== this.#moves) {
        own.close();
        throw new Error("the primary may be another one now");
      }
      await this.#settle(own);
    } catch (error) {
      this.#openLater();
      throw error;
    }
  }

  /** Subscribes to all channels, including those added meanwhile, and to nothing else. */
  async #settle(own: OwnConnection): Promise<void> {
    const done = new Set<string>();
    this.#settling = own;
    try {
      for (;;) {
        const missing = [...this.#channels].filter((channel) => !done.has(channel));
        if (missing.length === 0) break;
        await withinOpenTime(this.#subscribe(own, missing), "did not answer SUBSCRIBE", () => own.close());
        missing.forEach((channel) => done.add(channel));
      }
      if (!own.isOpen) throw new Error("the connection for messages ended");
    } catch (error) {
      own.close();
      throw error;
    } finally {
      this.#settling = undefined;
    }
    this.#own = own;
    this.#pauseMs = PAUSE_MIN_MS;
    this.#pingLater(own);
    // Removed while they were being subscribed.
    const gone = [...done].filter((channel) => !this.#channels.has(channel));
    for (const channel of gone) void own.unsubscribe(channel, this.#sharded).catch(() => {});
    this.#ready();
  }

  #subscribe(own: OwnConnection, channels: readonly string[]): Promise<void> {
    // One by one: channels of different slots do not go together. An old server knows no sharded channels, a slot may have moved, and one
    // library then never settles. The server answers in order, so that these are done when the others are confirmed.
    if (this.#sharded) for (const channel of channels) void own.subscribeSharded(channel).catch(() => {});
    return own.subscribe(channels);
  }

  #ended(): void {
    // An earlier connection may have ended late, or one that was never used.
    if (this.#own === undefined || this.#own.isOpen) return;
    this.#own = undefined;
    this.#openLater();
  }

  #openLater(): void {
    if (this.#closed || this.#channels.size === 0) return;
    this.#after(this.#pauseMs, () => void this.#open().catch(() => {}));
    this.#pauseMs = Math.min(2 * this.#pauseMs, PAUSE_MAX_MS);
  }

  #pingLater(own: OwnConnection): void {
    this.#after(PING_MS, () => {
      if (!own.isOpen) return;
      let answered = false;
      own.send([["PING"]]).then(
        () => (answered = true),
        () => {},
      );
      this.#after(PING_MS, () => {
        if (!answered) return own.close();
        this.#pingLater(own);
      });
    });
  }

  #after(ms: number, then: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(then, ms).unref();
  }
}
