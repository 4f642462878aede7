/**
 * Re-entry: a run() or acquire() inside the function of a run() on the same lock takes part in the lease it is already
 * in: same fence, released when all are. Siblings started in parallel inside one holder take turns.
 *
 * Only functions open a context. A lease from acquire() does not: it would leak into whatever its caller does next,
 * and two unrelated workers would find themselves inside each other's lease.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Mode } from "./backend.ts";
import type { Clock } from "./clock.ts";
import { LockTimeoutError, quote } from "./errors.ts";
import type { HeldLease } from "./lease.ts";
import type { Spec } from "./spec.ts";
import type { Patience } from "./ticket.ts";

const contexts = new AsyncLocalStorage<Frame>();
let opened = false;

interface Sibling {
  readonly mode: Mode;
  enter: () => void;
}

/** One lock held by the function that is running. */
export class Frame {
  readonly locks: object;
  readonly lease: HeldLease;
  readonly #parent: Frame | undefined;
  #ended = false;
  readonly #inside: Set<Sibling> = new Set();
  readonly #line: Sibling[] = [];

  constructor(locks: object, lease: HeldLease) {
    this.locks = locks;
    this.lease = lease;
    this.#parent = contexts.getStore();
  }

  /** Runs the holder's function in this context. */
  async run<T>(work: () => T | Promise<T>): Promise<T> {
    opened = true;
    try {
      return await contexts.run(this, work);
    } finally {
      this.#ended = true;
    }
  }

  /** The innermost running holder of `name`, seen from the code that asks. */
  static of(locks: object, name: string): Frame | undefined {
    // Asking costs nothing until somebody has opened a context.
    if (!opened) return undefined;
    for (let frame = contexts.getStore(); frame !== undefined; frame = frame.#parent) {
      if (frame.locks === locks && frame.lease.name === name && !frame.#ended) return frame;
    }
    return undefined;
  }

  /** Takes part in the lease, in turn with siblings. Resolves to null when it may not wait and a sibling is inside. */
  async enter(clock: Clock, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    this.#throwIfImpossible(spec.mode);
    if (this.lease.lost !== undefined) throw this.lease.lost;
    const sibling: Sibling = { mode: spec.mode, enter: () => {} };
    if (this.#line.length === 0 && this.#mayEnter(spec.mode)) this.#inside.add(sibling);
    else if (patience === "try") return null;
    else if (patience === "once") throw new LockTimeoutError(this.lease.name, 0);
    else await this.#queue(clock, spec, waitMs, sibling);
    const leave = (): void => {
      this.#inside.delete(sibling);
      this.#admit();
    };
    if (this.lease.lost !== undefined) {
      leave();
      throw this.lease.lost;
    }
    return this.lease.share(leave);
  }

  #throwIfImpossible(mode: Mode): void {
    if (mode === "exclusive" && this.lease.mode === "shared") {
      throw new TypeError(
        `Expected \`mode\` to be "shared": lock ${quote(this.lease.name)} is held in shared mode by the function that asks, ` +
          "and would wait for itself. Release it first, or take it in exclusive mode from the start.",
      );
    }
  }

  #mayEnter(mode: Mode): boolean {
    for (const sibling of this.#inside) {
      if (mode === "exclusive" || sibling.mode === "exclusive") return false;
    }
    return true;
  }

  async #queue(clock: Clock, spec: Spec, waitMs: number, sibling: Sibling): Promise<void> {
    const { signal } = spec;
    let quit: (error: unknown) => void = () => {};
    const abort = (): void => quit(signal!.reason);
    let timer: unknown;
    try {
      await new Promise<void>((resolve, reject) => {
        sibling.enter = resolve;
        quit = (error) => {
          const place = this.#line.indexOf(sibling);
          if (place < 0) return;
          this.#line.splice(place, 1);
          reject(error as Error);
          this.#admit();
        };
        this.#line.push(sibling);
        if (waitMs !== Infinity)
          timer = clock.setTimer(() => quit(new LockTimeoutError(this.lease.name, waitMs)), waitMs, true);
        signal?.addEventListener("abort", abort, { once: true });
        if (signal?.aborted === true) abort();
      });
    } finally {
      clock.clearTimer(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Lets the next sibling in, or several where they share. */
  #admit(): void {
    for (let next = this.#line[0]; next !== undefined && this.#mayEnter(next.mode); next = this.#line[0]) {
      this.#line.shift();
      this.#inside.add(next);
      next.enter();
    }
  }
}
