/** A request: one local wish for the lock, from acquire() to its answer; and the list of those that wait. */
import type { Deadline, Deadlines } from "../contract/deadlines.ts";
import type { Blockers } from "../contract/answer.ts";
import type { Refused } from "../contract/backend.ts";
import type { KeptOutcome } from "../contract/claim.ts";
import type { Deadlock } from "../contract/deadlock.ts";
import type { Clock } from "../contract/clock.ts";
import { isA, LockBackendError, LockTimeoutError, messageOf, quote } from "../contract/errors.ts";
import { type AcquireEvent, fill } from "../contract/events.ts";
import type { HeldLease } from "./lease.ts";
import type { CheckedOptions } from "./options.ts";
import type { Profile } from "./profile.ts";
import type { HeldScope } from "./shown.ts";

/** A question that is out for this long, or longer where others were too, has nothing to pass on: the next one asks anew. */
export const SILENCE_MS = 2000;

/** How often those who wait look whether the store still answers. */
const NUDGE_MIN_MS = 5000;
const NUDGE_MAX_MS = 30_000;

/** `queue`: waits for its turn. `try`: resolves to null when the lock is busy. `once`: rejects when it is. */
export type WaitMode = "queue" | "try" | "once";

/** What a request comes to: a lease; for one that wants it, the outcome of the lock's work; `null` for a try on a busy lock. */
export type Taken = HeldLease | KeptOutcome | null;

/** What a request waits in: the queue in front of a lock, or the turns inside a lease. */
export interface Queue {
  readonly name: string;
  enter(request: Request): void;
  /** The request was settled from outside: it no longer waits. */
  leave(request: Request): void;
  /** Who is in the way, for messages. */
  blockers(): Blockers;
  /** A claim that the store has refused since the request was made: a try that waits for a lock to come back is busy if that takes too long. */
  refusalOf(request: Request): Asked | undefined;
  /** Why the store could not be asked, if that is what delays those who wait, or those who only try. */
  trouble(waits: boolean): unknown;
  /** Called now and then while a request waits: look whether the store still answers. */
  nudge(): void;
}

/** A claim that was asked for. */
export interface Asked {
  readonly questions: number;
  readonly refused: Refused | undefined;
  blockers(nowMs: number): Blockers;
}

export class Request implements Deadline {
  readonly queue: Queue;
  readonly options: CheckedOptions;
  readonly waitMode: WaitMode;
  /** It waits for its turn; otherwise it is a try. */
  readonly waits: boolean;
  readonly enteredMs: number;
  /** When the waiting ends. */
  readonly untilMs: number;
  settled = false;

  // The deadlines' own notes.
  atMs = 0;
  heapIndex = -1;

  // The list's own links.
  next: Request | undefined;
  previous: Request | undefined;
  inLine = false;

  /** A try's number among all tries on its lock, in the order of their calls. */
  number = 0;

  /** The locks that its caller is inside of. */
  scope: HeldScope | undefined;

  /** When its part in a deadlock is looked for. */
  lookAtMs: number = Infinity;
  /** The deadlock in which it waits, by the last look. */
  deadlock: Deadlock | undefined;

  /** What subscribers hear of it. Absent: there are none. */
  event: AcquireEvent | undefined;
  profile: Profile | undefined;

  /** Removes the listener from the request's signal. */
  unlisten: (() => void) | undefined;

  readonly #resolve: (taken: Taken) => void;
  readonly #reject: (error: unknown) => void;
  readonly #deadlines: Deadlines<Request>;

  /** Settles once, through one of the two functions. Its deadline is cleared then. */
  constructor(
    queue: Queue,
    options: CheckedOptions,
    waitMode: WaitMode,
    nowMs: number,
    waitMs: number,
    resolve: (taken: Taken) => void,
    reject: (error: unknown) => void,
    deadlines: Deadlines<Request>,
  ) {
    this.queue = queue;
    this.options = options;
    this.waitMode = waitMode;
    this.waits = waitMode === "queue";
    this.enteredMs = nowMs;
    this.untilMs = nowMs + waitMs;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#deadlines = deadlines;
    this.wakeLater(nowMs);
  }

  /** At the end of the waiting, and now and then before that, to see whether the store still answers. */
  wakeLater(nowMs: number): void {
    const nudgeMs = Math.min(NUDGE_MAX_MS, Math.max(NUDGE_MIN_MS, this.options.ttlMs));
    this.#deadlines.set(this, Math.min(this.untilMs, nowMs + nudgeMs, this.lookAtMs));
  }

