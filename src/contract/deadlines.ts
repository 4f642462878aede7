/** Many deadlines behind one timer: a heap, so that 100,000 leases cost no more timers than one. */
import type { Clock, Timer } from "./clock.ts";

/** Something that wants to be woken. It is in at most one heap. */
export interface Deadline {
  atMs: number;
  /** Its index in the heap, -1 while it is not set. Only the heap changes it. */
  heapIndex: number;
}

export class Deadlines<B extends Deadline> {
  readonly #clock: Clock;
  readonly #alive: boolean;
  readonly #ring: (nowMs: number) => void;
  readonly #heap: B[] = [];
  #timer: Timer;
  #timerAtMs = Infinity;
  #kept = false;
  #stopped = false;

  /** `ring` is called when the earliest entry is due; it takes what is due with {@link take}. */
  constructor(clock: Clock, alive: boolean, ring: (nowMs: number) => void) {
    this.#clock = clock;
    this.#alive = alive;
    this.#ring = ring;
  }

  get size(): number {
    return this.#heap.length;
  }

  /** Sets the entry, or moves it. */
  set(entry: B, atMs: number): void {
    const before = entry.atMs;
    entry.atMs = atMs;
    if (entry.heapIndex < 0) {
      this.#heap.push(entry);
      this.#up(this.#heap.length - 1, entry);
    } else if (atMs < before) this.#up(entry.heapIndex, entry);
    else this.#down(entry.heapIndex, entry);
    this.#arm();
  }

  clear(entry: B): void {
    const { heapIndex } = entry;
    if (heapIndex < 0) return;
    entry.heapIndex = -1;
    const last = this.#heap.pop()!;
    if (last !== entry) {
      if (last.atMs < entry.atMs) this.#up(heapIndex, last);
      else this.#down(heapIndex, last);
    }
    if (this.#heap.length === 0) this.#rest();
  }

  /** Takes the earliest entry out if it is due by `untilMs`. */
  take(untilMs: number): B | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.atMs > untilMs) return undefined;
    this.clear(first);
    return first;
  }

  /** A copy, so that entries may be set and cleared on the way. */
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

  /** No entry is left: let the process exit. */
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
    try {
      if (first.atMs <= nowMs) this.#ring(nowMs);
    } finally {
      // Whatever one of them throws, the others have their time.
      if (this.#heap.length > 0) this.#arm();
    }
  }

  #up(from: number, entry: B): void {
    const heap = this.#heap;
    let heapIndex = from;
    while (heapIndex > 0) {
      const parent = (heapIndex - 1) >> 1;
      const above = heap[parent]!;
      if (above.atMs <= entry.atMs) break;
      heap[heapIndex] = above;
      above.heapIndex = heapIndex;
      heapIndex = parent;
    }
    heap[heapIndex] = entry;
    entry.heapIndex = heapIndex;
  }

  #down(from: number, entry: B): void {
    const heap = this.#heap;
    const size = heap.length;
    let heapIndex = from;
    for (;;) {
      let child = 2 * heapIndex + 1;
      if (child >= size) break;
      if (child + 1 < size && heap[child + 1]!.atMs < heap[child]!.atMs) child++;
      const below = heap[child]!;
      if (below.atMs >= entry.atMs) break;
      heap[heapIndex] = below;
      below.heapIndex = heapIndex;
      heapIndex = child;
    }
    heap[heapIndex] = entry;
    entry.heapIndex = heapIndex;
  }
}
