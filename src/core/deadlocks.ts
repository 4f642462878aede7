/**
 * Looks whether those who hold locks and wait for others wait for each other. Loaded when one of them has waited for a second.
 *
 * Whom the holder of a lock waits for is not written at that lock. So the search goes the other way: it asks for the locks that the waiter
 * holds, finds who waits for those and what they hold, and so on. Where that leads back to the waiter it is a deadlock. What other
 * processes say may be old, and locks are not all asked for at one instant: so it must be the same, by claims and fences, when it is
 * looked at again. Each thing that was there both times was there all the time in between, so that they were there together.
 */
import type { Deadlock } from "../contract/deadlock.ts";
import { LockDeadlockError } from "../contract/errors.ts";
import { deadlockChannel, type DeadlockEvent } from "../contract/events.ts";
import { onAbort } from "../contract/on-abort.ts";
import { inContext } from "./context.ts";
import { jitter } from "../contract/random.ts";
import { DeadlockGraph, marksOf, type Waiter, waitersOf } from "./deadlock-graph.ts";
import { LockQuestions } from "./deadlock-questions.ts";
import { victimOf } from "./deadlock-victim.ts";
import { toDeadlock } from "./deadlock-words.ts";
import type { Engine } from "./engine.ts";
import type { LocalQueue } from "./local-queue.ts";
import type { Request } from "./request.ts";

/** How many locks the store is asked for each time, the second time not counted. */
const LOCKS_MAX = 32;
/** Looks of one process do not follow each other more closely. */
const GAP_MS = 1000;
/** Between the two times. */
const AGAIN_MS = 500;
/** Until the same waiter looks again. */
const PAUSE_MIN_MS = 1000;
const PAUSE_MAX_MS = 60_000;
const PAUSE_GROWTH = 4;
const REPORTED_MAX = 256;

