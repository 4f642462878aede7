/** One subscription per process for all its locks: grants, forced ends, and hints for quorums come in here. */
import type { Clock, Timer } from "../clock.ts";
import type { Connection } from "./connection.ts";
import { type Run, toRun } from "./reply.ts";
import { Subscriber } from "./subscriber.ts";

export interface Mail {
  /** `sure` is false when the grant must be confirmed before it is believed. */
  granted(id: string, fences: Run, sure: boolean, lockKey: string): void;
  forced(id: string, json: string): void;
  /** Messages may have been missed until now. */
  listening(): void;
}

const GRANTED = /^granted (\S+) (.*)$/su;
const GRANT = /^([\w-]{1,64})([:?])(\S+)$/u;
const FORCED = /^forced ([\w-]{1,64}) (.*)$/su;

export class Inbox {
  /** True from the first confirmed subscription on; it may be reconnecting. */
  ready = false;
  /** It was waited for once. If in vain, it goes on in the background and nobody waits again. */
  tried = false;
  readonly #connection: Connection;
  readonly #channel: string;
  readonly #mail: Mail;
  readonly #freed: Map<string, Set<() => void>> = new Map();
  #subscriber: Subscriber | undefined;
  #opening: Promise<void> | undefined;
  #closed = false;

  constructor(connection: Connection, channel: string, mail: Mail) {
    this.#connection = connection;
    this.#channel = channel;
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
  async openWithin(clock: Clock, ms: number): Promise<void> {
    if (this.ready || this.tried) return;
    let timer: Timer;
    const late = new Promise<void>((resolve) => {
      timer = clock.setTimer(resolve, ms, true);
    });
    await Promise.race([this.open(), late]);
    clock.clearTimer(timer);
    this.tried = true;
  }

  /** Calls `wake` when a voted lease of this lock was released. Returns what stops it. */
  onFreed(channel: string, wake: () => void): () => void {
    const wakes = this.#freed.get(channel);
    if (wakes === undefined) {
      this.#freed.set(channel, new Set([wake]));
      void this.#listenTo(channel);
    } else {
      wakes.add(wake);
    }
    return () => {
      const left = this.#freed.get(channel);
      if (!left?.delete(wake) || left.size > 0) return;
      this.#freed.delete(channel);
      void this.#subscriber?.remove(channel).catch(() => {});
    };
  }

  close(): void {
    this.#closed = true;
    this.ready = false;
    this.#subscriber?.close();
  }

  async #listenTo(channel: string): Promise<void> {
    await this.open();
    // It was free between the refusal and this subscription, perhaps; and a hint too many does no harm.
    await this.#subscriber?.add(channel).then(
      () => this.#freed.get(channel)?.forEach((wake) => wake()),
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
    if (channel !== this.#channel) {
      this.#freed.get(channel)?.forEach((wake) => wake());
      return;
    }
    const [, list, lockKey] = GRANTED.exec(text) ?? [];
    if (list !== undefined && lockKey !== undefined) {
      for (const each of list.split(",")) {
        const [, id, sure, told] = GRANT.exec(each) ?? [];
        const fences = toRun(told);
        if (id !== undefined && fences !== undefined) this.#mail.granted(id, fences, sure === ":", lockKey);
      }
      return;
    }
    const [, id, json] = FORCED.exec(text) ?? [];
    if (id !== undefined && json !== undefined) this.#mail.forced(id, json);
  }
}
