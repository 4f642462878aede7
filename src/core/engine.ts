/**
 * The state of one createLocks(): the queue in front of each lock, and what all of them use: claims' releases, the watchdog over
 * the holds, the deadlines of those who wait. Calls go down from here; what a store reports comes in here and goes down, too.
 */
import { hostname } from "node:os";
import { readLoss } from "../contract/answer.ts";
import { Deadlines } from "../contract/deadlines.ts";
import type { LocksOptions } from "./api.ts";
import type { Backend, Claim } from "../contract/backend.ts";
import { type Chance, systemChance } from "../contract/random.ts";
import { type Clock, SleepDetector, systemClock } from "../contract/clock.ts";
import { asBackendError, LockClosedError } from "../contract/errors.ts";
import type { Hold } from "./hold.ts";
import { Watchdog } from "./watchdog.ts";
import type { HeldLease } from "./lease.ts";
import { type AcquireEvent, acquireChannel } from "../contract/events.ts";
import { Lingering } from "./linger.ts";
import { onAbort } from "../contract/on-abort.ts";
import type { LossReason } from "../contract/loss.ts";
import { Scope } from "./reentry.ts";
import { Releases } from "./release.ts";
import type { CheckedOptions } from "./options.ts";
import type { ProfileSlot } from "./profile.ts";
import type { RenewThread } from "./renew-thread.ts";
import { type WaitMode, type Queue, Request, type Taken, endLate } from "./request.ts";
import { LocalQueue, type QueueParts } from "./local-queue.ts";
import { Queues } from "./queues.ts";

/** Who holds locks and has waited for this long looks whether that is a deadlock. */
const LOOK_MS = 1000;

export class Engine {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly holder: string;
  readonly releases: Releases;
  /** Empty until contention() is called. */
  readonly contention: ProfileSlot = { profile: undefined };
  readonly #closing = new AbortController();
  /** A field: each acquire asks several times, and to ask the signal is a call into Node. */
  closed = false;
  readonly #ended = new AbortController();
  readonly watchdog: Watchdog;
  readonly #lingering: Lingering;
  /** By the id of their claim, those past the queues whose grant is not here: they hear the news of it. See by-claim.ts. */
  readonly past: Map<string, (loss?: LossReason) => void> = new Map();
  readonly parts: QueueParts & { readonly looks: Set<(claim: Claim) => void> };
  readonly #queues: Queues;
  readonly #waits: Deadlines<Request>;
  #thread: RenewThread | undefined;
  /** One that holds locks has waited for a second. */
  onLongWait: ((request: Request) => void) | undefined;

