/** A process of the simulation: its own clocks, which run a little fast or slow, and ways to stop it in its tracks. */
import type { Clock, Timer } from "../../contract/clock.ts";
import type { FakeClock } from "../fake-clock.ts";

interface ProcessTimer {
  readonly fn: () => void;
  readonly dueMs: number;
  readonly sleeper: boolean;
  worldTimer: Timer;
  over: boolean;
}

export class SimulatedProcess {
  readonly name: string;
  /** How fast its monotonic clock runs; 1 is right. */
  readonly rate: number;
  readonly clock: Clock;
  /** When it last stood still, by the world's clock. */
  stoodStillMs: number = -Infinity;
  readonly #world: FakeClock;
  readonly #timers = new Set<ProcessTimer>();
  readonly #backlog: (() => void)[] = [];
  #state: "running" | "paused" | "suspended" | "dead" = "running";
  /** World time that the monotonic clock missed in its sleep. */
  #sleptMs = 0;
  #asleepSinceMs = 0;
  #wallStepMs = 0;

  constructor(world: FakeClock, name: string, rate: number) {
    this.#world = world;
    this.name = name;
    this.rate = rate;
    this.clock = {
      now: () => this.#now(),
      wall: () => world.wall() + this.#wallStepMs,
      setTimer: (fn, ms) => this.#setTimer(fn, ms, false),
      clearTimer: (timer) => this.#clearTimer(timer as ProcessTimer | undefined),
    };
  }

  get running(): boolean {
    return this.#state === "running";
  }

  get dead(): boolean {
    return this.#state === "dead";
  }

  /** Timers set through its clock. Those who sleep are not counted: they are the work, not what it works with. */
  get timers(): number {
    let count = 0;
    for (const timer of this.#timers) if (!timer.sleeper) count++;
    return count;
  }

  /** Lets the process's code run, now or when it runs again. Everything that reaches it comes through here. */
  deliver(fn: () => void): void {
    if (this.#state === "running") fn();
    else if (this.#state !== "dead") this.#backlog.push(fn);
  }

  /** Stops it as SIGSTOP or a long garbage collection does: its clocks go on. */
  pause(): void {
    if (this.#state === "running") this.#state = "paused";
  }

  /** Stops it as a closed laptop does: the monotonic clock stands still, the wall clock does not. */
  suspend(): void {
    if (this.#state !== "running") return;
    this.#asleepSinceMs = this.#world.now();
    this.#state = "suspended";
  }

  resume(): void {
    if (this.#state !== "paused" && this.#state !== "suspended") return;
    if (this.#state === "suspended") this.#sleptMs += this.#world.now() - this.#asleepSinceMs;
    this.#state = "running";
    this.stoodStillMs = this.#world.now();
    // One by one, each with time for its promises, as an event loop would.
    for (const fn of this.#backlog.splice(0)) this.#world.setTimer(() => this.deliver(fn), 0);
  }

  unpause(): void {
    if (this.#state === "paused") this.resume();
  }

  /** Ends it without a word. */
  crash(): void {
    this.#state = "dead";
    for (const timer of this.#timers) this.#world.clearTimer(timer.worldTimer);
    this.#timers.clear();
    this.#backlog.length = 0;
  }

  /** Sets its wall clock forward, or back, as an administrator does. */
  stepWall(ms: number): void {
    this.#wallStepMs += ms;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#setTimer(resolve, ms, true));
  }

  #now(): number {
    const worldMs = this.#state === "suspended" ? this.#asleepSinceMs : this.#world.now();
    return (worldMs - this.#sleptMs) * this.rate;
  }

  #setTimer(fn: () => void, ms: number, sleeper: boolean): Timer {
    const dueMs = this.#now() + Math.max(0, ms);
    const timer: ProcessTimer = { fn, dueMs, sleeper, worldTimer: undefined, over: false };
    this.#timers.add(timer);
    this.#wind(timer);
    return timer;
  }

  #wind(timer: ProcessTimer): void {
    const leftMs = Math.max(0, timer.dueMs - this.#now());
    timer.worldTimer = this.#world.setTimer(() => this.deliver(() => this.#fire(timer)), leftMs / this.rate);
  }

  #fire(timer: ProcessTimer): void {
    if (timer.over) return;
    // It slept meanwhile, so by its own clock there is time left.
    if (timer.dueMs - this.#now() > 0.001) return this.#wind(timer);
    timer.over = true;
    this.#timers.delete(timer);
    timer.fn();
  }

  #clearTimer(timer: ProcessTimer | undefined): void {
    if (timer === undefined) return;
    timer.over = true;
    this.#timers.delete(timer);
    this.#world.clearTimer(timer.worldTimer);
  }
}
