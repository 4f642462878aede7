/** The state of one createLocks(): its local queues, its holds and their watchdog, and the deadlines of those who wait. */
import { hostname } from "node:os";
import { Deadlines } from "../contract/deadlines.ts";
import type { LocksOptions } from "./api.ts";
import type { Backend, Claim } from "../contract/backend.ts";
import { type Chance, systemChance } from "../contract/random.ts";
import { type Clock, systemClock } from "../contract/clock.ts";
import { asBackendError, LockClosedError } from "../contract/errors.ts";
import type { Hold } from "./hold.ts";
import { Watchdog } from "./watchdog.ts";
import type { HeldLease } from "./lease.ts";
import { LostHolds } from "./lost-holds.ts";
import { onAbort } from "../contract/on-abort.ts";
import type { Scope } from "./reentry.ts";
import { Releases } from "./release.ts";
import { type CheckedOptions, toClaim } from "./options.ts";
import type { RenewThread } from "./renew-thread.ts";
import { type WaitMode, type Queue, Request, tooLate } from "./request.ts";
import { SleepDetector } from "./sleep.ts";
import { LocalQueue, type QueueHome } from "./local-queue.ts";

const IDLE_QUEUES = 256;
/** How often those who wait look whether the store still answers, where the ttl is no shorter. */
const NUDGE_MS = 30_000;

export class Engine implements QueueHome {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly sleep: SleepDetector;
  readonly holder: string;
  readonly releases: Releases;
  readonly #queues: Map<string, LocalQueue> = new Map();
  #queuesMax = IDLE_QUEUES;
  readonly #kept: Hold[] = [];
  /** Holds by claim id. Only news of a single claim asks for it, so that there is none before the first. */
  #byId: Map<string, Hold> | undefined;
  readonly #watchdog: Watchdog;
  readonly #waits: Deadlines<Request>;
  readonly #lostInUse: LostHolds;
  readonly #closing = new AbortController();
  readonly #ended = new AbortController();
  #thread: RenewThread | undefined;

