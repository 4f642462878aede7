/**
 * Hints that a lock was released, for one waiting claim. Listening begins with the first refusal and lasts until the
 * claim ends, so that a release between an attempt and the waiting that follows is not missed.
 *
 * Whoever loses a round releases the members that it had won, and that too is a hint to everybody else. So a claim is
 * woken only when a majority may be free: else waiters would wake each other for ever while somebody holds the lock.
 */
import { majorityOf, type Round } from "./round.ts";
import type { Seat } from "./member-link.ts";

export class Hints {
  readonly #heard = new Set<Seat>();
  #seats: readonly Seat[] = [];
  #stops: (() => void)[] = [];
  #lost: Round | undefined;
  #wake: (() => void) | undefined;

  /** What was heard so far is answered by the attempt that begins now. */
  forget(): void {
    this.#heard.clear();
  }

  /** The claim was refused: from now on releases matter. */
  listen(seats: readonly Seat[], name: string, lost: Round): void {
    this.#lost = lost;
    if (this.#seats.length > 0) return;
    this.#seats = seats;
    for (const seat of seats) {
      if (seat.member.freed === undefined) continue;
      const stop = seat.member.freed(name, () => {
        this.#heard.add(seat);
        this.#tell();
      });
      this.#stops.push(stop);
    }
  }

  get isListening(): boolean {
    return this.#stops.length > 0;
  }

  /** Calls `wake` when a majority may be free; at once if that is known already. */
  await(wake: (() => void) | undefined): void {
    this.#wake = wake;
    this.#tell();
  }

  stop(): void {
    for (const stop of this.#stops) stop();
    this.#stops = [];
    this.#wake = undefined;
  }

  #tell(): void {
    if (this.#wake === undefined || this.#heard.size === 0) return;
    const free = this.#seats.filter((seat) => this.#heard.has(seat) || this.#wasFree(seat)).length;
    if (free >= majorityOf(this.#seats.length)) this.#wake();
  }

  #wasFree(seat: Seat): boolean {
    const vote = this.#lost?.vote(seat)?.vote;
    return vote === "granted" || vote === "low";
  }
}