  constructor(backend: Backend, options: LocksOptions) {
    this.backend = backend;
    this.clock = options.clock ?? systemClock;
    this.chance = options.chance ?? systemChance;
    this.holder = options.holder ?? `${hostname()}:${process.pid}`;
    const { clock, chance, holder, ended, contention } = this;
    const runtime = { backend, clock, chance, sleep: new SleepDetector(clock), ended, locks: this };
    this.#waits = new Deadlines<Request>(clock, true, (nowMs) => this.#lookAtWaits(nowMs));
    const releases = (this.releases = new Releases(runtime));
    const watchdog = (this.watchdog = new Watchdog(runtime, this.#waits));
    const lingering = (this.#lingering = new Lingering(clock));
    this.parts = { ...runtime, holder, looks: new Set(), closing: this, contention, releases, watchdog, lingering };
    this.#queues = new Queues(this.parts);
    try {
      backend.listen?.({
        lost: (id, reason) => this.#lost(id, readLoss(reason)),
        doubt: (id) => (id === undefined ? this.#doubtAll() : this.doubtOne(id)),
        wanted: (id) => this.#wanted(id),
      });
    } catch (error) {
      throw asBackendError(backend.name, "", error);
    }
  }

  /** Aborts when closing begins: from then on nothing is granted. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Aborts when nothing is asked any more: all that was held has been released. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Acquires are of interest: to subscribers, or to the contention profile. */
  get isTraced(): boolean {
    return this.contention.profile !== undefined || acquireChannel.hasSubscribers;
  }

  /** Waits for the lock, or looks once: see {@link WaitMode}. Only a `try` resolves to null. */
  take(name: string, options: CheckedOptions, waitMode: WaitMode, waitMs: number): Promise<HeldLease | null> {
    // Only who wants an outcome may get one.
    return this.takeOrOutcome(name, options, waitMode, waitMs) as Promise<HeldLease | null>;
  }

  /** As {@link take}, for options that say that an outcome is wanted. */
  takeOrOutcome(
    name: string,
    options: CheckedOptions,
    waitMode: WaitMode,
    waitMs: number,
    event?: AcquireEvent,
  ): Promise<Taken> {
    return options.renew === "thread"
      ? this.#withThread(name, options, waitMs, (leftMs) => this.#takeNow(name, options, waitMode, leftMs, event))
      : this.#takeNow(name, options, waitMode, waitMs, event);
  }

  #takeNow(
    name: string,
    options: CheckedOptions,
    waitMode: WaitMode,
    waitMs: number,
    event?: AcquireEvent,
  ): Promise<Taken> {
    if (this.closed) return Promise.reject(new LockClosedError(name));
    return this.#enter(this.queueFor(name), options, waitMode, waitMs, event);
  }

  /** As {@link takeOrOutcome}, past the queue in front of the lock: see by-claim.ts. */
  takePast(past: Queue, options: CheckedOptions, waitMs: number, event?: AcquireEvent): Promise<Taken> {
    const take = (leftMs: number): Promise<Taken> =>
      this.closed ? Promise.reject(new LockClosedError(past.name)) : this.#enter(past, options, "try", leftMs, event);
    return options.renew === "thread" ? this.#withThread(past.name, options, waitMs, take) : take(waitMs);
  }

  /** The queue in front of a lock. */
  queueFor(name: string): LocalQueue {
    return this.#queues.get(name) ?? this.#queues.add(name);
  }

  /** Takes it after the thread that will renew the lease is there. Who never asks for one does not load it. */
  async #withThread(
    name: string,
    options: CheckedOptions,
    waitMs: number,
    take: (leftMs: number) => Promise<Taken>,
  ): Promise<Taken> {
    const untilMs = this.clock.now() + waitMs;
    const { awaitThread, RenewThread } = await import("./renew-thread.ts");
    this.#thread ??= new RenewThread(this.backend, this.clock, (id, loss) => this.#lost(id, loss));
    this.watchdog.useThread(this.#thread);
    await awaitThread(this.#thread, this, name, options, untilMs);
    return await take(Math.max(1, untilMs - this.clock.now()));
  }

  /** See {@link LocalQueue.hidesOutcome}. */
  hidesOutcome(name: string): boolean {
    return this.#queues.get(name)?.hidesOutcome === true;
  }

  /** Takes part in a lease that the caller is inside of. That takes nothing from the store, so that it goes on while closing. */
  async reenter(scope: Scope, options: CheckedOptions, waitMode: WaitMode, waitMs: number): Promise<HeldLease | null> {
    scope.check(options.mode);
    if (options.signal?.aborted === true) throw options.signal.reason;
    const lease = scope.enterNow(options.mode);
    if (lease !== undefined) return lease;
    if (this.closed) throw new LockClosedError(scope.name);
    return (await this.#enter(scope, options, waitMode, waitMs)) as HeldLease | null;
  }

  /** The queue is entered last: from then on the request may be settled at any time. */
  #enter(
    queue: Queue,
    options: CheckedOptions,
    waitMode: WaitMode,
    waitMs: number,
    event?: AcquireEvent,
  ): Promise<Taken> {
    return new Promise((resolve, reject) => {
      const { signal } = options;
      // The reason is the caller's own: it comes back as it is.
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const request = new Request(queue, options, waitMode, this.clock.now(), waitMs, resolve, reject, this.#waits);
      request.scope = options.scope ?? Scope.innermost();
      // Who holds nothing is in no one's way; who waits for its turn inside a lease is not in the graph.
      if (request.scope !== undefined && request.waits && queue instanceof LocalQueue)
        request.lookAt(request.enteredMs + LOOK_MS);
      request.event = event;
      request.profile = this.contention.profile;
      if (signal !== undefined) this.#listen(request, signal);
      if (!request.settled) queue.enter(request);
      return undefined;
    });
  }

  #listen(request: Request, signal: AbortSignal): void {
    try {
      request.unlisten = onAbort(signal, (reason) => this.giveUp(request, reason));
    } catch (error) {
      // A signal of another kind, which cannot be listened to: nothing is left behind.
      this.giveUp(request, error);
    }
  }

  /** The queues of this process in front of the locks that are meant, as far as anything is in them. */
  queues(isMeant: (name: string) => boolean): readonly LocalQueue[] {
    return this.#queues.used(isMeant);
  }

  queueOf(name: string): LocalQueue | undefined {
    return this.#queues.get(name);
  }

  #lookAtWaits(nowMs: number): void {
    const early: Request[] = [];
    for (let request = this.#waits.take(nowMs); request !== undefined; request = this.#waits.take(nowMs)) {
      if (request.untilMs > nowMs) {
        early.push(request);
        if (request.lookAtMs <= nowMs) {
          request.lookAtMs = Infinity;
          this.onLongWait?.(request);
        }
        request.wakeLater(nowMs);
      } else endLate(request, this.backend.name, nowMs);
    }
    for (const { queue, settled } of early) if (!settled) queue.nudge();
  }

  /** It waits no longer. */
  giveUp(request: Request, error: unknown): void {
    if (request.settled) return;
    request.fail(error);
    request.queue.leave(request);
  }

  /** Closing begins: nothing is granted from here on, those who wait are sent away, and all work is asked to stop. */
  shut(): void {
    this.closed = true;
    this.#closing.abort();
    for (const request of this.#waits.all()) this.giveUp(request, new LockClosedError(request.queue.name));
    for (const queue of this.#queues.all()) queue.stopAll();
  }

  /** Begins to release every hold, used or not, lost or not. */
  releaseAll(): void {
    for (const queue of this.#queues.all()) queue.endAll({ kind: "closed" });
    this.releases.freeAllLost();
  }

  /** Nothing happens here by itself any more. */
  async stop(): Promise<void> {
    this.#ended.abort();
    this.#waits.stop();
    this.releases.stop();
    this.#lingering.stop();
    await this.watchdog.stop();
  }

  #wanted(claimId: string): void {
    const hold = this.watchdog.find(claimId);
    if (hold === undefined) for (const queue of this.#queues.all()) queue.hearWanted(claimId);
    else hold.hearNews(this.clock.now());
  }

  #lost(claimId: string, loss: LossReason): void {
    const hold = this.watchdog.find(claimId);
    if (hold === undefined) this.#distrust(claimId, loss);
    else hold.lose(loss);
  }

  /** What is not renewed is looked at, too: news of it may have been missed. */
  #doubtAll(): void {
    for (const hold of this.watchdog.all) hold.hearDoubt(this.clock.now());
    this.watchdog.doubt();
    this.#lookAt(this.watchdog.all.filter(({ options }) => options.renew === false));
  }

  doubtOne(claimId: string): void {
    const hold = this.watchdog.find(claimId);
    if (hold === undefined) this.#distrust(claimId);
    else if (hold.options.renew === false) this.#lookAt([hold]);
    else this.watchdog.confirm(hold.hearDoubt(this.clock.now()), true);
  }

  /** Where the store does not answer, its ttl ends it. */
  #lookAt(holds: readonly Hold[]): void {
    if (holds.length === 0) return;
    import("./lose-if-forced.ts").then((code) => code.loseIfForced(this.backend, holds)).catch(() => {});
  }

  /** News of a claim that has overtaken the answer to it. */
  #distrust(claimId: string, loss?: LossReason): void {
    this.past.get(claimId)?.(loss);
    for (const queue of this.#queues.all()) if (queue.distrust(claimId)) return;
  }

  /** The store has ended a lease by force. One of ours is over now, whether or not the backend has news for us. */
  forced(name: string, fence: bigint, by: string, reason: string): void {
    const hold = this.#queues.get(name)?.holds.find((one) => one.hasFence(fence));
    hold?.lose({ kind: "forced", by, reason });
  }
}
