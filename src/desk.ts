/** All that one createLocks() has going on: its turnstiles, its holds and their keeper, and how long people wait. */
import { hostname } from "node:os";
import { Alarm } from "./alarm.ts";
import type { Backend, Claim } from "./backend.ts";
import { type Chance, systemChance } from "./chance.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { LocksOptions } from "./api.ts";
import { LockBackendError, LockClosedError, LockTimeoutError, quote } from "./errors.ts";
import { lostChannel } from "./events.ts";
import type { Hold } from "./hold.ts";
import { Keeper } from "./keeper.ts";
import type { HeldLease } from "./lease.ts";
import type { Spec } from "./spec.ts";
import type { Surroundings } from "./surroundings.ts";
import { RenewThread } from "./thread.ts";
import { type Patience, Ticket } from "./ticket.ts";
import { Turnstile, type TurnstileHome } from "./turnstile.ts";

/** A try that the store does not answer is given up after this long; its claim is cleaned up behind it. */
const TRY_MAX_MS = 5000;
const IDLE_TURNSTILES = 256;
const NUDGE_MS = 5000;
/** A release that the store does not answer is asked for again after this long at most. */
const RELEASE_SILENCE_MS = 2000;

export class Desk implements TurnstileHome, Surroundings {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly holder: string;
  readonly #turnstiles: Map<string, Turnstile> = new Map();
  #turnstilesMax = IDLE_TURNSTILES;
  readonly #kept: Hold[] = [];
  /** Holds by claim id. Only a loss asks for it, so that there is none before the first. */
  #byId: Map<string, Hold> | undefined;
  readonly #keeper: Keeper;
  readonly #waits: Alarm<Ticket>;
  /** Holds whose release the store has not answered yet. */
  readonly #leaving: Alarm<Hold>;
  #thread: RenewThread | undefined;
  #closed = false;

