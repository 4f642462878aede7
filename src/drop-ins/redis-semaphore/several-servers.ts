/** A lock in the keys of redis-semaphore on several independent servers: held with a majority of them. */
import { performance } from "node:perf_hooks";
import { type AnyClient, type Call, run, toTaken } from "../rolling/run-script.ts";
import type { Layout } from "./layout.ts";
import type { AcquireOptions } from "./options.ts";
import { type Grant, type Place, tryRepeatedly } from "./place.ts";

/** How long those who have not answered are waited for, once the others have decided. */
const STRAGGLERS_MS = 100;

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

  async acquire(options: AcquireOptions, signal: AbortSignal | undefined): Promise<Grant | undefined> {
    return await tryRepeatedly(options, signal, async () => {
      const sentMs = performance.now();
      const { did, didNot } = await this.#ask(this.#layout.take, this.#clients);
      // A majority that came together after the first of its locks was over is none.
      if (did.size >= this.#majority && performance.now() - sentMs < this.#ttlMs) return { sentMs, fence: undefined };
      // A server that refused may have the lock from before.
      await this.#ask(this.#layout.release, this.#without(didNot));
      return undefined;
    });
  }

  async refresh(): Promise<boolean> {
    const releases = this.#releases;
    const { did } = await this.#ask(this.#layout.refresh, this.#clients);
    if (did.size < this.#majority) {
      await this.release();
      return false;
    }
    // A server that has lost it, or was away when it was taken; not one from which it was released meanwhile.
    if (releases === this.#releases) await this.#ask(this.#layout.take, this.#without(did));
    return true;
  }

  async release(): Promise<void> {
    this.#releases++;
    await this.#ask(this.#layout.release, this.#clients);
  }

  #without(some: ReadonlySet<AnyClient>): readonly AnyClient[] {
    return this.#clients.filter((client) => !some.has(client));
  }

  /** A server that fails is in neither set; nor is one that has not answered soon after the others have decided. */
  async #ask(call: Call, clients: readonly AnyClient[]): Promise<Answers> {
    const did = new Set<AnyClient>();
    const didNot = new Set<AnyClient>();
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      let open = clients.length;
      const answered = (): void => {
        open--;
        const isDecided = did.size >= this.#majority || did.size + open < this.#majority;
        if (open === 0) resolve();
        else if (isDecided) timer ??= setTimeout(resolve, STRAGGLERS_MS);
      };
      if (open === 0) resolve();
      for (const client of clients) {
        const counted = run(client, call).then((reply) => {
          (toTaken(reply).count > 0 ? did : didNot).add(client);
        });
        counted.then(answered, answered);
      }
    });
    clearTimeout(timer);
    return { did: new Set(did), didNot: new Set(didNot) };
  }
}

interface Answers {
  readonly did: ReadonlySet<AnyClient>;
  readonly didNot: ReadonlySet<AnyClient>;
}