  lookAt(atMs: number): void {
    if (this.settled) return;
    this.lookAtMs = atMs;
    this.#deadlines.set(this, Math.min(this.atMs, atMs));
  }

  /** As soon as a question that is out counts as lost. */
  wakeSoon(nowMs: number): void {
    this.#deadlines.set(this, Math.min(this.untilMs, this.atMs, nowMs + SILENCE_MS));
  }

  grant(lease: HeldLease | null): void {
    this.#settle();
    this.#resolve(lease);
  }

  /** The work was done by another: this came of it. */
  finish(outcome: KeptOutcome): void {
    this.#settle();
    this.#resolve(outcome);
  }

  /** It has to wait, or the store has refused it: the first time says the most. */
  noteContended({ heldBy }: Blockers, asked?: Asked): void {
    const { event } = this;
    if (event === undefined) return;
    const position = event.position ?? asked?.refused?.position;
    fill(event, { contended: true });
    if (heldBy.length > 0) fill(event, { heldBy: event.heldBy ?? heldBy });
    if (position !== undefined) fill(event, { position });
    this.noteAsked(asked?.questions ?? 0);
    if (this.waits) this.profile?.contended(event, this.enteredMs, heldBy, asked !== undefined);
  }

  /** The store has answered a question for it, and not granted it. */
  noteHeard(asked: Asked, clock: Clock): void {
    if (this.event !== undefined) this.noteContended(asked.blockers(clock.now()), asked);
  }

  noteAsked(questions: number): void {
    const { event } = this;
    if (event !== undefined) fill(event, { attempts: Math.max(event.attempts ?? 0, questions) });
  }

  /** The lock is busy: the certain no to a request that does not wait. */
  refuse({ heldBy, quarantineMs }: Blockers, asked?: Asked): void {
    this.noteContended({ heldBy }, asked);
    if (this.waitMode === "once") this.fail(new LockTimeoutError(this.queue.name, 0, heldBy, quarantineMs));
    else this.grant(null);
  }

  fail(error: unknown): void {
    this.#settle();
    this.#reject(error);
  }

  #settle(): void {
    this.settled = true;
    this.#deadlines.clear(this);
    this.unlisten?.();
  }
}

/** Its waiting time is over: the lock is busy, or the store could not be asked. */
export function endLate(request: Request, backend: string, nowMs: number): void {
  const { queue } = request;
  const asked = queue.refusalOf(request);
  if (asked === undefined) request.fail(tooLate(request, backend));
  else request.refuse(asked.blockers(nowMs), asked);
  queue.leave(request);
}

function tooLate({ queue, waits, options, deadlock }: Request, backend: string): Error {
  const cause = queue.trouble(waits);
  if (cause === undefined && waits) {
    const { heldBy, quarantineMs } = queue.blockers();
    return new LockTimeoutError(queue.name, options.waitMs, heldBy, quarantineMs, deadlock);
  }
  const detail = cause === undefined ? "no answer" : messageOf(cause);
  const votes = isA(LockBackendError, cause) ? cause.votes : [];
  const message = `Lock ${quote(queue.name)} was not acquired: the ${backend} store could not be asked (${detail}).`;
  return new LockBackendError(backend, queue.name, message, { cause, votes });
}

/** First come, first served; a request that gives up leaves from the middle at no cost. */
export class RequestList {
  first: Request | undefined;
  length = 0;
  #last: Request | undefined;

  push(request: Request): void {
    request.inLine = true;
    this.length++;
    request.previous = this.#last;
    if (this.#last === undefined) this.first = request;
    else this.#last.next = request;
    this.#last = request;
  }

  all(): readonly Request[] {
    const all: Request[] = [];
    for (let request = this.first; request !== undefined; request = request.next) all.push(request);
    return all;
  }

  shift(): Request | undefined {
    const request = this.first;
    if (request !== undefined) this.remove(request);
    return request;
  }

  /** `false`: it was not in the line. */
  remove(request: Request): boolean {
    if (!request.inLine) return false;
    request.inLine = false;
    this.length--;
    if (request.previous === undefined) this.first = request.next;
    else request.previous.next = request.next;
    if (request.next === undefined) this.#last = request.previous;
    else request.next.previous = request.previous;
    request.next = undefined;
    request.previous = undefined;
    return true;
  }

  /** How many from `head` on want the same, counted no further than `most`. */
  countSame(head: Request, most: number): number {
    let count = 0;
    for (let request: Request | undefined = head; request !== undefined && count < most; request = request.next) {
      if (request.options.shareKey !== head.options.shareKey) break;
      count++;
    }
    return count;
  }
}
