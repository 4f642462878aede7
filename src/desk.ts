/** All that one createLocks() has going on: its turnstiles, its holds and their keeper, and how long people wait. */
import { hostname } from "node:os";
import { Alarm } from "./alarm.ts";
import type { LocksOptions } from "./api.ts";
import type { Backend, Claim } from "./backend.ts";
import { type Chance, systemChance } from "./chance.ts";
import { type Clock, systemClock } from "./clock.ts";
import { asBackendError, LockBackendError, LockClosedError, LockTimeoutError, messageOf, quote } from "./errors.ts";
import type { Hold } from "./hold.ts";
import { Keeper } from "./keeper.ts";
import type { HeldLease } from "./lease.ts";
import { onAbort } from "./on-abort.ts";
import type { Frame } from "./reentry.ts";
import { Releases } from "./release.ts";
import { type Spec, toClaim } from "./spec.ts";
import type { RenewThread } from "./thread.ts";
import { type Patience, type Queue, Ticket } from "./ticket.ts";
import { Turnstile, type TurnstileHome } from "./turnstile.ts";

const IDLE_TURNSTILES = 256;
const NUDGE_MS = 5000;
/** Lost holds in use are looked through when there are more. */
const LOST_MAX = 256;

export class Desk implements TurnstileHome {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly holder: string;
  readonly releases: Releases;
  readonly #turnstiles: Map<string, Turnstile> = new Map();
  #turnstilesMax = IDLE_TURNSTILES;
  readonly #kept: Hold[] = [];
  /** Holds by claim id. Only news of a single claim asks for it, so that there is none before the first. */
  #byId: Map<string, Hold> | undefined;
  readonly #keeper: Keeper;
  readonly #waits: Alarm<Ticket>;
  readonly #lostInUse: Set<Hold> = new Set();
  #lostMax = LOST_MAX;
  readonly #closing = new AbortController();
  readonly #ended = new AbortController();
  #thread: RenewThread | undefined;

  constructor(backend: Backend, options: LocksOptions) {
    this.backend = backend;
    this.clock = options.clock ?? systemClock;
    this.chance = options.chance ?? systemChance;
    this.holder = options.holder ?? `${hostname()}:${process.pid}`;
    this.releases = new Releases(this);
    this.#keeper = new Keeper(backend, this.clock, this.chance);
    this.#waits = new Alarm<Ticket>(this.clock, true, (nowMs) => this.#lookAtWaits(nowMs));
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
  async takeWithThread(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    const untilMs = this.clock.now() + waitMs;
    const { awaitThread, RenewThread } = await import("./thread.ts");
    this.#thread ??= new RenewThread(this.backend, this.clock, (id, reason) => this.#lost(id, reason));
    await awaitThread(this.#thread, this, name, spec, untilMs);
    return await this.take(name, spec, patience, Math.max(1, untilMs - this.clock.now()));
  }

  /** Waits for the lock, or looks once: see {@link Patience}. Only a `try` resolves to null. */
  take(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    if (this.closed) return Promise.reject(new LockClosedError(name));
    return this.#enter(this.#turnstile(name), spec, patience, waitMs);
  }

  /** Takes part in a lease that the caller is inside of. That takes nothing from the store, so that it goes on while closing. */
  async reenter(frame: Frame, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    frame.check(spec.mode);
    if (spec.signal?.aborted === true) throw spec.signal.reason;
    const lease = frame.enterNow(spec.mode);
    if (lease !== undefined) return lease;
    if (this.closed) throw new LockClosedError(frame.name);
    return await this.#enter(frame, spec, patience, waitMs);
  }

  #enter(queue: Queue, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    return new Promise((resolve, reject) => {
      const { signal } = spec;
      // The reason is the caller's own: it comes back as it is.
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const ticket = new Ticket(queue, spec, patience, resolve, reject, this.#settled);
      queue.enter(ticket);
      // Entering may have noticed a loss, whose listeners may have aborted or closed anything.
      if (!ticket.settled && signal !== undefined) this.#listen(ticket, signal);
      if (ticket.settled) return undefined;
      if (this.closed) return this.#giveUp(ticket, new LockClosedError(queue.name));
      const nowMs = this.clock.now();
      ticket.untilMs = nowMs + waitMs;
      return this.#setBell(ticket, nowMs);
    });
  }

  #listen(ticket: Ticket, signal: AbortSignal): void {
    try {
      ticket.unlisten = onAbort(signal, (reason) => this.#giveUp(ticket, reason));
    } catch (error) {
      // Somebody's own kind of signal, which cannot be listened to: nothing is left behind.
      this.#giveUp(ticket, error);
    }
  }

  newClaim(name: string, spec: Spec, queues: boolean): Claim {
    return toClaim(this.chance.id(), name, this.holder, spec, queues);
  }

  keep(hold: Hold): void {
    hold.deskPlace = this.#kept.push(hold) - 1;
    this.#byId?.set(hold.claim.id, hold);
    if (hold.spec.renew === "thread") this.#thread!.keep(hold);
    this.#keeper.keep(hold);
  }

  drop(hold: Hold): void {
    if (hold.state === "lost") this.#remember(hold);
    if (hold.deskPlace >= 0) this.#forget(hold);
    if (hold.spec.renew === "thread") this.#thread?.drop(hold);
    this.#keeper.drop(hold);
  }

