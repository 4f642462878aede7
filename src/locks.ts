/** createLocks(): the verbs. Each checks what it was given, and leaves waiting, holding and renewing to the desk. */
import type {
  AcquireOptions,
  CloseOptions,
  ElectOptions,
  ForceReleaseOptions,
  Lease,
  Locks,
  LocksOptions,
  QueryOptions,
  TryOptions,
  Work,
} from "./api.ts";
import type { Backend, Snapshot } from "./backend.ts";
import { checkBackend, checkCreateOptions, checkReason, got } from "./check.ts";
import { type Call, Closing, Running } from "./close.ts";
import { Desk } from "./desk.ts";
import { elect } from "./elect.ts";
import { isA, LockClosedError, LockLostError, LockTimeoutError } from "./errors.ts";
import { type AcquireEvent, acquireChannel, forceReleaseChannel } from "./events.ts";
import { GroupLease } from "./group.ts";
import type { HeldLease } from "./lease.ts";
import { takeGroup } from "./take-group.ts";
import { askStore } from "./ask-store.ts";
import { Frame } from "./reentry.ts";
import {
  answerMs,
  checkName,
  checkObject,
  type Spec,
  toNames,
  toPatience,
  toQuerySpec,
  toSpec,
  toTrySpec,
} from "./spec.ts";
import type { Patience } from "./ticket.ts";

type Names = string | readonly string[];
type AnyLease = HeldLease | GroupLease;

/** Makes locks over a backend. `defaults` hold for every call that does not say otherwise. */
export function createLocks(backend: Backend, defaults: LocksOptions = {}): Locks {
  checkBackend(backend);
  checkCreateOptions(defaults);
  return new BackendLocks(backend, defaults);
}

class BackendLocks implements Locks {
  readonly #desk: Desk;
  readonly #defaults: LocksOptions;
  readonly #usual: Spec;
  readonly #running: Running = new Running();
  readonly #closing: Closing;

  constructor(backend: Backend, defaults: LocksOptions) {
    this.#defaults = defaults;
    this.#usual = toSpec({}, defaults);
    this.#desk = new Desk(backend, defaults);
    this.#closing = new Closing(this.#desk, this.#running);
  }

  async run<T>(name: Names, optionsOrWork: AcquireOptions | Work<T>, maybeWork?: Work<T>): Promise<T> {
    const work = typeof optionsOrWork === "function" ? optionsOrWork : maybeWork;
    if (typeof work !== "function") throw new TypeError("Expected `run` to get a function as its last argument");
    const spec = this.#spec(typeof optionsOrWork === "function" ? undefined : optionsOrWork);
    // Before anything is waited for: close() waits for this call from here on, whether its work has started or not.
    const names = toNames(name);
    const call = this.#running.begin(String(names));
    try {
      return await this.#work((await this.#take(names, spec, patienceOf(spec)))!, work, call);
    } finally {
      this.#running.end(call);
    }
  }

  acquire(name: Names, options?: AcquireOptions): Promise<Lease> {
    return this.#begin(name, () => this.#spec(options), undefined) as Promise<Lease>;
  }

  tryAcquire(name: Names, options?: TryOptions): Promise<Lease | null> {
    return this.#begin(name, () => toTrySpec(options, this.#usual, this.#defaults), "try");
  }

