/**
 * `renew: "thread"`: holds renewed from a worker thread, so that a blocked event loop does not lose them.
 * The worker writes each confirmation into shared memory; here it is only read, so no message has to get through.
 * A worker that dies is replaced while its holds can still be trusted.
 */
import { Worker } from "node:worker_threads";
import type { Backend, Claim } from "./backend.ts";
import type { Clock } from "./clock.ts";
import type { Hold } from "./hold.ts";

/** Between two starts, so that a worker that dies at once does not become a busy loop. */
const RESTART_MS = 1000;

/** What goes to the worker. Instants are of its own monotonic clock, which `offsetMs` relates to ours. */
export type ToWorker =
  | {
      readonly keep: Claim;
      /** With which it was granted. */
      readonly fence: bigint;
      /** Two numbers: when the request left that last confirmed the lease, and how far the wall clock was ahead then. */
      readonly slot: SharedArrayBuffer;
      readonly ttlMs: number;
      readonly untilMs: number;
    }
  | { readonly drop: string }
  | { readonly renew: string }
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
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #lose: (claimId: string, reason: string) => void;
  /** What the worker has to know of each hold: told again to the next worker. */
  readonly #kept: Map<string, ToWorker> = new Map();
  #worker: Worker | undefined;
  #ready: Promise<void> | undefined;
  #restart: unknown;
  #closed = false;

  constructor(backend: Backend, clock: Clock, lose: (claimId: string, reason: string) => void) {
    this.#backend = backend;
    this.#clock = clock;
    this.#lose = lose;
  }

  /** Resolves when the worker can renew: a thread takes longer to start than a short ttl lasts. */
  ready(): Promise<void> {
    return (this.#ready ??= this.#start());
  }

  keep(hold: Hold): void {
    const slot = new SharedArrayBuffer(16);
    const view = new Float64Array(slot);
    // Both clocks are CLOCK_MONOTONIC; they differ by a constant, read here as closely as two calls allow.
    const offsetMs = this.#clock.now() - Number(process.hrtime.bigint()) / 1e6;
    view[0] = hold.fromMs - offsetMs;
    view[1] = hold.wallLeadMs + offsetMs;
    hold.follow(() => ({ atMs: view[0]! + offsetMs, wallLeadMs: view[1]! - offsetMs }));
    const order: ToWorker = {
      keep: hold.claim,
      fence: hold.firstFence,
      slot,
      ttlMs: hold.ttlMs,
      untilMs: hold.endAtMs - offsetMs,
    };
    this.#kept.set(hold.claim.id, order);
    this.#tell(order);
  }

  drop(hold: Hold): void {
    if (this.#kept.delete(hold.claim.id)) this.#tell({ drop: hold.claim.id });
  }

  /** Asks for this one at once. */
  renewNow(hold: Hold): void {
    this.#tell({ renew: hold.claim.id });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#clock.clearTimer(this.#restart);
    this.#tell({ close: true });
    await this.#worker?.terminate();
  }

  #start(): Promise<void> {
    const { module, data } = this.#backend.renewer!;
    const workerData: WorkerStart = { module, data };
    // The worker needs none of the flags that the program was started with, and some (`-e`) would stop it.
    const worker = new Worker(new URL("./thread-worker.js", import.meta.url), { workerData, execArgv: [] });
    this.#worker = worker;
    const ready = new Promise<void>((resolve, reject) => {
      worker.on("message", (message: FromWorker) => {
        if ("ready" in message) resolve();
        else if ("failed" in message) reject(message.failed as Error);
        else this.#lose(message.lost, message.reason);
        // From here on only held leases are at stake, and those keep no process alive.
        worker.unref();
      });
      worker.on("error", reject);
      worker.on("exit", () => {
        reject(new Error("the thread ended"));
        this.#ended(worker);
      });
    });
    // Whoever acquires with it learns of a failure; nobody else has to listen.
    ready.catch(() => this.#ended(worker));
    for (const order of this.#kept.values()) worker.postMessage(order);
    return ready;
  }

  /** The worker is of no use any more. Holds that count on it get another one, as long as there are any. */
  #ended(worker: Worker): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    this.#ready = undefined;
    void worker.terminate();
    if (this.#closed || this.#kept.size === 0) return;
    this.#restart = this.#clock.setTimer(() => {
      if (this.#closed || this.#kept.size === 0) return;
      this.ready().catch(() => {});
    }, RESTART_MS);
  }

  #tell(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }
}
