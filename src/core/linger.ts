/**
 * `linger`: a hold that no request here wants is kept for a moment, so that the next one takes it in memory. It is renewed and trusted as
 * any other. It goes back when its moment is over, when the store says that it is wanted, when a request cannot use it, and on close().
 */
import type { Clock } from "../contract/clock.ts";
import { Deadlines } from "../contract/deadlines.ts";
import type { Hold } from "./hold.ts";
import type { Idle } from "./hold-neighbours.ts";

/** All holds that linger, behind one timer, which keeps the process alive: they are to be given back. */
export class Lingering {
  readonly #deadlines: Deadlines<Idle<Hold>>;

  constructor(clock: Clock) {
    this.#deadlines = new Deadlines<Idle<Hold>>(clock, true, (nowMs) => this.#look(nowMs));
  }

  /** From now on no lease uses it. Its deadline is not moved each time: that would cost more than the rest. */
  begin(hold: Hold, nowMs: number): void {
    const idle = (hold.idle ??= { hold, untilMs: undefined, atMs: 0, heapIndex: -1 });
    idle.untilMs = nowMs + hold.options.lingerMs;
    if (idle.heapIndex < 0) this.#deadlines.set(idle, idle.untilMs);
  }

  /** It is over. */
  drop({ idle }: Hold): void {
    if (idle !== undefined) this.#deadlines.clear(idle);
  }

  stop(): void {
    this.#deadlines.stop();
  }

  #look(nowMs: number): void {
    const due: Hold[] = [];
    for (let idle = this.#deadlines.take(nowMs); idle !== undefined; idle = this.#deadlines.take(nowMs)) {
      const { untilMs, hold } = idle;
      if (untilMs === undefined) continue;
      if (untilMs > nowMs) this.#deadlines.set(idle, untilMs);
      else due.push(hold);
    }
    for (const hold of due) hold.letGo();
  }
}
