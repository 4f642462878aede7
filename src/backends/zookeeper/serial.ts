/** A claim that this process knows. What is done with it is done one after the other. */
import type { Ticket } from "./recipe.ts";

export class Entry {
  ticket: Ticket;
  #isBusy = false;
  readonly #waiting: (() => void)[] = [];

  constructor(ticket: Ticket) {
    this.ticket = ticket;
  }

  /** Waits for its turn: a release comes after the attempt before it, and removes what that made. Ends with leave(). */
  enter(): Promise<void> | undefined {
    if (this.#isBusy) return new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#isBusy = true;
    return undefined;
  }

  leave(): void {
    const next = this.#waiting.shift();
    // Handed on without a gap, so that nobody slips in between.
    if (next === undefined) this.#isBusy = false;
    else next();
  }
}
