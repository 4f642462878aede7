/**
 * `renew: "thread"`: holds renewed from a worker thread, so that a blocked event loop does not lose them.
 * The worker writes each confirmation into shared memory; here it is only read, so no message has to get through.
 * A worker that dies is replaced while its holds can still be trusted. It never keeps the process alive; a
 * caller that waits does.
 */
import { Worker } from "node:worker_threads";
import { ArgumentError } from "../contract/argument-error.ts";
import type { Backend, Claim } from "../contract/backend.ts";
import type { Clock } from "../contract/clock.ts";
import { machineMs } from "../contract/machine-clock.ts";
import { formatMs } from "../contract/duration.ts";
import { LockBackendError, LockClosedError, messageOf, quote } from "../contract/errors.ts";
import type { Hold } from "./hold.ts";
import { onAbort } from "../contract/on-abort.ts";
import type { LossReason } from "../contract/loss.ts";
import type { CheckedOptions } from "./options.ts";
import { asked } from "../contract/answer.ts";
import { ThreadSlot } from "./renew-thread-slot.ts";

/** Between two starts, so that a worker that dies at once does not become a busy loop. */
const RESTART_MS = 1000;
/** A worker that cannot renew after this long never will: another one is started. */
const START_MAX_MS = 10_000;

/** What goes to the worker. Instants are of the clock that both threads can read. */
export type ToWorker =
  | {
      readonly keep: Claim;
      /** With which it was granted. */
      readonly fence: bigint;
      /** The memory of a {@link ThreadSlot}. */
      readonly slot: SharedArrayBuffer;
      readonly ttlMs: number;
      readonly untilMs: number;
    }
  | { readonly drop: string }
  /** Ask for it at once. `afresh`: also where an answer is on its way, which may be older than the doubt. */
  | { readonly renew: string; readonly afresh: boolean }
  | { readonly close: true };

export interface WorkerStart {
  readonly module: string;
  readonly data: unknown;
}

/** What comes back: that it is ready, that it cannot be, a certain loss, or why renewals fail. Everything else is in the slot. */
export type FromWorker =
  | { readonly ready: true }
  | { readonly failed: string }
  | { readonly lost: string; readonly reason: LossReason }
  /** So many renewals in a row got no answer. 0: the last one did. */
  | Troubled;

interface Troubled {
  readonly troubled: string;
  readonly failures: number;
  readonly why: string;
}

export class RenewThread {
  readonly #backend: Backend;
  readonly #clock: Clock;
  readonly #lose: (claimId: string, loss: LossReason) => void;
  /** What the worker has to know of each hold: sent again to the next worker. */
  readonly #kept: Map<string, { readonly order: ToWorker; readonly slot: ThreadSlot; readonly hold: Hold }> = new Map();
  #worker: Worker | undefined;
  #ready: Promise<void> | undefined;
  #startedAtMs = -Infinity;
  #restart: unknown;
  #closed = false;

  constructor(backend: Backend, clock: Clock, lose: (claimId: string, loss: LossReason) => void) {
    this.#backend = backend;
    this.#clock = clock;
    this.#lose = lose;
  }

