/**
 * The judge of what is left in a process: timers, sockets and other resources, and listeners on what belongs to others.
 * It notes what there is before, and reports what there is more of afterwards.
 */
import { AssertionError } from "node:assert";
import type { EventEmitter } from "node:events";
import type { Clock, Timer } from "../contract/clock.ts";

/** Something was left behind. A class of its own, because the check itself may have passed. */
export class LeftoverError extends AssertionError {
  constructor(left: readonly string[]) {
    super({ message: `left behind: ${left.join("; ")}` });
    this.name = "LeftoverError";
  }
}

/** A clock that knows how many of its timers are set: a fake one, or one made so by {@link countTimers}. */
export interface CountingClock extends Clock {
  readonly timers: number;
}

export interface Watched {
  /** Where timers are counted, also those that keep no process alive. */
  readonly clock?: Clock | undefined;
  /** What a user gave to the code under test, and gets back as it was. */
  readonly emitters?: Readonly<Record<string, EventEmitter>> | undefined;
  /** False: what keeps this process alive is not looked at, because others use it meanwhile. @default true */
  readonly process?: boolean | undefined;
}

export class Leftovers {
  readonly #watched: Watched;
  readonly #before: ReadonlyMap<string, number>;

  constructor(watched: Watched = {}) {
    this.#watched = watched;
    this.#before = count(watched);
  }

  /** What there is now and was not there before, in words. */
  look(): readonly string[] {
    const left: string[] = [];
    for (const [what, now] of count(this.#watched)) {
      const more = now - (this.#before.get(what) ?? 0);
      if (more > 0) left.push(more === 1 ? what : `${more} × ${what}`);
    }
    return left;
  }

  /** The same, at most `patienceMs` later, in real time: what is about to end needs a moment. */
  async lookAtLast(patienceMs: number): Promise<readonly string[]> {
    return atLast(() => this.look(), patienceMs);
  }
}

const LOOK_EVERY_MS = 20;

/** Looks until nothing is left, or patience is over: what is left then. */
export async function atLast(
  look: () => Promise<readonly string[]> | readonly string[],
  patienceMs: number,
): Promise<readonly string[]> {
  const untilMs = performance.now() + patienceMs;
  for (;;) {
    const left = await look();
    if (left.length === 0 || performance.now() >= untilMs) return left;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/** Makes a clock count its timers, in place: all its users are counted from now on, also those that have it already. */
export function countTimers(clock: Clock): CountingClock {
  const timers = new Set<Timer>();
  const setTimer = clock.setTimer.bind(clock);
  const clearTimer = clock.clearTimer.bind(clock);
  return Object.defineProperty(
    Object.assign(clock, {
      setTimer(fn: () => void, ms: number, alive?: boolean): Timer {
        const fire = (): void => {
          timers.delete(timer);
          fn();
        };
        const timer = setTimer(fire, ms, alive);
        timers.add(timer);
        return timer;
      },
      clearTimer(timer: Timer): void {
        timers.delete(timer);
        clearTimer(timer);
      },
    }),
    "timers",
    { get: () => timers.size, configurable: true },
  ) as Clock & CountingClock;
}

function count({ clock, emitters = {}, process: looksAtProcess = true }: Watched): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  const add = (what: string, more: number): void => void counts.set(what, (counts.get(what) ?? 0) + more);
  if (looksAtProcess)
    for (const resource of process.getActiveResourcesInfo()) add(`open in the process: ${resource}`, 1);
  if (clock !== undefined && "timers" in clock) add("a timer", (clock as CountingClock).timers);
  for (const [name, emitter] of Object.entries(emitters)) {
    for (const event of emitter.eventNames()) {
      add(`a listener for ${JSON.stringify(String(event))} on ${name}`, emitter.listenerCount(event));
    }
  }
  return counts;
}
