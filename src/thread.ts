/**
 * `renew: "thread"`: holds renewed from a worker thread, so that a blocked event loop does not lose them.
 * The worker writes each confirmation into shared memory; here it is only read, so no message has to get through.
 */
import { Worker } from "node:worker_threads";
import type { Backend, Claim } from "./backend.ts";
import type { Clock } from "./clock.ts";
import type { Hold } from "./hold.ts";

/** What goes to the worker. Instants are of its own monotonic clock, which `offsetMs` relates to ours. */
export type ToWorker =
  | { readonly keep: Claim; readonly slot: SharedArrayBuffer; readonly ttlMs: number; readonly untilMs: number }
  | { readonly drop: string }
  | { readonly close: true };

export interface WorkerStart {
  readonly module: string;
  readonly data: unknown;
}

/** What comes back: that it is ready, that it cannot be, or a certain loss. Everything else is in the slot. */
export type FromWorker =
  | { readonly ready: true }
  | { readonly failed: unknown }
  | { readonly lost: string; readonly reason: string };

export class RenewThread {
  /** Resolves when the worker can renew: a thread takes longer to start than a short ttl lasts. */
  readonly ready: Promise<void>;
  readonly #worker: Worker;
  readonly #clock: Clock;

  constructor(backend: Backend, clock: Clock, lose: (claimId: string, reason: string) => void) {
    this.#clock = clock;
    const workerData: WorkerStart = { module: backend.renewer!.module, data: backend.renewer!.data };
    // The worker needs none of the flags that the program was started with, and some (`-e`) would stop it.
    this.#worker = new Worker(new URL("./thread-worker.js", import.meta.url), { workerData, execArgv: [] });
    this.ready = new Promise((resolve, reject) => {
      this.#worker.on("message", (message: FromWorker) => {
        if ("ready" in message) resolve();
        else if ("failed" in message) reject(message.failed as Error);
        else lose(message.lost, message.reason);
        // From here on only held leases are at stake, and those keep no process alive.
        this.#worker.unref();
      });
      // A worker that died renews nothing: each hold then ends at its own instant, with its own signal.
      this.#worker.on("error", reject);
    });
    // Whoever acquires with it is told; nobody else has to listen.
    this.ready.catch(() => {});
  }

  keep(hold: Hold): void {
    const slot = new SharedArrayBuffer(8);
    const view = new Float64Array(slot);
    // Both clocks are CLOCK_MONOTONIC; they differ by a constant, read here as closely as two calls allow.
    const offsetMs = this.#clock.now() - Number(process.hrtime.bigint()) / 1e6;
    view[0] = hold.fromMs - offsetMs;
    hold.follow(() => view[0]! + offsetMs);
    this.#tell({ keep: hold.claim, slot, ttlMs: hold.ttlMs, untilMs: hold.endAtMs - offsetMs });
  }

  drop(hold: Hold): void {
    this.#tell({ drop: hold.claim.id });
  }

  async close(): Promise<void> {
    this.#tell({ close: true });
    await this.#worker.terminate();
  }

  #tell(message: ToWorker): void {
    this.#worker.postMessage(message);
  }
}
