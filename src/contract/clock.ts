/** Time, handed in: so that the whole core runs under a simulated clock. */

export interface Clock {
  /** Milliseconds of a monotonic clock. The only time that decides anything. */
  now(): number;
  /** Milliseconds since 1970. Used only to notice that the machine slept; it never ends or extends a lease by itself. */
  wall(): number;
  /** Calls `fn` after `ms`. The process may exit before that unless `alive` is true. */
  setTimer(fn: () => void, ms: number, alive?: boolean): Timer;
  clearTimer(timer: Timer): void;
  /** Says whether a timer that is already set keeps the process alive. Absent: the clock has no process to keep. */
  keepAlive?(timer: Timer, alive: boolean): void;
}

/** Opaque: only the clock that made it looks inside. */
export type Timer = unknown;

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  setTimer: (fn, ms, alive = false) => {
    // A longer delay would overflow to 1 ms in Node; whoever set it looks again when it fires.
    const timer = setTimeout(fn, Math.min(ms, 2 ** 31 - 1));
    if (!alive) timer.unref();
    return timer;
  },
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  keepAlive: (timer, alive) => {
    if (alive) (timer as NodeJS.Timeout).ref();
    else (timer as NodeJS.Timeout).unref();
  },
};

/**
 * Milliseconds of the machine's monotonic clock: the same in all processes of this boot, and standing still while the machine
 * sleeps. A clock that was handed in cannot be compared between processes: its own time is the answer.
 */
export function machineMs(clock: Clock = systemClock): number {
  return clock === systemClock ? Number(process.hrtime.bigint()) / 1e6 : clock.now();
}
