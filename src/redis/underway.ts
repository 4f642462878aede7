/** What was asked of the store and is not answered yet, so that close() leaves nothing behind, or says what. */
import type { Clock } from "../clock.ts";

interface Named {
  readonly name: string;
}

export class Underway {
  readonly #entering: Set<Named> = new Set();
  readonly #leaving: Set<Named> = new Set();
  #quiet: (() => void) | undefined;

  enter(claim: Named): void {
    this.#entering.add(claim);
  }

  entered(claim: Named): void {
    this.#entering.delete(claim);
    this.#look();
  }

  leave(claim: Named): void {
    this.#leaving.add(claim);
  }

  left(claim: Named): void {
    this.#leaving.delete(claim);
    this.#look();
  }

  /** Waits until all is answered, but no longer than `ms`. Resolves to the names of locks that may be left behind. */
  async settled(clock: Clock, ms: number): Promise<readonly string[]> {
    let late = false;
    const expired = clock.setTimer(() => {
      late = true;
      this.#quiet?.();
    }, ms);
    while (!late && !this.#isQuiet) {
      await new Promise<void>((resolve) => (this.#quiet = resolve));
      // An answer may make its caller ask for something else: a late grant is given back.
      if (!late) await new Promise((resolve) => setImmediate(resolve));
    }
    clock.clearTimer(expired);
    this.#quiet = undefined;
    return [...new Set([...this.#entering, ...this.#leaving].map(({ name }) => name))];
  }

  get #isQuiet(): boolean {
    return this.#entering.size === 0 && this.#leaving.size === 0;
  }

  #look(): void {
    if (this.#quiet !== undefined && this.#isQuiet) this.#quiet();
  }
}
