/** A lock in the keys of redis-semaphore on several independent servers: held with a majority of them. */
import { performance } from "node:perf_hooks";
import { type AnyClient, run, runText, toTaken } from "../rolling/run-script.ts";
import type { Layout } from "./layout.ts";
import type { AcquireOptions } from "./options.ts";
import { type Grant, type Place, trustMs, tryRepeatedly, UnknownError, type Wish } from "./place.ts";

/** How long those who have not answered are waited for, once the others have decided. */
const STRAGGLERS_MS = 100;
/** Of the lock's time: how long an answer is waited for at most, also where nothing is decided without it. */
const ANSWER_PART = 0.2;
/** The longest that a timer can wait. */
const TIMER_MAX_MS = 2 ** 31 - 1;

export class SeveralServers implements Place {
  readonly #clients: readonly AnyClient[];
  readonly #layout: Layout;
  readonly #ttlMs: number;
  readonly #majority: number;
  #releases = 0;

  constructor(clients: readonly AnyClient[], layout: Layout, ttlMs: number) {
    this.#clients = clients;
    this.#layout = layout;
    this.#ttlMs = ttlMs;
    this.#majority = Math.floor(clients.length / 2) + 1;
  }

  async acquire(options: AcquireOptions, { signal, isOurs }: Wish): Promise<Grant | undefined> {
    return await tryRepeatedly(options, signal, async () => {
      const sentMs = performance.now();
      const call = this.#layout.take(isOurs());
      let isOver = false;
      const { did, didNot } = await this.#ask(this.#clients, (client) => run(client, call, () => isOver), signal);
      isOver = true;
      const isAborted = signal?.aborted === true;
      // A majority that came together after the first of its locks was over is none.
      const isInTime = performance.now() - sentMs < trustMs(this.#ttlMs);
      if (did.size >= this.#majority && isInTime && !isAborted) return { sentMs, fence: undefined };
      // A server that refused may have the lock from before.
      const givenBack = this.#giveBack(this.#without(didNot));
      if (isAborted) throw signal.reason;
      await givenBack;
      return undefined;
    });
  }

  async refresh(): Promise<boolean> {
    const releases = this.#releases;
    const { did, didNot } = await this.#ask(this.#clients, (client) => run(client, this.#layout.refresh));
    if (did.size >= this.#majority) {
      // A server that has lost it, or was away when it was taken; not one from which it was released meanwhile.
      const isOver = (): boolean => releases !== this.#releases;
      const call = this.#layout.take(false);
      if (!isOver()) for (const client of this.#without(did)) run(client, call, isOver).catch(() => {});
      return true;
    }
    // Who did not answer may have it.
    if (this.#clients.length - didNot.size >= this.#majority) throw new UnknownError();
    await this.release();
    return false;
  }

  async release(): Promise<void> {
    this.#releases++;
    await this.#giveBack(this.#clients);
  }

  /** As text: a second question for it would come after the next try, and take that away. */
  async #giveBack(clients: readonly AnyClient[]): Promise<void> {
    await this.#ask(clients, (client) => runText(client, this.#layout.release));
  }

  #without(some: ReadonlySet<AnyClient>): readonly AnyClient[] {
    return this.#clients.filter((client) => !some.has(client));
  }

  /** A server that fails is in neither set; nor is one that has not answered in time, or soon after the others have decided. */
  async #ask(
    clients: readonly AnyClient[],
    question: (client: AnyClient) => Promise<unknown>,
    signal?: AbortSignal,
  ): Promise<Answers> {
    const did = new Set<AnyClient>();
    const didNot = new Set<AnyClient>();
    const over = new AbortController();
    await new Promise<void>((resolve) => {
      const end = (): void => resolve();
      const limitMs = Math.min(TIMER_MAX_MS, Math.max(STRAGGLERS_MS, this.#ttlMs * ANSWER_PART));
      const timers = [setTimeout(end, limitMs)];
      over.signal.addEventListener("abort", () => timers.forEach(clearTimeout));
      signal?.addEventListener("abort", end, { signal: over.signal });
      let open = clients.length;
      const answered = (): void => {
        if (over.signal.aborted) return;
        open--;
        const isDecided = did.size >= this.#majority || did.size + open < this.#majority;
        if (open === 0) resolve();
        else if (isDecided && timers.length === 1) timers.push(setTimeout(end, STRAGGLERS_MS));
      };
      if (open === 0) resolve();
      for (const client of clients) {
        const counted = question(client).then((reply) => {
          (toTaken(reply).count > 0 ? did : didNot).add(client);
        });
        counted.then(answered, answered);
      }
    });
    over.abort();
    return { did: new Set(did), didNot: new Set(didNot) };
  }
}

interface Answers {
  readonly did: ReadonlySet<AnyClient>;
  readonly didNot: ReadonlySet<AnyClient>;
}
