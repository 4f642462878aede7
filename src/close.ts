/** The graceful end: stop acquiring, ask the work to stop, wait for it, then release. Never under a running function unless told to. */
import type { CloseOptions, Lease } from "./api.ts";
import type { Clock } from "./clock.ts";
import type { Desk } from "./desk.ts";
import { toMs } from "./duration.ts";
import { LockClosedError } from "./errors.ts";

interface Stoppable extends Lease {
  stop(reason: unknown): void;
}

/** The functions that run under a lease right now. */
export class Running {
  readonly #functions: Map<Promise<unknown>, Stoppable> = new Map();

  async track<T>(running: Promise<T>, lease: Stoppable): Promise<T> {
    this.#functions.set(running, lease);
    try {
      return await running;
    } finally {
      this.#functions.delete(running);
    }
  }

  get names(): readonly string[] {
    return [...this.#functions.values()].map((lease) => lease.name);
  }

  stop(): void {
    for (const lease of this.#functions.values()) lease.stop(new LockClosedError(lease.name));
  }

  /** Resolves to true when none runs any more, to false when `graceMs` has passed. */
  async settled(clock: Clock, graceMs: number): Promise<boolean> {
    let timer: unknown;
    const late = new Promise<false>((resolve) => {
      if (graceMs !== Infinity) timer = clock.setTimer(() => resolve(false), graceMs, true);
    });
    try {
      return await Promise.race([this.#all(), late]);
    } finally {
      clock.clearTimer(timer);
    }
  }

  async #all(): Promise<true> {
    // A function may start another before it ends: look again until none is left.
    while (this.#functions.size > 0) await Promise.allSettled(this.#functions.keys());
    return true;
  }
}

export async function closeLocks(
  desk: Desk,
  running: Running,
  { grace = Infinity, force = false }: CloseOptions,
): Promise<void> {
  const graceMs = toMs(grace, "grace", { minMs: 0, maxMs: Infinity });
  desk.shut();
  running.stop();
  for (const hold of desk.held) {
    for (const borrower of hold.borrowers) borrower.stop(new LockClosedError(borrower.name));
  }
  const settled = await running.settled(desk.clock, graceMs);
  if (!settled && !force) {
    const names = running.names;
    // They keep their leases until they settle; then the rest is closed behind them.
    void running.settled(desk.clock, Infinity).then(() => end(desk));
    throw new LockClosedError(
      names.join(", "),
      `Work under ${names.length} lock(s) (${names.join(", ")}) still runs after the grace period: its leases stay held until it settles. ` +
        "To release them under it, call close({ force: true }).",
    );
  }
  await end(desk);
}

async function end(desk: Desk): Promise<void> {
  await desk.endAll("the locks were closed");
  await desk.stop();
}