export class DeadlockWatch {
  readonly #engine: Engine;
  readonly #due = new Set<Request>();
  readonly #pauses = new WeakMap<Request, number>();
  readonly #reported = new Set<string>();
  #isLooking = false;
  #lookedMs = -Infinity;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** It has waited for long. All who have are looked at together. */
  add(request: Request): void {
    this.#due.add(request);
    if (!this.#isLooking) void this.#lookAtAll();
  }

  async #lookAtAll(): Promise<void> {
    const { clock, closing } = this.#engine;
    this.#isLooking = true;
    while (this.#due.size > 0 && !closing.aborted) {
      await this.#sleep(this.#lookedMs + GAP_MS - clock.now());
      // Mostly it is the last to wait that makes a deadlock: who has not looked yet goes first.
      const looked = (request: Request): number => this.#pauses.get(request) ?? 0;
      const due = [...this.#due].filter(({ settled }) => !settled).toSorted((a, b) => looked(a) - looked(b));
      this.#due.clear();
      // What the store does not answer now is asked again the next time.
      const left = await this.#look(due).catch((): readonly Request[] => []);
      this.#lookedMs = clock.now();
      for (const request of left) this.#due.add(request);
      for (const request of due) if (!this.#due.has(request)) request.lookAt(clock.now() + this.#pauseMs(request));
    }
    this.#isLooking = false;
  }

  #pauseMs(request: Request): number {
    const pauseMs = this.#pauses.get(request) ?? PAUSE_MIN_MS;
    this.#pauses.set(request, Math.min(PAUSE_MAX_MS, pauseMs * PAUSE_GROWTH));
    return jitter(pauseMs, 1, 1.5, this.#engine.chance);
  }

  /** Returns those that it did not get to. */
  async #look(due: readonly Request[]): Promise<readonly Request[]> {
    const engine = this.#engine;
    const queues = [...new Set(due.map(({ queue }) => queue as LocalQueue))];
    // Those who look from other processes must see what is true here.
    for (const queue of queues) queue.publish();
    const questions = new LockQuestions(engine, LOCKS_MAX);
    const left = await explore(engine, due, questions);
    const suspects = new DeadlockGraph(questions.states()).knots().filter((knot) => this.#ownIn(knot).length > 0);
    const seen = new Set(suspects.flatMap(marksOf));
    const again = new LockQuestions(engine, Infinity);
    if (suspects.length > 0) {
      await this.#sleep(jitter(AGAIN_MS, 1, 1.5, engine.chance));
      for (const name of new Set(suspects.flat().map(({ lock }) => lock))) await again.ask(name);
    }
    const graph = new DeadlockGraph(again.states(), seen);
    for (const queue of queues) for (const request of queue.waiting.requests) request.deadlock = undefined;
    for (const knot of graph.knots()) this.#tell(graph, knot);
    return left;
  }

  /** Its waiters that are of this process. */
  #ownIn(knot: readonly Waiter[]): readonly Waiter[] {
    return knot.filter(({ lock, entry, behind }) => {
      const queue = this.#engine.queueOf(lock);
      if (queue === undefined) return false;
      if (entry !== undefined) return queue.waiting.claimIds.includes(entry.id!);
      return queue.holds.some(({ firstFence }) => firstFence === behind!.fence);
    });
  }

  /** Subscribers may do anything: all that is ours is settled before, and looked at again afterwards. */
  #tell(graph: DeadlockGraph, knot: readonly Waiter[]): void {
    const engine = this.#engine;
    const own = this.#ownIn(knot);
    if (own.length === 0 || engine.closed) return;
    const deadlock = toDeadlock(graph, knot, own[0]);
    const lines = new Map(own.map((waiter) => [waiter, engine.queueOf(waiter.lock)!.waiting.requests]));
    for (const request of [...lines.values()].flat()) request.deadlock = deadlock;
    const victim = victimOf(engine, graph, knot, lines);
    // Each that is rejected is reported: of several that share a lease, the next is in the same deadlock.
    if (victim !== undefined || this.#isNew(knot)) this.#publish(deadlock, victim !== undefined);
    if (victim !== undefined) engine.giveUp(victim, new LockDeadlockError(victim.queue.name, deadlock));
  }

  #isNew(knot: readonly Waiter[]): boolean {
    const key = marksOf(knot).toSorted().join("\n\n");
    if (this.#reported.has(key)) return false;
    if (this.#reported.size >= REPORTED_MAX) this.#reported.clear();
    this.#reported.add(key);
    return true;
  }

  #publish(deadlock: Deadlock, rejects: boolean): void {
    if (!deadlockChannel.hasSubscribers) return;
    const event: DeadlockEvent = { ...deadlock, backend: this.#engine.backend.name, rejects };
    // Set off by a timer or an answer: its subscribers are inside of no one's lease.
    inContext(undefined, () => deadlockChannel.publish(event));
  }

  /** Until closing begins. It keeps no process alive: those who wait do. */
  #sleep(ms: number): Promise<void> {
    const { clock, closing } = this.#engine;
    if (ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = clock.setTimer(() => {
        unlisten();
        resolve();
      }, ms);
      const unlisten = onAbort(closing, () => {
        clock.clearTimer(timer);
        resolve();
      });
    });
  }
}

/** Asks for the locks that they hold, for those that are held by who waits for these, and so on. */
async function explore(engine: Engine, due: readonly Request[], questions: LockQuestions): Promise<readonly Request[]> {
  for (const [at, { scope }] of due.entries()) {
    const names = new Set(scope?.held(engine).map(({ name }) => name));
    // A set gives what is added on the way, too.
    for (const name of names) {
      const state = await questions.ask(name);
      // One whose own part is too large counts as looked at: otherwise the others would never be.
      if (state === undefined) return due.slice(Math.max(1, at));
      for (const held of waitersOf(state).flatMap(({ holds }) => holds)) names.add(held.name);
    }
  }
  return [];
}
