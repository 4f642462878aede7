/**
 * Whether a stream may be open in this tab. A browser has six connections to a server, for all of its tabs: with six streams nothing else
 * would be answered. So of the tabs that cannot be seen a few keep theirs, and the others open it when they are looked at.
 */

const KEPT_MAX = 3;

export class Turn {
  #stop = new AbortController();
  #letGo: (() => void) | undefined;
  #wake: (() => void) | undefined;

  constructor() {
    document.addEventListener("visibilitychange", () => void this.#look());
  }

  /** Resolves when a stream may be open; what it gives says when it has to end. */
  async next(): Promise<AbortSignal> {
    this.#stop = new AbortController();
    while (document.hidden && !(await this.#keep())) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.#stop.signal;
  }

  async #look(): Promise<void> {
    if (document.hidden) {
      if (!(await this.#keep()) && document.hidden) this.#stop.abort();
      return;
    }
    this.#letGo?.();
    this.#letGo = undefined;
    this.#wake?.();
  }

  /** True: it has one of the few places. Where the browser does not know who has them, there are none. */
  async #keep(): Promise<boolean> {
    if (this.#letGo !== undefined) return true;
    if (!("locks" in navigator)) return false;
    for (let place = 0; place < KEPT_MAX; place++) if (await this.#take(`holdfast:console:${place}`)) return true;
    return false;
  }

  #take(place: string): Promise<boolean> {
    return new Promise((resolve) => {
      const hold = (lock: Lock | null): Promise<void> | undefined => {
        resolve(lock !== null);
        return lock === null || !document.hidden ? undefined : new Promise((letGo) => (this.#letGo = letGo));
      };
      navigator.locks.request(place, { ifAvailable: true }, hold).catch(() => resolve(false));
    });
  }
}