  /** Resolves when the worker can renew: a thread takes longer to start than a short ttl lasts. */
  ready(): Promise<void> {
    // A worker that would not be ended is not started.
    if (this.#closed) return Promise.reject(new Error("the locks are closed"));
    if (this.#ready !== undefined) return this.#ready;
    const ready = asked(() => this.#start());
    this.#ready = ready;
    // Callers that acquire with it learn of a failure; no other has to listen.
    ready.catch(() => this.#ready === ready && this.#ended());
    return ready;
  }

  keep(hold: Hold): void {
    const slot = new ThreadSlot();
    // Both clocks are CLOCK_MONOTONIC; they differ by a constant, read here as closely as two calls allow.
    const offsetMs = this.#clock.now() - machineMs();
    const { fromMs } = hold;
    const fromSharedMs = fromMs - offsetMs;
    slot.confirm(fromSharedMs);
    // The same number back, and not one that is a rounding error later: that would be another confirmation.
    hold.follow(() => (slot.atMs === fromSharedMs ? fromMs : slot.atMs + offsetMs));
    const order: ToWorker = {
      keep: hold.claim,
      fence: hold.firstFence,
      slot: slot.memory,
      ttlMs: hold.ttlMs,
      untilMs: hold.endAtMs - offsetMs,
    };
    this.#kept.set(hold.claim.id, { order, slot, hold });
    // It may have died between its start and the grant.
    if (this.#worker === undefined) this.#startAgain();
    else this.#tell(order);
  }

  drop(hold: Hold): void {
    if (this.#kept.delete(hold.claim.id)) this.#tell({ drop: hold.claim.id });
  }

  /** Asks for this one at once. Unless `afresh`, that is said once, and not again before there is an answer. */
  renewNow(hold: Hold, afresh: boolean): void {
    const slot = this.#kept.get(hold.claim.id)?.slot;
    if (slot === undefined || (slot.isWanted && !afresh)) return;
    slot.want();
    this.#tell({ renew: hold.claim.id, afresh });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#clock.clearTimer(this.#restart);
    this.#tell({ close: true });
    await this.#worker?.terminate();
  }

  #start(): Promise<void> {
    this.#startedAtMs = this.#clock.now();
    const { module, data } = this.#backend.renewer!;
    const workerData: WorkerStart = { module, data };
    // The worker needs none of the flags that the program was started with, and some (`-e`) would stop it.
    const worker = new Worker(new URL("./renew-thread-worker.js", import.meta.url), { workerData, execArgv: [] });
    this.#worker = worker;
    let timer: unknown;
    const ready = new Promise<void>((resolve, reject) => {
      const late = `it has not opened the store within ${formatMs(START_MAX_MS)}`;
      timer = this.#clock.setTimer(() => reject(new Error(late)), START_MAX_MS);
      worker.on("message", (message: FromWorker) => {
        if ("ready" in message) resolve();
        else if ("failed" in message) reject(new Error(message.failed));
        else if ("lost" in message) this.#lose(message.lost, message.reason);
        else this.#noteTrouble(message);
      });
      worker.on("error", reject);
      worker.on("exit", () => {
        reject(new Error("the thread ended"));
        if (this.#worker === worker) this.#ended();
      });
    });
    const inTime = (): void => this.#clock.clearTimer(timer);
    ready.then(inTime, inTime);
    // Last: a listener for messages would keep the process alive again.
    worker.unref();
    for (const { order } of this.#kept.values()) worker.postMessage(order);
    return ready;
  }

  #noteTrouble({ troubled, failures, why }: Troubled): void {
    const hold = this.#kept.get(troubled)?.hold;
    if (hold !== undefined) hold.trouble = failures === 0 ? undefined : { failures, cause: new Error(why) };
  }

  /** The worker is of no use any more, or there never was one. */
  #ended(): void {
    void this.#worker?.terminate();
    this.#worker = undefined;
    this.#ready = undefined;
    this.#startAgain();
  }

  /** Holds that count on the worker get another one, as long as there are any: at once after a long life, because a short ttl does not wait. */
  #startAgain(): void {
    this.#clock.clearTimer(this.#restart);
    if (this.#closed || this.#kept.size === 0) return;
    const pauseMs = Math.max(0, this.#startedAtMs + RESTART_MS - this.#clock.now());
    this.#restart = this.#clock.setTimer(() => {
      if (!this.#closed && this.#kept.size > 0) this.ready().catch(() => {});
    }, pauseMs);
  }

  #tell(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }
}

/** Resolves when the thread can renew: no later than its caller stops waiting, for whatever reason. */
export async function awaitThread(
  thread: RenewThread,
  { backend, clock, closing }: { readonly backend: Backend; readonly clock: Clock; readonly closing: AbortSignal },
  name: string,
  { signal }: CheckedOptions,
  untilMs: number,
): Promise<void> {
  if (closing.aborted) throw new LockClosedError(name);
  if (signal?.aborted === true) throw signal.reason;
  if (backend.renewer === undefined) throw noThread(backend.name, name);
  // Throws where the threads have no clock in common.
  machineMs();
  const stop: (() => void)[] = [];
  try {
    await new Promise<void>((resolve, reject) => {
      const fail = (detail: string, cause?: unknown): void => {
        const message = `Lock ${quote(name)} was not acquired: the thread that should renew it ${detail}.`;
        reject(new LockBackendError(backend.name, name, message, { cause }));
      };
      stop.push(onAbort(closing, () => reject(new LockClosedError(name))));
      stop.push(onAbort(signal, reject));
      let timer: unknown;
      // Keeps the process alive meanwhile: the caller counts on the lock.
      const look = (): void => {
        const leftMs = untilMs - clock.now();
        if (leftMs > 0) timer = clock.setTimer(look, leftMs, true);
        else fail("has not started in time");
      };
      look();
      stop.push(() => clock.clearTimer(timer));
      thread
        .ready()
        .then(resolve, (cause: unknown) => fail(`cannot reach the ${backend.name} store (${messageOf(cause)})`, cause));
    });
  } finally {
    for (const end of stop) end();
  }
}

function noThread(backend: string, name: string): TypeError {
  return new ArgumentError(
    `Expected \`renew\` not to be "thread" for lock ${quote(name)}: the ${backend} backend cannot be renewed from a thread. ` +
      "Open it by URL with connect(), or use `renew: true`.",
  );
}
