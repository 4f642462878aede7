/**
 * One subscription per process for all its locks: grants, forced ends, and hints for quorums come in here.
 *
 * Whoever may publish on these channels may send anything, as often as they like, and database numbers do not keep channels
 * apart. So nothing is acted on but what the roster finds the seal of right, and no message costs more than it could be worth.
 */
import type { Claim } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import type { Connection } from "./connection.ts";
import { type News, readMessage } from "./replies.ts";
import type { Entry, Roster } from "./local-claims.ts";
import { Subscriber } from "./subscriber.ts";
import { Throttle } from "./throttle.ts";

export interface Mail {
  granted(entry: Entry, news: News): void;
  /** Somebody ended the claim's lease by force, or did a while ago. */
  forced(claim: Claim): void;
  /** Messages may have been missed until now. */
  listening(): void;
}

/** How many releases of one lock may wake somebody at once, and then in which pace. */
const WAKES_BURST = 50;
const WAKES_PACE_MS = 4;

/** One claim is doubted at most this often, however often a message of its forced end is repeated. */
const FORCED_PACE_MS = 1000;

interface Channel {
  readonly wakes: Set<() => void>;
  readonly throttle: Throttle;
}

export class Inbox {
  /** True from the first confirmed subscription on; it may be reconnecting. */
  ready = false;
  /** It was waited for once. If in vain, it goes on in the background and nobody waits again. */
  tried = false;
  readonly #connection: Connection;
  readonly #channel: string;
  readonly #clock: Clock;
  readonly #roster: Roster;
  readonly #mail: Mail;
  readonly #freed: Map<string, Channel> = new Map();
  readonly #forced: WeakMap<Claim, Throttle> = new WeakMap();
  #subscriber: Subscriber | undefined;
  #opening: Promise<void> | undefined;
  #closed = false;

  constructor(connection: Connection, channel: string, clock: Clock, roster: Roster, mail: Mail) {
    this.#connection = connection;
    this.#channel = channel;
    this.#clock = clock;
    this.#roster = roster;
    this.#mail = mail;
  }

  /** Subscribes, once. Resolves also when that failed: waiting works without messages, only slower. */
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
    let timer: Timer;
    const late = new Promise<void>((resolve) => {
      timer = this.#clock.setTimer(resolve, ms, true);
    });
    await Promise.race([this.open(), late]);
    this.#clock.clearTimer(timer);
    this.tried = true;
  }

  /** Calls `wake` when a voted lease of this lock was released. Returns what stops it. */
  onFreed(name: string, wake: () => void): () => void {
    const known = this.#freed.get(name);
    if (known === undefined) {
      const wakes = new Set([wake]);
      const throttle = new Throttle(this.#clock, WAKES_BURST, WAKES_PACE_MS, () => {
        // A copy, because whoever is woken may stop listening, or begin.
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
    // Whoever wanted it may have given up meanwhile.
    if (!this.#freed.has(channel)) return;
    // It was free between the refusal and this subscription, perhaps; and a hint too many does no harm.
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
    this.#mail.listening();
  }

  #read(channel: string, text: string): void {
    if (this.#closed) return;
    if (channel !== this.#channel) {
      this.#freed.get(channel)?.throttle.call();
      return;
    }
    const { grants, forced } = readMessage(text);
    for (const grant of grants) {
      const entry = this.#roster.find(grant);
      if (entry !== undefined) this.#mail.granted(entry, grant.news);
    }
    const broken = forced && this.#roster.find(forced);
    if (broken !== undefined) this.#broken(broken.claim);
  }

  /** In a quorum the lease may go on, and whoever listens may repeat the message, which stays true. */
  #broken(claim: Claim): void {
    let throttle = this.#forced.get(claim);
    if (throttle === undefined) {
      throttle = new Throttle(this.#clock, 1, FORCED_PACE_MS, () => {
        if (!this.#closed) this.#mail.forced(claim);
      });
      this.#forced.set(claim, throttle);
    }
    throttle.call();
  }
}
