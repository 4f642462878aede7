/** createLocks(): the verbs. Each checks what it was given, and leaves waiting, holding and renewing to the desk. */
import type {
  AcquireOptions,
  CloseOptions,
  ElectOptions,
  ForceReleaseOptions,
  Lease,
  Locks,
  LocksOptions,
  Work,
} from "./api.ts";
import type { Backend, Snapshot } from "./backend.ts";
import { closeLocks, Running } from "./close.ts";
import { Desk } from "./desk.ts";
import { elect } from "./elect.ts";
import { LockTimeoutError } from "./errors.ts";
import { type AcquireEvent, acquireChannel, forceReleaseChannel } from "./events.ts";
import { GroupLease } from "./group.ts";
import type { HeldLease } from "./lease.ts";
import { Frame } from "./reentry.ts";
import { checkName, type Spec, toPatience, toSpec } from "./spec.ts";
import type { Patience } from "./ticket.ts";
import { checkBackend, checkCreateOptions } from "./check.ts";

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
  #closing: Promise<void> | undefined;

  constructor(backend: Backend, defaults: LocksOptions) {
    this.#defaults = defaults;
    this.#usual = toSpec({}, defaults);
    this.#desk = new Desk(backend, defaults);
  }

  async run<T>(name: Names, optionsOrWork: AcquireOptions | Work<T>, maybeWork?: Work<T>): Promise<T> {
    const work = typeof optionsOrWork === "function" ? optionsOrWork : maybeWork;
    if (typeof work !== "function") throw new TypeError("Expected `run` to get a function as its last argument");
    const spec = this.#spec(typeof optionsOrWork === "function" ? undefined : optionsOrWork);
    const lease = (await this.#take(name, spec, patienceOf(spec))) as AnyLease;
    return await this.#running.track(this.#work(lease, work), lease);
  }

  acquire(name: Names, options?: AcquireOptions): Promise<Lease> {
    return this.#begin(name, options, undefined) as Promise<Lease>;
  }

  tryAcquire(name: Names, options?: AcquireOptions): Promise<Lease | null> {
    return this.#begin(name, options, "try");
  }

  async elect(name: string, work: Work<unknown>, options: ElectOptions = {}): Promise<void> {
    checkName(name);
    if (typeof work !== "function") throw new TypeError("Expected `elect` to get a function as its second argument");
    const spec = { ...this.#spec(options), waitMs: Infinity };
    await elect({
      clock: this.#desk.clock,
      chance: this.#desk.chance,
      signal: spec.signal,
      ttlMs: spec.ttlMs,
      isClosed: () => this.#desk.closed,
      // A candidate stands for itself: it never re-enters a lease of the code that called elect().
      acquire: async () => (await this.#takeFresh(name, spec, "queue", Infinity))!,
      hold: (lease, run) => this.#running.track(new Frame(this, lease).run(run), lease),
      work,
    });
  }

  async query(prefix = ""): Promise<Snapshot> {
    if (typeof prefix !== "string") throw new TypeError(`Expected \`prefix\` to be a string, got ${typeof prefix}`);
    return await this.#desk.backend.query(prefix);
  }

  async forceRelease(name: string, { fence, reason }: ForceReleaseOptions): Promise<boolean> {
    checkName(name);
    if (typeof fence !== "bigint") throw new TypeError(`Expected \`fence\` to be a bigint, got ${typeof fence}`);
    if (typeof reason !== "string" || reason === "")
      throw new TypeError("Expected `reason` to be a text that is not empty");
    const { backend, holder: by } = this.#desk;
    const done = await backend.forceRelease(name, fence, by, reason);
    if (forceReleaseChannel.hasSubscribers) {
      forceReleaseChannel.publish({ backend: backend.name, name, fence, by, reason, done });
    }
    return done;
  }

  close(options: CloseOptions = {}): Promise<void> {
    return (this.#closing ??= closeLocks(this.#desk, this.#running, options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #spec(options: AcquireOptions | undefined): Spec {
    if (options === undefined) return this.#usual;
    if (typeof options !== "object" || options === null)
      throw new TypeError(`Expected \`options\` to be an object, got ${typeof options}`);
    return toPatience(options, this.#usual) ?? toSpec(options, this.#defaults);
  }

  /** The hot path: no async function here, because each costs a promise and a turn of the microtask queue. */
  #begin(name: Names, options: AcquireOptions | undefined, patience: Patience | undefined): Promise<AnyLease | null> {
    try {
      const spec = this.#spec(options);
      return this.#take(name, spec, patience ?? patienceOf(spec));
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  #take(name: Names, spec: Spec, patience: Patience): Promise<AnyLease | null> {
    if (typeof name !== "string") return this.#takeAll(name, spec, patience);
    checkName(name);
    return this.#takeOne(name, spec, patience, spec.waitMs);
  }

  /** All or nothing, always in the same order, so that two who want the same locks never wait for each other. */
  async #takeAll(names: readonly string[], spec: Spec, patience: Patience): Promise<AnyLease | null> {
    if (!Array.isArray(names) || names.length === 0) {
      throw new TypeError("Expected `name` to be a string or an array of at least one string");
    }
    for (const name of names) checkName(name);
    const sorted = [...new Set(names)].toSorted();
    const { clock } = this.#desk;
    const deadlineMs = clock.now() + spec.waitMs;
    const parts: HeldLease[] = [];
    try {
      for (const name of sorted) {
        const waitMs = spec.waitMs === Infinity ? Infinity : Math.max(1, deadlineMs - clock.now());
        const part = await this.#takeOne(name, spec, patience, waitMs);
        if (part === null) {
          await releaseAll(parts);
          return null;
        }
        parts.push(part);
      }
    } catch (error) {
      await releaseAll(parts);
      throw error;
    }
    return parts.length === 1 ? parts[0]! : new GroupLease(parts);
  }

  #takeOne(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    const frame = Frame.of(this, name);
    if (frame !== undefined) return frame.enter(this.#desk.clock, spec, patience, waitMs);
    if (!acquireChannel.hasSubscribers) return this.#takeFresh(name, spec, patience, waitMs);
    return this.#traced(name, spec, patience, waitMs);
  }

  #takeFresh(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    if (spec.renew === "thread") return this.#desk.takeWithThread(name, spec, patience, waitMs);
    return this.#desk.take(name, spec, patience, waitMs);
  }

  #traced(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    const { clock, backend } = this.#desk;
    const event: AcquireEvent = { backend: backend.name, name, mode: spec.mode };
    const startedAtMs = clock.now();
    return acquireChannel.tracePromise(async () => {
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
  }

  /** Runs the function and releases, whatever it does. A loss that nobody was told of is told here. */
  async #work<T>(lease: AnyLease, work: Work<T>): Promise<T> {
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
      await lease.release();
      tellLoss(lease, error);
      throw error;
    }
    await lease.release();
    lease.throwIfUntold();
    return result;
  }
}

function patienceOf(spec: Spec): Patience {
  return spec.waitMs > 0 ? "queue" : "once";
}

/** The work failed, and its lease was lost without its knowing: the loss comes first, the failure is its cause. */
function tellLoss(lease: AnyLease, error: unknown): void {
  const { lost } = lease;
  if (lost !== undefined && lost !== error && lost.cause === undefined) lost.cause = error;
  lease.throwIfUntold();
}

async function releaseAll(parts: readonly HeldLease[]): Promise<void> {
  await Promise.all(parts.map((part) => part.release()));
}
