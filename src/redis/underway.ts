/** What was asked of the store and is not answered yet, so that close() leaves nothing behind, or says what. */
import type { Clock } from "../clock.ts";
import { formatMs } from "../duration.ts";
import { LockBackendError, quote } from "../errors.ts";

/** How long close() waits for answers at most. */
const CLOSE_MS = 2000;
const NAMES_SHOWN = 3;

interface Named {
  readonly name: string;
}

export class Underway {
  /** From now on nothing is begun that nobody waits for. */
  isClosing = false;
  readonly #clock: Clock;
  readonly #entering: Set<Named> = new Set();
  readonly #leaving: Set<Named> = new Set();
  #quiet: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

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

  /** Waits until all is answered, for a while. Resolves to an error that says what may be left behind, if anything. */
  async settled(): Promise<LockBackendError | undefined> {
    this.isClosing = true;
    let late = false;
    const expired = this.#clock.setTimer(() => {
      late = true;
      this.#quiet?.();
    }, CLOSE_MS);
    while (!late && !this.#isQuiet) {
      await new Promise<void>((resolve) => (this.#quiet = resolve));
      // An answer may make its caller ask for something else: a late grant is given back.
      if (!late) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#clock.clearTimer(expired);
    this.#quiet = undefined;
    const names = new Set([...this.#entering, ...this.#leaving].map(({ name }) => name));
    return names.size === 0 ? undefined : leftover([...names]);
  }

  get #isQuiet(): boolean {
    return this.#entering.size === 0 && this.#leaving.size === 0;
  }

  #look(): void {
    if (this.#quiet !== undefined && this.#isQuiet) this.#quiet();
  }
}

function leftover(names: readonly string[]): LockBackendError {
  const more = names.length > NAMES_SHOWN ? ` and ${names.length - NAMES_SHOWN} more` : "";
  const locks = names.slice(0, NAMES_SHOWN).map(quote).join(", ") + more;
  const text = `something may be left in Redis, which did not answer within ${formatMs(CLOSE_MS)} whether it let go of ${locks}. It ends by itself after its ttl`;
  return new LockBackendError("redis", names[0] ?? "", `Redis locks: ${text}.`);
}
