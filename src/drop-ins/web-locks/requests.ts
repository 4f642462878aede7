/**
 * The requests of one manager: each takes its lock, runs its callback, and gives the lock back. All waiting is done by the locks below: first
 * come, first served, in one queue per name. What the standard wants on top is here: no re-entry, the place of a steal among the requests of
 * this manager, and snapshots that show what was requested before them.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { isA, LockClosedError, LockLostError } from "../../contract/errors.ts";
import { onAbort } from "../../contract/on-abort.ts";
import { systemChance } from "../../contract/random.ts";
import type { Lease, Locks } from "../../core/api.ts";
import { takeByClaim } from "../../core/by-claim.ts";
import { type Inside, insides, withoutReentry } from "../../core/inside.ts";
import type { WebLockSnapshot } from "./api.ts";
import type { Asked } from "./arguments.ts";
import { domError } from "./dom-error.ts";
import { toLock } from "./lock.ts";
import { toLockName } from "./names.ts";
import { CLIENT, toSnapshot } from "./snapshot.ts";

/** For how long a snapshot or a steal waits until it is known whether earlier requests are granted or queued. */
const UNDECIDED_MAX_MS = 5000;
const LOOK_MS = 1;
const STOLEN = "stolen by a request of Web Locks";

interface Waiting {
  readonly name: string;
  /** It stands in the queue in front of the lock. */
  queues: boolean;
}

export class Requests {
  readonly #locks: Locks;
  readonly #inside: Inside | undefined;
  readonly #meta = { [CLIENT]: randomUUID() };
  /** Not granted, refused or given up yet. */
  readonly #waiting = new Set<Waiting>();
  /** By name, while a steal is on its way or requests stand behind it: until the last of them has begun. */
  readonly #turns = new Map<string, Promise<void>>();

  constructor(locks: Locks) {
    this.#locks = locks;
    this.#inside = insides.get(locks);
  }

  make(asked: Asked): Promise<unknown> {
    const name = toLockName(asked.name);
    const call = { name };
    // close() waits for the callback, as it does for the function of a run().
    this.#inside?.running.calls.add(call);
    const stop = new AbortController();
    return new Promise((resolve, reject) => {
      const unlisten = onAbort(asked.signal, (reason) => {
        reject(reason);
        // Its place goes to the next only after a steal that was made before: else that would rob the next.
        const turn = this.#turns.get(name);
        if (turn === undefined) stop.abort(reason);
        else void turn.then(() => stop.abort(reason));
      });
      this.#serve(asked, name, stop.signal, unlisten, reject)
        .finally(() => this.#inside?.running.end(call))
        .then(resolve, (error: unknown) => {
          unlisten();
          reject(toStandard(error));
        });
    });
  }

  async query(): Promise<WebLockSnapshot> {
    await this.#decided([...this.#waiting]);
    return toSnapshot(await this.#locks.query());
  }

  async #serve(
    asked: Asked,
    name: string,
    stop: AbortSignal,
    unlisten: () => void,
    reject: (error: unknown) => void,
  ): Promise<unknown> {
    const lease = await this.#take(asked, name, stop);
    if (lease === null) return await asked.callback.call(undefined, null);
    if (asked.signal?.aborted === true) {
      await lease.release();
      throw asked.signal.reason;
    }
    // From here on the signal does not matter.
    unlisten();
    // At once, though the callback goes on: whatever that comes to does not matter then.
    const stopListening = onAbort(lease.signal, (why) => isA(LockLostError, why) && reject(toBroken(why)));
    return await this.#work(asked, lease).finally(stopListening);
  }

  async #work({ callback, name, mode }: Asked, lease: Lease): Promise<unknown> {
    let result: unknown;
    try {
      result = await callback.call(undefined, toLock(name, mode, lease));
    } catch (error) {
      await lease.release();
      throw error;
    }
    // Rejects where the lease was lost before: then what was done may not be taken for done.
    await lease[Symbol.asyncDispose]();
    return result;
  }

