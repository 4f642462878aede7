/**
 * What becomes of the requests of a backend in a foreign layout: how an answer becomes a grant or a release, what a broken connection leaves
 * unknown, and what is still under way at the end. The layouts differ in their keys and scripts, and not in this.
 */
import type { Claim, Granted, Listener, Refused, Released } from "../../../contract/backend.ts";
import type { Clock } from "../../../contract/clock.ts";
import type { Connection } from "../connection.ts";
import type { LayoutErrors } from "./errors.ts";
import { UnderWay } from "./under-way.ts";

const FENCE = /^\d{1,16}$/u;

/** What belongs to a connection that was opened for this backend, and not passed in by the user. */
export interface Own {
  readonly renewer: { readonly module: string; readonly data: unknown };
  close(): Promise<void>;
}

/** When a claim that waits was last asked for, and how often. */
interface Asked {
  readonly sentMs: number;
  readonly tries: number;
}

export interface RequestsOptions {
  readonly clock: Clock;
  readonly errors: LayoutErrors;
  readonly own: Own | undefined;
  /** Called when the server may be another one now, before the listener is. */
  readonly doubt?: (() => void) | undefined;
}

export class Requests {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #errors: LayoutErrors;
  readonly #own: Own | undefined;
  readonly #underWay: UnderWay;
  readonly #asked: WeakMap<Claim, Asked> = new WeakMap();
  readonly #stopWatching: () => void;
  #listener: Listener | undefined;
  #wrote = false;
  #closed: Promise<void> | undefined;

  constructor(connection: Connection, { clock, errors, own, doubt }: RequestsOptions) {
    this.#connection = connection;
    this.#clock = clock;
    this.#errors = errors;
    this.#own = own;
    this.#underWay = new UnderWay(clock, errors);
    // The server may be another one now: after a restart or a fail-over it may have lost leases.
    this.#stopWatching = connection.onReconnect(() => {
      doubt?.();
      this.#listener?.doubt();
    });
  }

  get renewer(): Own["renewer"] | undefined {
    return this.#own?.renewer;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
  }

  /** Any request: nothing is sent after the end, and what went wrong has the backend's words. */
  async step<T>(lock: string, ask: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) throw this.#errors.refusal(lock, "this backend is closed");
    try {
      const answer = await ask();
      this.#wrote = true;
      return answer;
    } catch (error) {
      throw this.#errors.toBackendError(error, lock, this.#wrote);
    }
  }

  /** A request that concerns one claim, after the answers to those before it. */
  send<T>(claim: Claim, ask: () => Promise<T>): Promise<T> {
    return this.#underWay.send(claim, ask);
  }

  /** Whether the claim was refused before, and waits. */
  waits(claim: Claim): boolean {
    return this.#asked.has(claim);
  }

  /** The answer is a fence as a text, or what `refused` reads. */
  async attempt(
    claim: Claim,
    ask: () => Promise<unknown>,
    refused: (reply: unknown, tries: number) => Refused,
  ): Promise<Granted | Refused> {
    const before = this.#asked.get(claim);
    const sentMs = this.#clock.now();
    const breaks = this.#connection.breaks();
    const reply = await this.#underWay.send(claim, ask);
    const sentTwice = this.#connection.breaks() !== breaks;
    if (typeof reply === "string" && FENCE.test(reply)) {
      this.#asked.delete(claim);
      return { granted: true, fence: BigInt(reply), run: 1, fromMs: sentMs, sentTwice };
    }
    const tries = (before?.tries ?? -1) + 1;
    this.#asked.set(claim, { sentMs, tries });
    return { ...refused(reply, tries), sentTwice };
  }

  /** Ends when `onEnd` calls back, for what came since the claim was last asked for, or with the signal. */
  watch(
    claim: Claim,
    signal: AbortSignal,
    onEnd: (sinceMs: number, wake: () => void) => () => void,
  ): Promise<undefined> {
    return new Promise((resolve) => {
      const sinceMs = this.#asked.get(claim)?.sentMs ?? this.#clock.now();
      const end = (): void => {
        stop();
        signal.removeEventListener("abort", end);
        resolve(undefined);
      };
      const stop = onEnd(sinceMs, end);
      if (signal.aborted || this.#closed !== undefined) end();
      else signal.addEventListener("abort", end, { once: true });
    });
  }

  /** The answer is 1 or 0. `what`: what is looked for in the store. */
  async release(claim: Claim, what: string, ask: () => Promise<unknown>): Promise<Released> {
    const breaks = this.#connection.breaks();
    const reply = await this.#underWay.send(claim, ask);
    this.#asked.delete(claim);
    if (reply === 1) return "held";
    if (reply !== 0) throw this.#errors.unexpected(claim.name);
    if (this.#connection.breaks() === breaks) return "absent";
    // A client library that repeats a command whose connection ended may get this "no" after a "yes" that was lost; and the server may be
    // another one, which never had the lease.
    throw this.#errors.unknown(
      claim.name,
      `the connection ended during the release, and ${what} is no longer ours. Either the first of two requests released it, or it was over before`,
    );
  }

  /** `stopWaiting`: ends what listens for messages. Rejects if something may be left in the store. */
  close(stopWaiting: () => void): Promise<void> {
    return (this.#closed ??= this.#close(stopWaiting));
  }

  async #close(stopWaiting: () => void): Promise<void> {
    this.#stopWatching();
    stopWaiting();
    const left = await this.#underWay.settled();
    await this.#own?.close();
    if (left !== undefined) throw left;
  }
}
