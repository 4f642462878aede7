/** Hints that a lock may have become free: for the waiters of a quorum, whose votes never queue. */
export class ReleaseHints {
  readonly #listeners = new Map<string, Set<() => void>>();

  /** Calls `wake` after every release of the lock, until the function returned is called. */
  listen(name: string, wake: () => void): () => void {
    const wakes = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, wakes);
    wakes.add(wake);
    return () => {
      wakes.delete(wake);
      if (wakes.size === 0 && this.#listeners.get(name) === wakes) this.#listeners.delete(name);
    };
  }

  count(name: string): number {
    return this.#listeners.get(name)?.size ?? 0;
  }

  /** After the store's step, so a listener may use the store again. */
  notify(name: string): void {
    for (const wake of this.#listeners.get(name) ?? []) queueMicrotask(wake);
  }
}