  /** Requests keep their order: what stands behind a steal begins when that has its lock. */
  async #take(asked: Asked, name: string, stop: AbortSignal): Promise<Lease | null> {
    const waiting: Waiting = { name, queues: false };
    const before = this.#turns.get(name);
    let open: (() => void) | undefined;
    const isUnsure = asked.ifAvailable && asked.mode === "shared" && this.#hasWaiters(name);
    if (before !== undefined || asked.steal || isUnsure) {
      const turn = new Promise<void>((resolve) => (open = resolve));
      this.#turns.set(name, turn);
      void turn.then(() => this.#turns.get(name) === turn && this.#turns.delete(name));
    }
    try {
      // Those that are made before a steal are waited for by it; it is none of them itself.
      const earlier = [...this.#waiting];
      this.#waiting.add(waiting);
      if (before !== undefined) await before;
      asked.signal?.throwIfAborted();
      if (asked.steal) return await this.#steal(name, earlier);
      if (isUnsure) {
        await this.#decided([{ name, queues: true }]);
        if (this.#hasWaiters(name)) return null;
      }
      const taking = this.#ask(asked, name, stop);
      waiting.queues = !asked.ifAvailable;
      open?.();
      return await taking;
    } finally {
      this.#waiting.delete(waiting);
      open?.();
    }
  }

  #ask({ mode, ifAvailable }: Asked, name: string, signal: AbortSignal): Promise<Lease | null> {
    const options = { mode, limit: 1, meta: this.#meta, signal };
    return withoutReentry(this.#locks, name, () =>
      ifAvailable ? this.#locks.tryAcquire(name, options) : this.#locks.acquire(name, { ...options, wait: Infinity }),
    );
  }

  async #steal(name: string, earlier: readonly Waiting[]): Promise<Lease | null> {
    if (this.#inside === undefined)
      throw domError("NotSupportedError", "The steal option is only supported by locks of createLocks() or connect()");
    const { name: backend, can } = this.#inside.engine.backend;
    if (can?.steal !== true)
      throw domError(
        "NotSupportedError",
        `The ${backend} store cannot steal: ${can?.steal ?? "it does not say that it can"}`,
      );
    await this.#decided(earlier.filter((one) => one.name === name));
    const options = { mode: "exclusive", limit: 1, meta: this.#meta } as const;
    return await takeByClaim(this.#inside, name, options, { id: systemChance.id(), stealsFor: STOLEN });
  }

  /** Waits until each of these has its lock, or is known to wait for another holder: as if they had been decided one after the other. */
  async #decided(requests: readonly Waiting[]): Promise<void> {
    const untilMs = performance.now() + UNDECIDED_MAX_MS;
    let undecided = requests;
    while (undecided.length > 0 && performance.now() < untilMs) {
      await pause(LOOK_MS);
      undecided = undecided.filter((one) => this.#isUndecided(one));
    }
  }

  #isUndecided(one: Waiting): boolean {
    if (!one.queues) return this.#waiting.has(one);
    const queue = this.#inside?.engine.queueOf(one.name);
    return queue !== undefined && (queue.isAsking || queue.isHeldUp);
  }

  /** A request of this process waits: one that would share the lock comes after it. */
  #hasWaiters(name: string): boolean {
    const { requests = [] } = this.#inside?.engine.queueOf(name)?.waiting ?? {};
    return requests.length > 0;
  }
}

/** What the standard has no word for stays what it is. */
function toStandard(error: unknown): unknown {
  if (isA(LockClosedError, error)) return domError("InvalidStateError", error.message, error);
  return isA(LockLostError, error) ? toBroken(error) : error;
}

/** A lease that is lost is what a stolen lock is in the standard: its callback goes on, and its request fails. */
function toBroken(lost: LockLostError): DOMException {
  return domError("AbortError", lost.message, lost);
}
