/** A request: one local wish for the lock, from acquire() to its answer; and the list of those that wait. */
import type { Bell } from "./alarm.ts";
import type { Holding } from "./backend.ts";
import { LockTimeoutError } from "./errors.ts";
import type { HeldLease } from "./lease.ts";
import type { Spec } from "./spec.ts";

/** `queue`: waits for its turn. `try`: resolves to null when the lock is busy. `once`: rejects when it is. */
export type Patience = "queue" | "try" | "once";

/** What a ticket waits in: the queue in front of a lock, or the turns inside a lease. */
export interface Queue {
  readonly name: string;
  enter(ticket: Ticket): void;
  /** The ticket was settled from outside: it no longer waits. */
  leave(ticket: Ticket): void;
  /** Who is in the way, for messages. */
  heldBy(): readonly Holding[];
  /** Why the store could not be asked, if that is what those who wait, or those who only try, are held up by. */
  trouble(waits: boolean): unknown;
  /** Called now and then while a ticket waits: look whether the store still answers. */
  nudge(nowMs: number): void;
}

export class Ticket implements Bell {
  readonly queue: Queue;
  readonly spec: Spec;
  readonly patience: Patience;
  settled = false;

  /** When the waiting ends. */
  untilMs: number = Infinity;

  // The alarm's own notes.
  atMs = 0;
  place = -1;

  // The line's own links.
  next: Ticket | undefined;
  previous: Ticket | undefined;
  inLine = false;

  /** A try's place among all tries on its lock, in the order of their calls. */
  number = 0;

  /** Takes the ticket's signal listener away again. */
  unlisten: (() => void) | undefined;

  readonly #resolve: (lease: HeldLease | null) => void;
  readonly #reject: (error: unknown) => void;
  readonly #done: (ticket: Ticket) => void;

  /** Settles once, through one of the first two; `done` then puts away its deadline. */
  constructor(
    queue: Queue,
    spec: Spec,
    patience: Patience,
    resolve: (lease: HeldLease | null) => void,
    reject: (error: unknown) => void,
    done: (ticket: Ticket) => void,
  ) {
    this.queue = queue;
    this.spec = spec;
    this.patience = patience;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#done = done;
  }

  get waits(): boolean {
    return this.patience === "queue";
  }

  grant(lease: HeldLease): void {
    this.settled = true;
    this.#done(this);
    this.#resolve(lease);
  }

  /** The lock is busy: the certain no to a ticket that does not wait. */
  refuse(heldBy: readonly Holding[]): void {
    if (this.patience === "once") return this.fail(new LockTimeoutError(this.queue.name, 0, heldBy));
    this.settled = true;
    this.#done(this);
    return this.#resolve(null);
  }

  fail(error: unknown): void {
    this.settled = true;
    this.#done(this);
    this.#reject(error);
  }
}

/** First come, first served; whoever gives up leaves from the middle at no cost. */
export class Line {
  first: Ticket | undefined;
  #last: Ticket | undefined;

  push(ticket: Ticket): void {
    ticket.inLine = true;
    ticket.previous = this.#last;
    if (this.#last === undefined) this.first = ticket;
    else this.#last.next = ticket;
    this.#last = ticket;
  }

  shift(): Ticket | undefined {
    const ticket = this.first;
    if (ticket !== undefined) this.remove(ticket);
    return ticket;
  }

  /** `false`: it was not in the line. */
  remove(ticket: Ticket): boolean {
    if (!ticket.inLine) return false;
    ticket.inLine = false;
    if (ticket.previous === undefined) this.first = ticket.next;
    else ticket.previous.next = ticket.next;
    if (ticket.next === undefined) this.#last = ticket.previous;
    else ticket.next.previous = ticket.previous;
    ticket.next = undefined;
    ticket.previous = undefined;
    return true;
  }

  /** How many from `head` on want the same, counted no further than `most`. */
  countSame(head: Ticket, most: number): number {
    let count = 0;
    for (let ticket: Ticket | undefined = head; ticket !== undefined && count < most; ticket = ticket.next) {
      if (ticket.spec.shape !== head.spec.shape) break;
      count++;
    }
    return count;
  }
}
