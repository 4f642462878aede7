/**
 * The channel on which this process hears of its claims. Messages save time and prove nothing by arriving: each role of the database can
 * send some, and they can be late or lost. Until one of our own has come back, none is counted on.
 */
import { hash, randomBytes } from "node:crypto";
import type { Clock, Timer } from "../../contract/clock.ts";
import type { Connection, Listening } from "./connection.ts";
import type { Claim } from "../../contract/backend.ts";
import { warn } from "../../contract/warning.ts";
import { type Run, toRun } from "./records.ts";

/** How many characters of a claim's id a message shows, and how many of the hash. */
export const SHOWN = 8;
const SEAL = 24;
const MESSAGE_MAX = 200;
const MESSAGE = /^([\w-]{8}) (granted \d+ \d+(?: w)?|forced|wanted|outcome) ([0-9a-f]{24})$/u;
/** Until a message of our own must have come back, and how often in a row it may not have: a network may hang for a while. */
const PROOF_MS = 2000;
const UNPROVEN_MAX = 10;
/** How often a connection that hears nothing is tested: what is idle is forgotten by networks, without a word. */
const CHECK_MS = 60_000;
const AGAIN_FIRST_MS = 100;
const AGAIN_MOST_MS = 5000;

/** Said once in a process, however many backends it has. */
let warned = false;

export interface InboxEvents {
  /** A message that only the store, or who reads its tables, can have made: whose is it? */
  claimOf(shown: string, isSealed: (id: string) => boolean): Claim | undefined;
  granted(claim: Claim, run: Run): void;
  forced(claim: Claim): void;
  /** Another claim waits for what this one holds; if it is a reader, for all of this process that share the lock. */
  wanted(claim: Claim): void;
  /** The lock has an outcome, for all claims of this process that wait for one. */
  outcome(claim: Claim): void;
  /** From now on messages are heard, or no longer. What came before may be missing. */
  changed(): void;
}

type State =
  /** Not opened yet, or between two connections. */
  | "closed"
  | "opening"
  | "live"
  /** A pooler is in between, or nothing that we sent comes back. */
  | "deaf"
  | "ended";

export class Inbox {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #events: InboxEvents;
  readonly #channel = `holdfast_${randomBytes(16).toString("hex")}`;
  #state: State = "closed";
  #opened: Promise<void> | undefined;
  #listening: Listening | undefined;
  #proof: ((came: boolean) => void) | undefined;
  readonly #ending = new AbortController();
  #nonce = "";
  #unproven = 0;
  #againMs = AGAIN_FIRST_MS;
  #againTimer: Timer;
  #checkTimer: Timer;

  /** `listen`: false if the user does not want it. */
  constructor(connection: Connection, clock: Clock, listen: boolean, events: InboxEvents) {
    this.#connection = connection;
    this.#clock = clock;
    this.#events = events;
    if (!listen) this.#state = "deaf";
  }

  /** Where the store sends messages for this process; `null` if they cannot be heard. */
  get address(): string | null {
    return this.#state === "deaf" || this.#state === "ended" ? null : this.#channel;
  }

  /** A message of our own has come back, and nothing has happened to the connection since. */
  get isLive(): boolean {
    return this.#state === "live";
  }

  /** False until it is known whether messages arrive. */
  get isTried(): boolean {
    return this.#state === "live" || this.#state === "deaf" || this.#againMs > AGAIN_FIRST_MS;
  }

