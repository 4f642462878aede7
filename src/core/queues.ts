/** The queues in front of locks, by the names of these. */
import { LocalQueue, type QueueParts } from "./local-queue.ts";

const IDLE_QUEUES = 256;

export class Queues {
  readonly #parts: QueueParts;
  readonly #byName: Map<string, LocalQueue> = new Map();
  #most = IDLE_QUEUES;

  constructor(parts: QueueParts) {
    this.#parts = parts;
  }

  get(name: string): LocalQueue | undefined {
    return this.#byName.get(name);
  }

  add(name: string): LocalQueue {
    if (this.#byName.size >= this.#most) this.#clearIdle();
    const queue = new LocalQueue(name, this.#parts);
    this.#byName.set(name, queue);
    return queue;
  }

  all(): Iterable<LocalQueue> {
    return this.#byName.values();
  }

  /** Those that are meant, as far as anything is in them. */
  used(isMeant: (name: string) => boolean): readonly LocalQueue[] {
    return [...this.#byName.values()].filter((queue) => !queue.idle && isMeant(queue.name));
  }

  /** Idle queues stay for a while, because a lock is mostly wanted again; never more than those in use, or a few. */
  #clearIdle(): void {
    for (const [name, queue] of this.#byName) if (queue.idle) this.#byName.delete(name);
    this.#most = Math.max(IDLE_QUEUES, 2 * this.#byName.size);
  }
}
