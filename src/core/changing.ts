/** Something that others wait for until it has changed: a hold. */
export class Changing {
  #listeners: Set<() => void> | undefined;

  /** Resolves when it is confirmed, has one user less, or has ended. */
  changed(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.onChange(() => {
        stop();
        resolve();
      });
    });
  }

  /** As {@link changed}, each time, until what this returns is called. */
  onChange(listener: () => void): () => void {
    const listeners = (this.#listeners ??= new Set());
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  protected tell(): void {
    if (this.#listeners !== undefined) for (const listener of this.#listeners) listener();
  }
}
