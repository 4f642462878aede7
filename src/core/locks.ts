/** createLocks(): the verbs. Each checks what it was given, and leaves waiting, holding and renewing to the engine. */
import type {
  AcquireOptions,
  CloseOptions,
  ElectOptions,
  ForceReleaseOptions,
  LeaseOf,
  LockNames,
  Locks,
  LockSnapshot,
  LocksOptions,
  LocksSnapshot,
  ForgetOptions,
  OnceOptions,
  OnceResult,
  OutcomeOptions,
  OutcomeState,
  QueryOptions,
  TryOptions,
  TryRunResult,
  Work,
} from "./api.ts";
import type { Contention, ContentionOptions } from "./contention-api.ts";
import { ArgumentError, got } from "../contract/argument-error.ts";
import type { Backend } from "../contract/backend.ts";
import { attachLoss, type Call, Closing, Running } from "./close.ts";
import type { DeadlockWatch } from "./deadlocks.ts";
import { Engine } from "./engine.ts";
import { elect } from "./election.ts";
import { isA, type LockLostError, LockTimeoutError } from "../contract/errors.ts";
import { forceReleaseChannel } from "../contract/events.ts";
import { isHeard } from "./hold-events.ts";
import { withoutLinger } from "./linger-option.ts";
import type { MultiLease } from "./multi-lease.ts";
import type { HeldLease } from "./lease.ts";
import { acquireAll } from "./acquire-all.ts";
import { askStore } from "./ask-store.ts";
import { insides } from "./inside.ts";
import { checkBackend, checkCreateOptions, checkWho, lingerable, possible } from "./create-options.ts";
import { Scope } from "./reentry.ts";
import {
  answerMs,
  checkName,
  checkObject,
  type CheckedOptions,
  toNames,
  onlyWaitOf,
  toQuerySpec,
  checkOptions,
  checkReason,
  checkTryOptions,
} from "./options.ts";
import type { Request, WaitMode } from "./request.ts";
import { announced, partsOf, takeTraced } from "./traced.ts";
import { optionsAndWork } from "./work-arguments.ts";

type Taken = HeldLease | MultiLease;

/** Makes locks over a backend. `defaults` hold for every call that does not say otherwise. */
export function createLocks(backend: Backend, defaults: LocksOptions = {}): Locks {
  checkBackend(backend);
  checkCreateOptions(defaults);
  return new BackendLocks(backend, defaults);
}

class BackendLocks implements Locks {
  readonly #engine: Engine;
  readonly #defaults: LocksOptions;
  readonly #usual: CheckedOptions;
  /** The usual ones with the wait of the last call that said no more: the next one mostly says the same. */
  #waiting: CheckedOptions | undefined;
  readonly #running: Running = new Running();
  readonly #closing: Closing;
  #deadlocks: Promise<DeadlockWatch> | undefined;