  async elect(name: string, work: Work<unknown>, options: ElectOptions = {}): Promise<void> {
    checkName(name);
    if (typeof work !== "function") throw new TypeError("Expected `elect` to get a function as its second argument");
    const spec = { ...this.#spec(options), waitMs: Infinity };
    const call = this.#running.begin(name);
    try {
      await elect({
        clock: this.#desk.clock,
        chance: this.#desk.chance,
        signal: spec.signal,
        closing: this.#desk.closing,
        ttlMs: spec.ttlMs,
        // A candidate stands for itself: it never re-enters a lease of the code that called elect().
        acquire: async () => (await this.#takeFresh(name, spec, "queue", Infinity))!,
        hold: (lease, run) => new Frame(this, lease).run(run),
        work,
      });
    } finally {
      this.#running.end(call);
    }
  }

  async query(prefix = "", options: QueryOptions = {}): Promise<Snapshot> {
    if (typeof prefix !== "string") throw new TypeError(`Expected \`prefix\` to be a string, got ${got(prefix)}`);
    const spec = toQuerySpec(options);
    const { backend } = this.#desk;
    const found = await askStore(this.#desk, "query()", spec, () => backend.query(prefix));
    // Text that others wrote, cut to what our own doors let in.
    return (await import("./snapshot.ts")).checkedSnapshot(backend.name, found);
  }

  async forceRelease(name: string, options: ForceReleaseOptions): Promise<boolean> {
    checkName(name);
    const { fence, reason } = checkObject(options);
    if (typeof fence !== "bigint") throw new TypeError(`Expected \`fence\` to be a bigint, got ${got(fence)}`);
    checkReason(reason);
    const { backend, holder: by } = this.#desk;
    const force = (): Promise<boolean> => backend.forceRelease(name, fence, by, reason);
    const done = await askStore(this.#desk, "forceRelease()", toQuerySpec({}), force, name);
    if (typeof done !== "boolean") throw (await import("./mistake.ts")).mistakenForce(backend.name, name, done);
    if (forceReleaseChannel.hasSubscribers) {
      forceReleaseChannel.publish({ backend: backend.name, name, fence, by, reason, done });
    }
    return done;
  }

  close(options: CloseOptions = {}): Promise<void> {
    return this.#closing.close(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #spec(options: AcquireOptions | undefined): Spec {
    if (options === undefined) return this.#usual;
    return toPatience(options, this.#usual) ?? toSpec(options, this.#defaults);
  }

  /** The hot path: no async function here, because each costs a promise and a turn of the microtask queue. */
  #begin(name: Names, toSpecNow: () => Spec, patience: Patience | undefined): Promise<AnyLease | null> {
    try {
      const spec = toSpecNow();
      return this.#take(toNames(name), spec, patience ?? patienceOf(spec));
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  #take(name: Names, asked: Spec, patience: Patience): Promise<AnyLease | null> {
    // `wait: 0` does not queue; the store has its time to answer all the same.
    const spec = patience === "once" ? { ...asked, waitMs: answerMs(asked) } : asked;
    if (typeof name === "string") return this.#takeOne(name, spec, patience, spec.waitMs);
    const take = (one: string, its: Spec, waitMs: number): Promise<HeldLease | null> =>
      this.#takeOne(one, its, patience, waitMs);
    return takeGroup(this.#desk, name, spec, take);
  }

  #takeOne(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    const frame = Frame.of(this, name);
    if (frame !== undefined) return this.#desk.reenter(frame, spec, patience, waitMs);
    if (!acquireChannel.hasSubscribers) return this.#takeFresh(name, spec, patience, waitMs);
    return this.#traced(name, spec, patience, waitMs);
  }

  #takeFresh(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    if (spec.renew === "thread") return this.#desk.takeWithThread(name, spec, patience, waitMs);
    return this.#desk.take(name, spec, patience, waitMs);
  }

  async #traced(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    const { clock, backend } = this.#desk;
    const event: AcquireEvent = { backend: backend.name, name, mode: spec.mode };
    const startedAtMs = clock.now();
    const taken = await acquireChannel.tracePromise(async () => {
      try {
        const lease = await this.#takeFresh(name, spec, patience, waitMs);
        event.outcome = lease === null ? "busy" : "acquired";
        if (lease !== null) event.fence = lease.fence;
        return lease;
      } catch (error) {
        if (spec.signal?.aborted === true && error === spec.signal.reason) event.outcome = "aborted";
        else event.outcome = error instanceof LockTimeoutError ? "timeout" : "error";
        throw error;
      } finally {
        event.waitedMs = clock.now() - startedAtMs;
      }
    }, event);
    // A subscriber may have closed these locks before the caller had its lease.
    if (this.#desk.closed && taken?.lost !== undefined) throw new LockClosedError(name);
    return taken;
  }

  /** Runs the function and releases, whatever it does. What resolves after its lease was lost may not be taken for done. */
  async #work<T>(lease: AnyLease, work: Work<T>, call: Call): Promise<T> {
    const parts = lease instanceof GroupLease ? lease.parts : [lease];
    let inside = (): T | Promise<T> => work(lease);
    for (const part of parts) {
      const outer = inside;
      inside = () => new Frame(this, part).run(outer);
    }
    let result: T;
    try {
      result = await inside();
    } catch (error) {
      // Its own error is what counts, whatever the release comes to.
      attachLoss(error, await this.#finish(lease, call).catch(() => undefined));
      throw error;
    }
    const lost = await this.#finish(lease, call);
    if (lost === undefined) return result;
    lost.result = result;
    throw lost;
  }

  /** The work has settled, so that close() need not wait for it any more: only for the release, which is on its way. */
  #finish(lease: AnyLease, call: Call): Promise<LockLostError | undefined> {
    const finishing = lease.finish();
    this.#running.end(call);
    return finishing;
  }
}

function patienceOf(spec: Spec): Patience {
  return spec.waitMs > 0 ? "queue" : "once";
}

/** Work that fails keeps its own error. A loss meanwhile is named as its cause, where it has none. */
function attachLoss(error: unknown, lost: LockLostError | undefined): void {
  if (lost === undefined || !isA(Error, error) || isA(LockLostError, error)) return;
  try {
    if (error.cause === undefined) error.cause = lost;
  } catch {
    // Frozen, or with a getter: it stays as it is.
  }
}
