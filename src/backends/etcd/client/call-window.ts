/**
 * How many calls are out at once. A member that gets thousands at the same time answers most of them too late, and each of those
 * is asked again. So the others wait here, unsent: those that keep or end something go before those that begin it.
 */
import { EtcdError, unsent } from "./errors.ts";

interface Turn {
  readonly limitMs: number;
  readonly pass: () => void;
  readonly reject: (error: EtcdError) => void;
  sinceMs: number;
  timer: NodeJS.Timeout;
}

/** More do not make a member any quicker. */
const MOST = 128;

export class CallWindow {
  readonly #urgent = new Set<Turn>();
  readonly #others = new Set<Turn>();
  #out = 0;
  #answeredMs = -Infinity;

  /** Waits for its turn, for as long as calls are answered; then for `limitMs` at most. `undefined`: at once. Ends with leave(). */
  enter(isUrgent: boolean, limitMs: number): Promise<void> | undefined {
    if (this.#out < MOST) {
      this.#out++;
      return undefined;
    }
    const line = isUrgent ? this.#urgent : this.#others;
    return new Promise((resolve, reject) => {
      const turn: Turn = {
        limitMs,
        pass: resolve,
        reject,
        sinceMs: performance.now(),
        timer: setTimeout(() => this.#look(line, turn), limitMs),
      };
      line.add(turn);
    });
  }

  leave(isAnswered: boolean): void {
    if (isAnswered) this.#answeredMs = performance.now();
    const line = this.#urgent.size > 0 ? this.#urgent : this.#others;
    const [next] = line;
    if (next === undefined) {
      this.#out--;
      return;
    }
    // Its place is handed over.
    line.delete(next);
    clearTimeout(next.timer);
    next.pass();
  }

  /** No call gets a turn any more. */
  close(error: EtcdError): void {
    for (const line of [this.#urgent, this.#others]) {
      for (const turn of line) this.#give(line, turn, error);
    }
  }

  #look(line: Set<Turn>, turn: Turn): void {
    if (this.#answeredMs <= turn.sinceMs) {
      this.#give(line, turn, unsent(`no call was answered within ${Math.round(turn.limitMs)} ms`));
      return;
    }
    turn.sinceMs = performance.now();
    turn.timer = setTimeout(() => this.#look(line, turn), turn.limitMs);
  }

  #give(line: Set<Turn>, turn: Turn, error: EtcdError): void {
    line.delete(turn);
    clearTimeout(turn.timer);
    turn.reject(error);
  }
}