  constructor(backend: Backend, defaults: LocksOptions) {
    this.#defaults = defaults;
    this.#usual = possible(checkOptions({}, defaults), backend);
    this.#engine = new Engine(backend, defaults);
    if (backend.can?.waiters === true) this.#engine.onLongWait = (request) => this.#look(request);
    this.#closing = new Closing(this.#engine, this.#running);
    insides.set(this, { engine: this.#engine, running: this.#running, checked: this.#checked.bind(this) });
  }

  async run<T>(name: LockNames, optionsOrWork: AcquireOptions | Work<T>, maybeWork?: Work<T>): Promise<T> {
    const [options, work] = optionsAndWork("run", optionsOrWork, maybeWork);
    const checked = this.#checked(options);
    const names = toNames(name);
    const call: Call = { name: String(names) };
    // Before anything is waited for: close() waits for this call from here on, whether its work has started or not.
    this.#running.calls.add(call);
    try {
      return await this.#work((await this.#take(names, checked, patienceOf(checked)))!, work, call);
    } finally {
      this.#running.end(call);
    }
  }

  async tryRun<T>(name: LockNames, optionsOrWork: TryOptions | Work<T>, maybeWork?: Work<T>): Promise<TryRunResult<T>> {
    const [options, work] = optionsAndWork("tryRun", optionsOrWork, maybeWork);
    const checked = this.#tried("tryRun", options);
    const names = toNames(name);
    const call: Call = { name: String(names) };
    this.#running.calls.add(call);
    try {
      const taken = (await this.#take(names, checked, "once").catch((error: unknown) => busy(error, checked)))!;
      if ("ran" in taken) return taken;
      return { ran: true, value: await this.#work(taken, work, call) };
    } finally {
      this.#running.end(call);
    }
  }

  async once<T>(name: string, options: OnceOptions<T>, work: Work<T>): Promise<OnceResult<T>> {
    // Read now: the caller may use the object again while the code is loaded.
    const given = typeof options === "object" && options !== null ? { ...options } : options;
    return (await import("./once.ts")).once(insides.get(this)!, name, given, work);
  }

  async outcome<T>(name: string, options: OutcomeOptions<T> = {}): Promise<OutcomeState<T>> {
    return (await import("./once.ts")).outcome(this.#engine, name, options);
  }

  async forget(name: string, options: ForgetOptions): Promise<boolean> {
    return (await import("./once.ts")).forget(this.#engine, name, options);
  }

  acquire<N extends LockNames>(name: N, options?: AcquireOptions): Promise<LeaseOf<N>> {
    return this.#begin(name, () => this.#checked(options), undefined) as Promise<LeaseOf<N>>;
  }

  tryAcquire<N extends LockNames>(name: N, options?: TryOptions): Promise<LeaseOf<N> | null> {
    return this.#begin(name, () => this.#tried("tryAcquire", options), "try");
  }

  async elect(name: string, optionsOrWork: ElectOptions | Work<unknown>, maybeWork?: Work<unknown>): Promise<void> {
    checkName(name);
    const [options, work] = optionsAndWork("elect", optionsOrWork, maybeWork);
    // A candidate waits for ever, and may: it is no victim.
    const usual = withoutLinger("elect", options, () => this.#checked(options));
    const checked: CheckedOptions = { ...usual, waitMs: Infinity, deadlock: "report" };
    const call: Call = { name };
    this.#running.calls.add(call);
    try {
      await elect({
        clock: this.#engine.clock,
        chance: this.#engine.chance,
        signal: checked.signal,
        closing: this.#engine.closing,
        ttlMs: checked.ttlMs,
        // A candidate stands for itself: it never re-enters a lease of the code that called elect().
        acquire: async () => (await this.#takeTraced(name, checked, "queue", Infinity))!,
        hold: (lease, run) => Scope.run(this.#engine, [lease], run),
        work,
      });
    } finally {
      this.#running.end(call);
    }
  }

  async query(prefix = "", options: QueryOptions = {}): Promise<LocksSnapshot> {
    if (typeof prefix !== "string") throw new ArgumentError(`Expected \`prefix\` to be a string, got ${got(prefix)}`);
    const checked = toQuerySpec(options);
    return (await import("./picture.ts")).query(this.#engine, prefix, checked);
  }

  async inspect(name: string, options: QueryOptions = {}): Promise<LockSnapshot> {
    checkName(name);
    const checked = toQuerySpec(options);
    return (await import("./picture.ts")).inspect(this.#engine, name, checked);
  }

  async isHeld(name: string, options: QueryOptions = {}): Promise<boolean> {
    const { held, quarantineMs = 0 } = await this.inspect(name, options);
    return held.length > 0 || quarantineMs > 0;
  }

  async contention(options: ContentionOptions = {}): Promise<Contention> {
    return (await import("./contention.ts")).contention(this.#engine, options);
  }

  async forceRelease(name: string, options: ForceReleaseOptions): Promise<boolean> {
    checkName(name);
    const { fence, reason, by = this.#engine.holder } = checkObject(options);
    if (typeof fence !== "bigint") throw new ArgumentError(`Expected \`fence\` to be a bigint, got ${got(fence)}`);
    checkReason(reason);
    checkWho("by", by);
    const { backend } = this.#engine;
    const force = (): Promise<boolean> => backend.forceRelease(name, fence, by, reason);
    const done = await askStore(this.#engine, "forceRelease()", toQuerySpec({}), force, name);
    if (typeof done !== "boolean")
      throw (await import("../contract/backend-mistake.ts")).mistakenForce(backend.name, name, done);
    if (done) this.#engine.forced(name, fence, by, reason);
    if (forceReleaseChannel.hasSubscribers) {
      Scope.outside(() => forceReleaseChannel.publish({ backend: backend.name, name, fence, by, reason, done }));
    }
    return done;
  }

  close(options: CloseOptions = {}): Promise<void> {
    return this.#closing.close(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Who never waits for so long does not load it. */
  #look(request: Request): void {
    this.#deadlocks ??= import("./deadlocks.ts").then((code) => new code.DeadlockWatch(this.#engine));
    // Where the code cannot be loaded any more, as after a deployment over a running process, no deadlock is seen.
    this.#deadlocks.then((watch) => watch.add(request)).catch(() => {});
  }

  #checked(options: AcquireOptions | undefined): CheckedOptions {
    if (options === undefined) return this.#usual;
    const checked = onlyWaitOf(options, this.#usual, this.#waiting);
    if (checked === undefined) return possible(checkOptions(options, this.#defaults), this.#engine.backend);
    // A caller's signal is not kept.
    if (checked.signal === undefined) this.#waiting = checked;
    return checked;
  }

  #tried(verb: "tryAcquire" | "tryRun", options: TryOptions | undefined): CheckedOptions {
    return lingerable(checkTryOptions(verb, options, this.#usual, this.#defaults), this.#engine.backend);
  }

  /** The hot path: no async function here, because each costs a promise and a turn of the microtask queue. */
  #begin<L>(name: LockNames, toSpecNow: () => CheckedOptions, waitMode: WaitMode | undefined): Promise<L | null> {
    try {
      const checked = toSpecNow();
      const taking = this.#take(toNames(name), checked, waitMode ?? patienceOf(checked));
      return (isHeard(this.#engine) ? announced(this.#engine, taking) : taking) as Promise<L | null>;
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  #take(name: LockNames, checked: CheckedOptions, waitMode: WaitMode): Promise<Taken | null> {
    // Who does not queue gives the store its time to answer all the same.
    if (typeof name === "string") return this.#takeOne(name, checked, waitMode, answerMs(checked));
    const take = (one: string, its: CheckedOptions, waitMs: number): Promise<HeldLease | null> =>
      this.#takeOne(one, its, waitMode, waitMs);
    return acquireAll(this.#engine, name, checked, take);
  }

  #takeOne(name: string, checked: CheckedOptions, waitMode: WaitMode, waitMs: number): Promise<HeldLease | null> {
    const scope = Scope.of(this.#engine, name);
    if (scope !== undefined) return this.#engine.reenter(scope, checked, waitMode, waitMs);
    return this.#takeTraced(name, checked, waitMode, waitMs);
  }

  #takeTraced(name: string, checked: CheckedOptions, waitMode: WaitMode, waitMs: number): Promise<HeldLease | null> {
    if (!this.#engine.isTraced) return this.#engine.take(name, checked, waitMode, waitMs);
    return takeTraced(this.#engine, name, checked, waitMode, waitMs) as Promise<HeldLease | null>;
  }

  /** Runs the function and releases, whatever it does. What resolves after its lease was lost may not be taken for done. */
  async #work<T>(lease: Taken, work: Work<T>, call: Call): Promise<T> {
    let result: T;
    try {
      result = await Scope.run(this.#engine, partsOf(lease), () => work(lease));
    } catch (error) {
      // Its own error is reported, whatever the release answers.
      attachLoss(error, await this.#finish(lease, call).catch(() => undefined));
      throw error;
    }
    const lost = await this.#finish(lease, call);
    if (lost === undefined) return result;
    lost.result = result;
    throw lost;
  }

  /** The work has settled, so that close() need not wait for it any more: only for the release, which is on its way. */
  #finish(lease: Taken, call: Call): Promise<LockLostError | undefined> {
    const finishing = lease.finish();
    this.#running.end(call);
    return finishing;
  }
}

/** What tryRun() comes to where the lock was not free. Another error is thrown on, as is the reason of its signal, whatever that is. */
function busy(error: unknown, { signal }: CheckedOptions): TryRunResult<never> {
  if (!isA(LockTimeoutError, error) || (signal?.aborted === true && error === signal.reason)) throw error;
  const { heldBy, quarantineMs } = error;
  return { ran: false, heldBy, quarantineMs };
}

function patienceOf(checked: CheckedOptions): WaitMode {
  return checked.waitMs > 0 ? "queue" : "once";
}
