/** What was asked of the store and is not answered yet, so that close() leaves nothing behind, or says what. */
import type { Clock } from "../../contract/clock.ts";
import { formatMs } from "../../contract/duration.ts";
import { LockBackendError, quote } from "../../contract/errors.ts";

/** How long close() waits for answers at most. */
const CLOSE_MS = 2000;
const NAMES_SHOWN = 3;

/** Something that may be under way: a link of a list, so that beginning and ending cost neither a search nor memory. */
export interface Asked {
  readonly claim: { readonly name: string };
  /** What is asked and not answered: {@link ENTERING}, {@link LEAVING}, both, or 0. */
  asked: number;
  before: Asked | undefined;
  after: Asked | undefined;
}

export const ENTERING = 1;
export const LEAVING = 2;

export class Underway {
  /** From now on nothing is begun that nobody waits for. */
  isClosing = false;
  readonly #clock: Clock;
  #first: Asked | undefined;
  #quiet: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(one: Asked, what: typeof ENTERING | typeof LEAVING): void {
    if (one.asked === 0) {
      const first = this.#first;
      one.after = first;
      if (first !== undefined) first.before = one;
      this.#first = one;
    }
    one.asked |= what;
  }

  end(one: Asked, what: typeof ENTERING | typeof LEAVING): void {
    if (one.asked === 0) return;
    one.asked &= ~what;
    if (one.asked !== 0) return;
    const { before, after } = one;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after !== undefined) after.before = before;
    one.before = undefined;
    one.after = undefined;
    if (after === undefined && before === undefined) this.#quiet?.();
  }

  /** Waits until all is answered, for a while. Resolves to an error that says what may be left behind, if anything. */
  async settled(): Promise<LockBackendError | undefined> {
    this.isClosing = true;
    let late = false;
    const expired = this.#clock.setTimer(() => {
      late = true;
      this.#quiet?.();
    }, CLOSE_MS);
    while (!late && this.#first !== undefined) {
      await new Promise<void>((resolve) => (this.#quiet = resolve));
      // An answer may make its caller ask for something else: a late grant is given back.
      if (!late) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#clock.clearTimer(expired);
    this.#quiet = undefined;
    const names = new Set<string>();
    for (let one = this.#first; one !== undefined; one = one.after) names.add(one.claim.name);
    return names.size === 0 ? undefined : leftover([...names]);
  }
}

function leftover(names: readonly string[]): LockBackendError {
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  const locks = names.slice(0, NAMES_SHOWN).map(quote).join(", ") + more;
  const text = `something may be left in Redis, which did not answer within ${formatMs(CLOSE_MS)} whether it let go of ${locks}. It ends by itself after its ttl`;
  return new LockBackendError("redis", names[0] ?? "", `Redis locks: ${text}.`);
}
