/**
 * How many calls are out at once on a connection. A member that gets thousands at the same time answers most of them too late, and
 * each of those is asked again. So the others wait here, unsent, by their rank.
 */

/** Whether a call keeps something, ends it, or begins it: in this order they go. Nothing shall be lost because much is released. */
export type Rank = (typeof RANKS)[number];

interface Turn {
  readonly limitMs: number;
  readonly settle: (isTurn: boolean) => void;
  sinceMs: number;
  timer: NodeJS.Timeout;
}

const RANKS = ["keep", "end", "begin"] as const;
/** More do not make a member any quicker. */
const MOST = 128;

export class CallWindow {
  readonly #lines: Readonly<Record<Rank, Set<Turn>>> = { keep: new Set(), end: new Set(), begin: new Set() };
  #out = 0;
  #answeredMs = -Infinity;
  #isClosed = false;

  /** When a call was answered last. */
  get answeredMs(): number {
    return this.#answeredMs;
  }

  /**
   * Waits for its turn, for as long as calls are answered, then for `limitMs` at most. `undefined`, at once, or `true`: it has one,
   * which ends with leave(). `false`: no call was answered in that time, or the window was closed.
   */
  enter(rank: Rank, limitMs: number): Promise<boolean> | undefined {
    if (this.#out < MOST) {
      this.#out++;
      return undefined;
    }
    if (this.#isClosed) return Promise.resolve(false);
    const line = this.#lines[rank];
    return new Promise((settle) => {
      const timer = setTimeout(() => this.#look(line, turn), limitMs);
      const turn: Turn = { limitMs, settle, sinceMs: performance.now(), timer };
      line.add(turn);
    });
  }

  leave(isAnswered: boolean): void {
    if (isAnswered) this.#answeredMs = performance.now();
    for (const rank of RANKS) {
      const [next] = this.#lines[rank];
      // Its place is handed over.
      if (next !== undefined) return this.#settle(this.#lines[rank], next, true);
    }
    this.#out--;
  }

  /** Its connection takes no new calls: those that wait find another one. */
  close(): void {
    this.#isClosed = true;
    for (const line of Object.values(this.#lines)) {
      for (const turn of line) this.#settle(line, turn, false);
    }
  }

  #look(line: Set<Turn>, turn: Turn): void {
    if (this.#answeredMs <= turn.sinceMs) return this.#settle(line, turn, false);
    turn.sinceMs = performance.now();
    turn.timer = setTimeout(() => this.#look(line, turn), turn.limitMs);
  }

  #settle(line: Set<Turn>, turn: Turn, isTurn: boolean): void {
    line.delete(turn);
    clearTimeout(turn.timer);
    turn.settle(isTurn);
  }
}