  /** Begins to listen, once. Settles when that has succeeded or failed; then it goes on trying by itself. */
  open(): Promise<void> {
    if (this.#state === "closed" && this.#opened === undefined) this.#opened = this.#open();
    return this.#opened ?? Promise.resolve();
  }

  /** The same, but waits no longer than `ms`. */
  async openWithin(ms: number): Promise<void> {
    let timer: Timer;
    const late = new Promise<void>((resolve) => {
      timer = this.#clock.setTimer(resolve, ms, true);
    });
    await Promise.race([this.open(), late]);
    this.#clock.clearTimer(timer);
  }

  async close(): Promise<void> {
    this.#state = "ended";
    this.#ending.abort();
    this.#clock.clearTimer(this.#againTimer);
    this.#clock.clearTimer(this.#checkTimer);
    this.#proof?.(false);
    // An open() under way finds that this has ended, and stops what it has begun.
    await this.#opened;
    await this.#listening?.stop();
    this.#listening = undefined;
  }

  async #open(): Promise<void> {
    this.#state = "opening";
    let broke = false;
    const ended = (): void => {
      broke = true;
      this.#proof?.(false);
      if (this.#state === "live") this.#broken();
    };
    try {
      const events = { heard: (text: string) => this.#hear(text), ended };
      const listening = await this.#connection.listen(this.#channel, events, this.#ending.signal);
      if (this.#isEnded()) {
        await listening?.stop();
        return;
      }
      if (listening === undefined) return this.#deafen();
      this.#listening = listening;
      const proven = await this.#prove();
      if (this.#isEnded()) return;
      if (broke || (!proven && ++this.#unproven < UNPROVEN_MAX)) return this.#broken();
      if (!proven) return this.#deafen();
      this.#state = "live";
      this.#unproven = 0;
      this.#againMs = AGAIN_FIRST_MS;
      this.#checkLater();
      this.#events.changed();
    } catch {
      if (!this.#isEnded()) this.#broken();
    }
  }

  /** A message should have come, or may have: one of our own shows whether any does. */
  async check(): Promise<void> {
    if (this.#state !== "live" || this.#proof !== undefined) return;
    const proven = await this.#prove();
    if (!this.isLive) return;
    if (proven) this.#checkLater();
    else this.#broken();
  }

  #checkLater(): void {
    this.#clock.clearTimer(this.#checkTimer);
    this.#checkTimer = this.#clock.setTimer(() => void this.check(), CHECK_MS);
  }

  #isEnded(): boolean {
    return this.#state === "ended";
  }

  /** Sends a message to this process by another connection, and waits until it has come. */
  async #prove(): Promise<boolean> {
    this.#nonce = randomBytes(12).toString("hex");
    let timer: Timer;
    const came = new Promise<boolean>((resolve) => {
      this.#proof = resolve;
      timer = this.#clock.setTimer(() => resolve(false), PROOF_MS);
    });
    try {
      // Its answer says nothing that the message does not, and close() must not wait for it.
      const values = [this.#channel, this.#nonce];
      const sent = this.#connection.read("select pg_catalog.pg_notify($1::text, $2::text)::text as answer", values);
      sent.catch(() => this.#proof?.(false));
      return await came;
    } finally {
      this.#clock.clearTimer(timer);
      this.#proof = undefined;
    }
  }

  #deafen(): void {
    const listening = this.#listening;
    this.#listening = undefined;
    this.#state = "deaf";
    void listening?.stop();
    if (warned) return;
    warned = true;
    warn(
      "HOLDFAST_POSTGRES_POOLER",
      "A pooler is between this process and Postgres, so NOTIFY cannot reach it. Locks work, but waiters ask repeatedly instead of being woken. Give the locks a direct connection, or say `listen: false`.",
    );
  }

  /** The connection is gone: heartbeats do the work meanwhile. */
  #broken(): void {
    this.#clock.clearTimer(this.#checkTimer);
    const listening = this.#listening;
    this.#listening = undefined;
    void listening?.stop();
    const wasLive = this.#state === "live";
    this.#state = "closed";
    if (wasLive) this.#events.changed();
    this.#againTimer = this.#clock.setTimer(() => {
      if (this.#state !== "closed") return;
      this.#opened = this.#open();
    }, this.#againMs);
    this.#againMs = Math.min(2 * this.#againMs, AGAIN_MOST_MS);
  }

  #hear(text: string): void {
    if (text.length > MESSAGE_MAX) return;
    if (text === this.#nonce && this.#nonce !== "") return this.#proof?.(true);
    const [, shown, news, seal] = MESSAGE.exec(text) ?? [];
    if (shown === undefined || news === undefined) return;
    const claim = this.#events.claimOf(shown, (each) => sealOf(each, news) === seal);
    if (claim === undefined) return;
    const run = toRun(news);
    if (run !== undefined) this.#events.granted(claim, run);
    else if (news === "wanted") this.#events.wanted(claim);
    else if (news === "outcome") this.#events.outcome(claim);
    else this.#events.forced(claim);
  }
}

/** As send-news.sql makes it. */
function sealOf(claimId: string, news: string): string {
  return hash("sha256", `${claimId} ${news}`, "hex").slice(0, SEAL);
}