  constructor(backend: Backend, options: LocksOptions) {
    this.backend = backend;
    this.clock = options.clock ?? systemClock;
    this.chance = options.chance ?? systemChance;
    this.holder = options.holder ?? `${hostname()}:${process.pid}`;
    this.#keeper = new Keeper(backend, this.clock, this.chance, (hold, reason) => this.#lose(hold.claim.id, reason));
    this.#waits = new Alarm<Ticket>(this.clock, true, (nowMs) => this.#lookAtWaits(nowMs));
    this.#leaving = new Alarm<Hold>(this.clock, true, (nowMs) => {
      for (let hold = this.#leaving.take(nowMs); hold !== undefined; hold = this.#leaving.take(nowMs)) hold.late?.();
    });
    backend.listen?.({ lost: (id, reason) => this.#lose(id, reason), doubt: () => this.#keeper.doubt(true) });
  }

  get closed(): boolean {
    return this.#closed;
  }

  get held(): readonly Hold[] {
    return this.#kept.slice();
  }

  /** As {@link take}, after the thread that will renew the lease is there. */
  async takeWithThread(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    const { backend } = this;
    if (backend.renewer === undefined) throw this.#noThread(name);
    this.#thread ??= new RenewThread(backend, this.clock, (id, reason) => this.#lose(id, reason));
    try {
      await this.#thread.ready;
    } catch (cause) {
      this.#thread = undefined;
      const detail = cause instanceof Error ? cause.message : String(cause);
      const message = `Lock ${quote(name)} was not acquired: the thread that should renew it cannot reach the ${backend.name} store (${detail}).`;
      throw new LockBackendError(backend.name, name, message, { cause });
    }
    return await this.take(name, spec, patience, waitMs);
  }

  /** Waits for the lock, or looks once: see {@link Patience}. Only a `try` resolves to null. */
  take(name: string, spec: Spec, patience: Patience, waitMs: number): Promise<HeldLease | null> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(new LockClosedError(name));
      const { signal } = spec;
      // The reason is the caller's own: it comes back as it is.
      if (signal?.aborted === true) return reject(signal.reason as Error);
      const turnstile = this.#turnstile(name);
      const ticket = new Ticket(turnstile, spec, patience, resolve, reject, this.#settled);
      turnstile.enter(ticket);
      if (ticket.settled) return undefined;
      const nowMs = this.clock.now();
      ticket.untilMs = nowMs + (ticket.waits ? waitMs : Math.min(TRY_MAX_MS, spec.ttlMs));
      this.#setBell(ticket, nowMs);
      if (signal === undefined) return undefined;
      const leave = (): void => this.#giveUp(ticket, signal.reason);
      signal.addEventListener("abort", leave, { once: true });
      ticket.unlisten = () => signal.removeEventListener("abort", leave);
      return undefined;
    });
  }

  newClaim(name: string, spec: Spec, queues: boolean): Claim {
    return {
      id: this.chance.id(),
      name,
      mode: spec.mode,
      limit: spec.limit,
      ttlMs: spec.ttlMs,
      lockDelayMs: spec.lockDelayMs,
      minHoldMs: spec.minHoldMs,
      holder: this.holder,
      meta: spec.meta,
      queues,
      renewed: spec.renew === true && spec.maxHoldMs === Infinity,
    };
  }

  keep(hold: Hold): void {
    hold.deskPlace = this.#kept.push(hold) - 1;
    this.#byId?.set(hold.claim.id, hold);
    if (hold.spec.renew === "thread") this.#thread!.keep(hold);
    this.#keeper.keep(hold);
  }

  drop(hold: Hold): void {
    if (hold.deskPlace >= 0) this.#forget(hold);
    if (hold.spec.renew === "thread") this.#thread?.drop(hold);
    this.#keeper.drop(hold);
  }

  doubt(): void {
    this.#keeper.doubt(false);
  }

  expectAnswer(hold: Hold, late: () => void): void {
    hold.late = late;
    this.#leaving.set(hold, this.clock.now() + Math.min(RELEASE_SILENCE_MS, hold.ttlMs / 3));
  }

  answered(hold: Hold): void {
    this.#leaving.clear(hold);
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

  /** Lets nobody in any more, and sends those away who wait. */
  shut(): void {
    this.#closed = true;
    for (const ticket of this.#waits.all()) this.#giveUp(ticket, new LockClosedError(ticket.turnstile.name));
  }

  /** Ends every hold, used or not. */
  async endAll(reason: string): Promise<void> {
    await Promise.all(this.held.map((hold) => hold.home.forceEnd(hold, reason)));
  }

  async stop(): Promise<void> {
    this.#keeper.stop();
    this.#waits.stop();
    this.#leaving.stop();
    await this.#thread?.close();
    await this.backend.close();
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
      ticket.turnstile.nudge(nowMs);
      if (!ticket.settled) this.#setBell(ticket, nowMs);
    }
  }

  #giveUp(ticket: Ticket, error: unknown): void {
    if (ticket.settled) return;
    ticket.fail(error);
    ticket.turnstile.leave(ticket);
  }

  #tooLate(ticket: Ticket): Error {
    const { turnstile } = ticket;
    const cause = turnstile.trouble();
    if (cause === undefined && ticket.waits)
      return new LockTimeoutError(turnstile.name, ticket.spec.waitMs, turnstile.heldBy());
    const detail = cause instanceof Error ? cause.message : "no answer";
    const votes = cause instanceof LockBackendError ? cause.votes : [];
    const message = `Lock ${quote(turnstile.name)} was not acquired: the ${this.backend.name} store could not be asked (${detail}).`;
    return new LockBackendError(this.backend.name, turnstile.name, message, { cause, votes });
  }

  #lose(claimId: string, reason: string): void {
    this.#byId ??= new Map(this.#kept.map((kept) => [kept.claim.id, kept]));
    const hold = this.#byId.get(claimId);
    if (hold === undefined) return;
    if (lostChannel.hasSubscribers) {
      lostChannel.publish({ backend: this.backend.name, name: hold.claim.name, fence: hold.firstFence, reason });
    }
    hold.home.lose(hold, reason);
  }

  #noThread(name: string): TypeError {
    return new TypeError(
      `Expected \`renew\` not to be "thread" for lock ${quote(name)}: the ${this.backend.name} backend cannot be renewed from a thread. ` +
        "Open it by URL with connect(), or use `renew: true`.",
    );
  }
}
