/**
 * Hints that a lock was released, for one waiting claim. Listening begins with the first refusal and lasts until the
 * claim ends, so that a release between an attempt and the waiting that follows is not missed.
 */
import type { Seat } from "./seat.ts";

export class Hints {
  #stops: (() => void)[] | undefined;
  #heard = false;
  #wake: (() => void) | undefined;

  listen(seats: readonly Seat[], name: string): void {
    if (this.#stops !== undefined) return;
    this.#stops = [];
    const hear = (): void => {
      this.#heard = true;
      this.#wake?.();
    };
    for (const { member } of seats) if (member.freed !== undefined) this.#stops.push(member.freed(name, hear));
  }

  /** What was heard so far is answered by the attempt that begins now. */
  forget(): void {
    this.#heard = false;
  }

  /** Calls `wake` at the next hint, or at once if one came since {@link forget}. */
  await(wake: (() => void) | undefined): void {
    this.#wake = wake;
    if (this.#heard) wake?.();
  }

  stop(): void {
    for (const stop of this.#stops ?? []) stop();
    this.#stops = [];
    this.#wake = undefined;
  }
}
