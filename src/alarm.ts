/** Many deadlines behind one timer: a heap, so that 100,000 leases cost no more timers than one. */
import type { Clock, Timer } from "./clock.ts";

/** Something that wants to be woken. It belongs to at most one alarm. */
export interface Bell {
  atMs: number;
  /** Its place in the heap, -1 while not set. Only the alarm changes it. */
  place: number;
}

export class Alarm<B extends Bell> {
  readonly #clock: Clock;
  readonly #alive: boolean;
  readonly #ring: (nowMs: number) => void;
  readonly #heap: B[] = [];
  #timer: Timer;
  #timerAtMs = Infinity;
  #kept = false;
  #stopped = false;

  /** `ring` is called when the earliest bell is due; it takes what is due with {@link take}. */
  constructor(clock: Clock, alive: boolean, ring: (nowMs: number) => void) {
    this.#clock = clock;
    this.#alive = alive;
    this.#ring = ring;
  }

  get size(): number {
    return this.#heap.length;
  }

  /** Sets the bell, or moves it. */
  set(bell: B, atMs: number): void {
    const before = bell.atMs;
    bell.atMs = atMs;
    if (bell.place < 0) {
      this.#heap.push(bell);
      this.#up(this.#heap.length - 1, bell);
    } else if (atMs < before) this.#up(bell.place, bell);
    else this.#down(bell.place, bell);
    this.#arm();
  }

  clear(bell: B): void {
    const { place } = bell;
    if (place < 0) return;
    bell.place = -1;
    const last = this.#heap.pop()!;
    if (last !== bell) {
      if (last.atMs < bell.atMs) this.#up(place, last);
      else this.#down(place, last);
    }
    if (this.#heap.length === 0) this.#rest();
  }

  /** Takes the earliest bell out if it is due by `untilMs`. */
  take(untilMs: number): B | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.atMs > untilMs) return undefined;
    this.clear(first);
    return first;
  }

  /** A copy: whoever walks over it may set and clear bells. */
  all(): readonly B[] {
    return this.#heap.slice();
  }

  /** For good: nothing rings any more. */
  stop(): void {
    this.#stopped = true;
    this.#clock.clearTimer(this.#timer);
    this.#timer = undefined;
  }

  /** A timer that would ring too early stays: re-arming it on every acquire would cost more than one idle wake-up. */
  #arm(): void {
    const atMs = this.#heap[0]!.atMs;
    if (atMs === Infinity || this.#stopped) return;
    if (this.#timer === undefined || atMs < this.#timerAtMs) {
      this.#clock.clearTimer(this.#timer);
      this.#timerAtMs = atMs;
      this.#timer = this.#clock.setTimer(
        () => this.#fire(),
        Math.max(0, Math.ceil(atMs - this.#clock.now())),
        this.#alive,
      );
      this.#kept = this.#alive;
    } else if (this.#alive && !this.#kept) {
      this.#kept = true;
      this.#clock.keepAlive?.(this.#timer, true);
    }
  }

  /** Nobody waits: the timer, if set, no longer keeps the process. */
  #rest(): void {
    if (!this.#kept || this.#timer === undefined) return;
    this.#kept = false;
    this.#clock.keepAlive?.(this.#timer, false);
  }

  #fire(): void {
    this.#timer = undefined;
    this.#timerAtMs = Infinity;
    const nowMs = this.#clock.now();
    const first = this.#heap[0];
    if (first === undefined) return;
    if (first.atMs <= nowMs) this.#ring(nowMs);
    if (this.#heap.length > 0) this.#arm();
  }

  #up(from: number, bell: B): void {
    const heap = this.#heap;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = heap[parent]!;
      if (above.atMs <= bell.atMs) break;
      heap[place] = above;
      above.place = place;
      place = parent;
    }
    heap[place] = bell;
    bell.place = place;
  }

  #down(from: number, bell: B): void {
    const heap = this.#heap;
    const size = heap.length;
    let place = from;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= size) break;
      if (child + 1 < size && heap[child + 1]!.atMs < heap[child]!.atMs) child++;
      const below = heap[child]!;
      if (below.atMs >= bell.atMs) break;
      heap[place] = below;
      below.place = place;
      place = child;
    }
    heap[place] = bell;
    bell.place = place;
  }
}
