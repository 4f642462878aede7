/** A lock in the keys of redis-semaphore on one server. */
import { performance } from "node:perf_hooks";
import { type AnyClient, run, toCount, toTaken } from "../rolling/run-script.ts";
import type { Layout } from "./layout.ts";
import type { AcquireOptions } from "./options.ts";
import { type Grant, type Place, tryRepeatedly } from "./place.ts";

export class OneServer implements Place {
  readonly #client: AnyClient;
  readonly #layout: Layout;

  constructor(client: AnyClient, layout: Layout) {
    this.#client = client;
    this.#layout = layout;
  }

  async acquire(options: AcquireOptions, signal: AbortSignal | undefined): Promise<Grant | undefined> {
    return await tryRepeatedly(options, signal, async () => {
      const sentMs = performance.now();
      const { count, fence } = toTaken(await run(this.#client, this.#layout.take));
      return count === 1 ? { sentMs, fence } : undefined;
    });
  }

  async refresh(): Promise<boolean> {
    return toCount(await run(this.#client, this.#layout.refresh)) === 1;
  }

  async release(): Promise<void> {
    await run(this.#client, this.#layout.release);
  }
}