  constructor(backend: Backend, options: LocksOptions) {
    this.backend = backend;
    this.clock = options.clock ?? systemClock;
    this.chance = options.chance ?? systemChance;
    this.sleep = new SleepDetector(this.clock);
    this.holder = options.holder ?? `${hostname()}:${process.pid}`;
    this.releases = new Releases(this);
    this.#lostInUse = new LostHolds(this.clock);
    this.#watchdog = new Watchdog(backend, this.clock, this.chance, this.sleep);
    this.#waits = new Deadlines<Request>(this.clock, true, (nowMs) => this.#lookAtWaits(nowMs));
    try {
      backend.listen?.({
        lost: (id, reason) => this.#lost(id, reason),
        doubt: (id) => (id === undefined ? this.#doubtAll() : this.#doubtOne(id)),
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

  get closed(): boolean {
    return this.#closing.signal.aborted;
  }

  get held(): readonly Hold[] {
    return this.#kept.slice();
  }

  /** As {@link take}, after the thread that will renew the lease is there. Who never asks for one does not load it. */
  async takeWithThread(
    name: string,
    options: CheckedOptions,
    waitMode: WaitMode,
    waitMs: number,
  ): Promise<HeldLease | null> {
    const untilMs = this.clock.now() + waitMs;
    const { awaitThread, RenewThread } = await import("./renew-thread.ts");
    this.#thread ??= new RenewThread(this.backend, this.clock, (id, reason) => this.#lost(id, reason));
    await awaitThread(this.#thread, this, name, options, untilMs);
    return await this.take(name, options, waitMode, Math.max(1, untilMs - this.clock.now()));
  }

  /** Waits for the lock, or looks once: see {@link WaitMode}. Only a `try` resolves to null. */
  take(name: string, options: CheckedOptions, waitMode: WaitMode, waitMs: number): Promise<HeldLease | null> {
    if (this.closed) return Promise.reject(new LockClosedError(name));
    return this.#enter(this.#queue(name), options, waitMode, waitMs);
  }

  /** Takes part in a lease that the caller is inside of. That takes nothing from the store, so that it goes on while closing. */
  async reenter(scope: Scope, options: CheckedOptions, waitMode: WaitMode, waitMs: number): Promise<HeldLease | null> {
    scope.check(options.mode);
    if (options.signal?.aborted === true) throw options.signal.reason;
    const lease = scope.enterNow(options.mode);
    if (lease !== undefined) return lease;
    if (this.closed) throw new LockClosedError(scope.name);
    return await this.#enter(scope, options, waitMode, waitMs);
  }

  #enter(queue: Queue, options: CheckedOptions, waitMode: WaitMode, waitMs: number): Promise<HeldLease | null> {
    return new Promise((resolve, reject) => {
      const { signal } = options;
      // The reason is the caller's own: it comes back as it is.
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const request = new Request(queue, options, waitMode, resolve, reject, this.#settled);
      queue.enter(request);
      // Entering may have noticed a loss, whose listeners may have aborted or closed anything.
      if (!request.settled && signal !== undefined) this.#listen(request, signal);
      if (request.settled) return undefined;
      if (this.closed) return this.#giveUp(request, new LockClosedError(queue.name));
      const nowMs = this.clock.now();
      request.untilMs = nowMs + waitMs;
      return this.#setDeadline(request, nowMs);
    });
  }

  #listen(request: Request, signal: AbortSignal): void {
    try {
      request.unlisten = onAbort(signal, (reason) => this.#giveUp(request, reason));
    } catch (error) {
      // Somebody's own kind of signal, which cannot be listened to: nothing is left behind.
      this.#giveUp(request, error);
    }
  }

  newClaim(name: string, options: CheckedOptions, queues: boolean): Claim {
    return toClaim(this.chance.id(), name, this.holder, options, queues);
  }

  keep(hold: Hold): void {
    hold.registryIndex = this.#kept.push(hold) - 1;
    this.#byId?.set(hold.claim.id, hold);
    if (hold.options.renew === "thread") this.#thread!.keep(hold);
    this.#watchdog.keep(hold);
  }

  drop(hold: Hold): void {
    if (hold.state === "lost") this.#lostInUse.add(hold);
    if (hold.registryIndex >= 0) this.#forget(hold);
    if (hold.options.renew === "thread") this.#thread?.drop(hold);
    this.#watchdog.drop(hold);
  }

  /** Nobody uses a lost hold any more. `false`: it goes back to the store by another way. */
  abandon(hold: Hold): boolean {
    return this.#lostInUse.remove(hold);
  }

  confirm(hold: Hold): void {
    this.#renewNow(hold, false);
  }

  #forget(hold: Hold): void {
    const last = this.#kept.pop()!;
    if (last !== hold) {
      this.#kept[hold.registryIndex] = last;
      last.registryIndex = hold.registryIndex;
    }
    hold.registryIndex = -1;
    this.#byId?.delete(hold.claim.id);
  }

  /** Closing begins: nothing is granted from here on, and those who wait are sent away. */
  shut(): void {
    this.#closing.abort();
    for (const request of this.#waits.all()) this.#giveUp(request, new LockClosedError(request.queue.name));
  }

  /** Asks all work to stop. Its leases are held while it winds down. */
  stopAll(): void {
    for (const hold of this.held) {
      for (const lease of hold.leases.slice()) lease.stop(LockClosedError.whileHeld(lease.name));
    }
  }

  /** Begins to release every hold, used or not, lost or not. */
  releaseAll(): void {
    for (const hold of this.held) void hold.home.forceEnd(hold, "the locks were closed");
    for (const hold of this.#lostInUse.removeAll()) void this.releases.free(hold);
  }

  /** Nothing happens here by itself any more. */
  async stop(): Promise<void> {
    this.#ended.abort();
    this.#watchdog.stop();
    this.#waits.stop();
    this.releases.stop();
    await this.#thread?.close();
  }

  #queue(name: string): LocalQueue {
    let queue = this.#queues.get(name);
    if (queue === undefined) {
      if (this.#queues.size >= this.#queuesMax) this.#clearIdle();
      queue = new LocalQueue(name, this);
      this.#queues.set(name, queue);
    }
    return queue;
  }

  /** Idle queues stay for a while, because a lock is mostly wanted again; never more than those in use, or a few. */
  #clearIdle(): void {
    for (const [name, queue] of this.#queues) if (queue.idle) this.#queues.delete(name);
    this.#queuesMax = Math.max(IDLE_QUEUES, 2 * this.#queues.size);
  }

  readonly #settled = (request: Request): void => {
    this.#waits.clear(request);
    request.unlisten?.();
  };

  /** Wakes for the end of the waiting, and now and then before that, to see whether the store still answers. */
  #setDeadline(request: Request, nowMs: number): void {
    const nudgeMs = Math.min(NUDGE_MS, Math.max(5000, request.options.ttlMs));
    this.#waits.set(request, Math.min(request.untilMs, nowMs + nudgeMs));
  }

  #lookAtWaits(nowMs: number): void {
    const early: Request[] = [];
    for (let request = this.#waits.take(nowMs); request !== undefined; request = this.#waits.take(nowMs)) {
      if (request.untilMs > nowMs) {
        early.push(request);
        this.#setDeadline(request, nowMs);
      } else this.#giveUp(request, tooLate(request, this.backend.name));
    }
    for (const { queue, settled } of early) if (!settled) queue.nudge();
  }

  #giveUp(request: Request, error: unknown): void {
    if (request.settled) return;
    request.fail(error);
    request.queue.leave(request);
  }

  #lost(claimId: string, reason: string): void {
    const hold = this.#find(claimId);
    if (hold === undefined) this.#distrust(claimId);
    else hold.home.lose(hold, reason);
  }

  /** The store has ended a lease by force. One of ours is over now, whether or not the backend has news for us. */
  forced(name: string, fence: bigint, reason: string): void {
    const hold = this.#queues.get(name)?.holds.find(({ firstFence }) => firstFence === fence);
    if (hold !== undefined) hold.home.lose(hold, `broken by force by ${this.holder}: ${reason}`);
  }

  #doubtOne(claimId: string): void {
    const hold = this.#find(claimId);
    if (hold === undefined) this.#distrust(claimId);
    else this.#renewNow(hold, true);
  }

  #doubtAll(): void {
    this.#watchdog.doubt();
    for (const hold of this.#kept) if (hold.options.renew === "thread") this.#renewNow(hold, true);
  }

  /** Asks the store for one hold at once. `afresh`: an answer that is on its way may be older than the doubt. */
  #renewNow(hold: Hold, afresh: boolean): void {
    if (hold.options.renew === "thread") this.#thread?.renewNow(hold, afresh);
    else this.#watchdog.confirm(hold, afresh);
  }

  #find(claimId: string): Hold | undefined {
    this.#byId ??= new Map(this.#kept.map((kept) => [kept.claim.id, kept]));
    return this.#byId.get(claimId);
  }

  /** News of a claim that has overtaken the answer to it. */
  #distrust(claimId: string): void {
    for (const queue of this.#queues.values()) if (queue.distrust(claimId)) return;
  }
}
