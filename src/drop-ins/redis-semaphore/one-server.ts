/** A lock in the keys of redis-semaphore on one server. */
import { performance } from "node:perf_hooks";
import { systemClock } from "../../contract/clock.ts";
import { within } from "../../contract/time-limit.ts";
import { type AnyClient, run, runText, toCount, toTaken, TTL_MIN_MS } from "../rolling/run-script.ts";
import type { Layout } from "./layout.ts";
import type { AcquireOptions } from "./options.ts";
import { type Grant, type Place, trustMs, tryRepeatedly, type Wish } from "./place.ts";

export class OneServer implements Place {
  readonly #client: AnyClient;
  readonly #layout: Layout;
  readonly #ttlMs: number;

  constructor(client: AnyClient, layout: Layout, ttlMs: number) {
    this.#client = client;
    this.#layout = layout;
    this.#ttlMs = ttlMs;
  }

  async acquire(options: AcquireOptions, wish: Wish): Promise<Grant | undefined> {
    return await tryRepeatedly(options, wish.signal, () => this.#try(wish));
  }

  async refresh(): Promise<boolean> {
    return toCount(await run(this.#client, this.#layout.refresh)) === 1;
  }

  async release(): Promise<void> {
    const limitMs = Math.max(TTL_MIN_MS, this.#ttlMs);
    const answer = await within(systemClock, this.#answer(run(this.#client, this.#layout.release)), limitMs);
    if (answer === undefined) throw new Error(`No answer within ${limitMs} ms.`);
  }

  /** An answer that comes after the lock's time is none. What it took is given back, and so is what is no longer waited for. */
  async #try({ signal, isOurs }: Wish): Promise<Grant | undefined> {
    const sentMs = performance.now();
    const untilMs = sentMs + trustMs(this.#ttlMs);
    let isOver = false;
    const asked = this.#answer(run(this.#client, this.#layout.take(isOurs()), () => isOver));
    const answer = await within(systemClock, asked, Math.max(TTL_MIN_MS, untilMs - sentMs), signal).catch(
      (error: unknown) => {
        this.#giveBack();
        throw error;
      },
    );
    isOver = true;
    const isAborted = signal?.aborted === true;
    const taken = answer === undefined ? undefined : toTaken(answer.reply);
    if (taken?.count === 1 && performance.now() < untilMs && !isAborted) return { sentMs, fence: taken.fence };
    if (taken === undefined || taken.count === 1) this.#giveBack();
    if (isAborted) throw signal.reason;
    return undefined;
  }

  /** So that a reply of any kind differs from none. */
  async #answer(reply: Promise<unknown>): Promise<{ readonly reply: unknown }> {
    return { reply: await reply };
  }

  /** As text: a second question for it would come after the next try, and take that away. */
  #giveBack(): void {
    runText(this.#client, this.#layout.release).catch(() => {});
  }
}