  /** The store may have it yet, until its user lets go or the locks are closed. A delay after an unclean end is kept. */
  #remember(hold: Hold): void {
    if (hold.claim.lockDelayMs > 0) return;
    this.#lostInUse.add(hold);
    if (this.#lostInUse.size < this.#lostMax) return;
    // Those that nobody ever releases are not kept for ever: the store has let go of them by now.
    const nowMs = this.clock.now();
    for (const lost of this.#lostInUse) if (nowMs > lost.fromMs + 2 * lost.ttlMs) this.#lostInUse.delete(lost);
    this.#lostMax = Math.max(LOST_MAX, 2 * this.#lostInUse.size);
  }

  /** Nobody uses a lost hold any more. `false`: it goes, or went, back to the store by another way. */
  abandon(hold: Hold): boolean {
    return this.#lostInUse.delete(hold);
  }

  confirm(hold: Hold): void {
    this.#renewNow(hold, false);
  }

  #forget(hold: Hold): void {
    const last = this.#kept.pop()!;
    if (last !== hold) {
      this.#kept[hold.deskPlace] = last;
      last.deskPlace = hold.deskPlace;
    }
    hold.deskPlace = -1;
    this.#byId?.delete(hold.claim.id);
  }

  /** Closing begins: nothing is granted from here on, and those who wait are sent away. */
  shut(): void {
    this.#closing.abort();
    for (const ticket of this.#waits.all()) this.#giveUp(ticket, new LockClosedError(ticket.queue.name));
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
    for (const hold of this.#lostInUse) void this.releases.free(hold);
    this.#lostInUse.clear();
  }

  /** Nothing happens here by itself any more. */
  async stop(): Promise<void> {
    this.#ended.abort();
    this.#keeper.stop();
    this.#waits.stop();
    this.releases.stop();
    await this.#thread?.close();
  }

  #turnstile(name: string): Turnstile {
    let turnstile = this.#turnstiles.get(name);
    if (turnstile === undefined) {
      if (this.#turnstiles.size >= this.#turnstilesMax) this.#clearIdle();
      turnstile = new Turnstile(name, this);
      this.#turnstiles.set(name, turnstile);
    }
    return turnstile;
  }

  /** Idle turnstiles stay for a while, because a lock is mostly wanted again; never more than those in use, or a few. */
  #clearIdle(): void {
    for (const [name, turnstile] of this.#turnstiles) if (turnstile.idle) this.#turnstiles.delete(name);
    this.#turnstilesMax = Math.max(IDLE_TURNSTILES, 2 * this.#turnstiles.size);
  }

  readonly #settled = (ticket: Ticket): void => {
    this.#waits.clear(ticket);
    ticket.unlisten?.();
  };

  /** Wakes for the end of the waiting, and now and then before that, to see whether the store still answers. */
  #setBell(ticket: Ticket, nowMs: number): void {
    this.#waits.set(ticket, Math.min(ticket.untilMs, nowMs + Math.max(NUDGE_MS, ticket.spec.ttlMs)));
  }

  #lookAtWaits(nowMs: number): void {
    const early: Ticket[] = [];
    for (let ticket = this.#waits.take(nowMs); ticket !== undefined; ticket = this.#waits.take(nowMs)) {
      if (ticket.untilMs <= nowMs) this.#giveUp(ticket, this.#tooLate(ticket));
      else early.push(ticket);
    }
    for (const ticket of early) {
      ticket.queue.nudge(nowMs);
      if (!ticket.settled) this.#setBell(ticket, nowMs);
    }
  }

  #giveUp(ticket: Ticket, error: unknown): void {
    if (ticket.settled) return;
    ticket.fail(error);
    ticket.queue.leave(ticket);
  }

  #tooLate({ queue, waits, spec }: Ticket): Error {
    const cause = queue.trouble(waits);
    if (cause === undefined && waits) return new LockTimeoutError(queue.name, spec.waitMs, queue.heldBy());
    const detail = cause === undefined ? "no answer" : messageOf(cause);
    const votes = cause instanceof LockBackendError ? cause.votes : [];
    const message = `Lock ${quote(queue.name)} was not acquired: the ${this.backend.name} store could not be asked (${detail}).`;
    return new LockBackendError(this.backend.name, queue.name, message, { cause, votes });
  }

  #lost(claimId: string, reason: string): void {
    const hold = this.#find(claimId);
    if (hold === undefined) this.#distrust(claimId);
    else hold.home.lose(hold, reason);
  }

  #doubtOne(claimId: string): void {
    const hold = this.#find(claimId);
    if (hold === undefined) this.#distrust(claimId);
    else this.#renewNow(hold, true);
  }

  #doubtAll(): void {
    this.#keeper.doubt();
    for (const hold of this.#kept) if (hold.spec.renew === "thread") this.#renewNow(hold, true);
  }

  /** Asks the store for one hold at once. `afresh`: an answer that is on its way may be older than the doubt. */
  #renewNow(hold: Hold, afresh: boolean): void {
    if (hold.spec.renew === "thread") this.#thread?.renewNow(hold, afresh);
    else this.#keeper.confirm(hold, afresh);
  }

  #find(claimId: string): Hold | undefined {
    this.#byId ??= new Map(this.#kept.map((kept) => [kept.claim.id, kept]));
    return this.#byId.get(claimId);
  }

  /** News of a claim that has overtaken the answer to it. */
  #distrust(claimId: string): void {
    for (const turnstile of this.#turnstiles.values()) if (turnstile.distrust(claimId)) return;
  }
}
