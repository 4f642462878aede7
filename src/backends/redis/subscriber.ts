/**
 * Where messages come in: a connection of our own, whichever the client library and the topology. It has its own signs of life, so that
 * no time-out of the client ends it and a dead one is noticed, and when it ends it is opened again where the primary is then.
 */
import type { Connection, Wire } from "./connection.ts";
import { inTime, opened } from "./open-in-time.ts";

/** A sign of life this often; a connection that does not answer it before the next is replaced. */
const PING_MS = 5000;
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 5000;

export class Subscriber {
  readonly #connection: Connection;
  readonly #message: (channel: string, text: string) => void;
  readonly #ready: () => void;
  readonly #channels: Set<string> = new Set();
  readonly #stopWatching: () => void;
  #wire: Wire | undefined;
  /** Open, but not all is subscribed yet. */
  #settling: Wire | undefined;
  #opening: Promise<void> | undefined;
  /** How often the primary may have become another. */
  #moves = 0;
  #pauseMs = PAUSE_MIN_MS;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** `ready` is called whenever all that was added is subscribed again, or at last. */
  constructor(connection: Connection, message: (channel: string, text: string) => void, ready: () => void) {
    this.#connection = connection;
    this.#message = message;
    this.#ready = ready;
    // Behind sentinels the primary may be another now, and the old one still be there.
    this.#stopWatching =
      connection.topology === "sentinel" ? connection.onReconnect(() => this.#moved()) : (): void => {};
  }

  /** Resolves when the server has confirmed. Rejects when it did not, and goes on trying: see `ready`. */
  async add(channel: string): Promise<void> {
    this.#channels.add(channel);
    const wire = this.#wire;
    if (wire === undefined) return this.#open();
    await wire.subscribe([channel]).catch((error: unknown) => {
      // All are subscribed by the next one.
      wire.close();
      throw error;
    });
  }

  async remove(channel: string): Promise<void> {
    if (this.#channels.delete(channel)) await this.#wire?.unsubscribe(channel);
  }

  close(): void {
    this.#closed = true;
    this.#stopWatching();
    clearTimeout(this.#timer);
    this.#settling?.close();
    this.#wire?.close();
  }

  #open(): Promise<void> {
    this.#opening ??= this.#openOnce().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  /** Whatever there is may lead to the old one: what is used, what is being subscribed, and what is still being opened. */
  #moved(): void {
    this.#moves++;
    this.#settling?.close();
    this.#wire?.close();
  }

  async #openOnce(): Promise<void> {
    clearTimeout(this.#timer);
    const moves = this.#moves;
    try {
      const wire = await opened(this.#connection, "", {
        message: (channel, text) => this.#message(channel, text),
        ended: () => this.#ended(),
      });
      if (this.#closed) return wire.close();
      if (moves !== this.#moves) {
        wire.close();
        throw new Error("the primary may be another now");
      }
      await this.#settle(wire);
    } catch (error) {
      this.#openLater();
      throw error;
    }
  }

  /** Subscribes to everything, also to what was added meanwhile, and to nothing else. */
  async #settle(wire: Wire): Promise<void> {
    const done = new Set<string>();
    this.#settling = wire;
    try {
      for (;;) {
        const missing = [...this.#channels].filter((channel) => !done.has(channel));
        if (missing.length === 0) break;
        await inTime(wire.subscribe(missing), "did not answer SUBSCRIBE", () => wire.close());
        missing.forEach((channel) => done.add(channel));
      }
      if (!wire.isOpen) throw new Error("the connection for messages ended");
    } catch (error) {
      wire.close();
      throw error;
    } finally {
      this.#settling = undefined;
    }
    this.#wire = wire;
    this.#pauseMs = PAUSE_MIN_MS;
    this.#pingLater(wire);
    // Removed while they were being asked for.
    const gone = [...done].filter((channel) => !this.#channels.has(channel));
    for (const channel of gone) void wire.unsubscribe(channel).catch(() => {});
    this.#ready();
  }

  #ended(): void {
    // An earlier one may have ended late, or one that was never used.
    if (this.#wire === undefined || this.#wire.isOpen) return;
    this.#wire = undefined;
    this.#openLater();
  }

  #openLater(): void {
    if (this.#closed || this.#channels.size === 0) return;
    this.#after(this.#pauseMs, () => void this.#open().catch(() => {}));
    this.#pauseMs = Math.min(2 * this.#pauseMs, PAUSE_MAX_MS);
  }

  #pingLater(wire: Wire): void {
    this.#after(PING_MS, () => {
      if (!wire.isOpen) return;
      let answered = false;
      wire.send([["PING"]]).then(
        () => (answered = true),
        () => {},
      );
      this.#after(PING_MS, () => {
        if (!answered) return wire.close();
        this.#pingLater(wire);
      });
    });
  }

  #after(ms: number, then: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(then, ms).unref();
  }
}
