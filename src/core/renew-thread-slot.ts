/**
 * What two threads share of one hold: two numbers in memory that both can reach, so a blocked event loop is in no
 * one's way. The worker confirms; the main thread reads, and says when it wants an answer at once.
 */
const [AT, WANTED] = [0, 1] as const;

export class ThreadSlot {
  readonly memory: SharedArrayBuffer;
  readonly #view: Float64Array;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(16)) {
    this.memory = memory;
    this.#view = new Float64Array(memory);
  }

  /** The last instant at which the lease was proved to be held, by the machine's clock: `performance.now()` counts from each thread's own beginning. */
  get atMs(): number {
    return this.#view[AT]!;
  }

  /**
   * True: the main thread waits to hear whether the lease is still held. It stays so until there is an answer, whatever becomes of the
   * worker: so one message is enough, however often it is checked, and the next worker knows of it.
   */
  get isWanted(): boolean {
    return this.#view[WANTED] === 1;
  }

  want(): void {
    this.#view[WANTED] = 1;
  }

  /** Moves forward only: answers may come in another order than the questions left. */
  confirm(atMs: number): void {
    if (atMs > this.atMs) this.#view[AT] = atMs;
    this.#view[WANTED] = 0;
  }
}
