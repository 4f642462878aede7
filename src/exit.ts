/** The way out of a lock: a hold goes back to the store, and its holder learns what became of it, in bounded time. */
import type { ReleaseResult } from "./api.ts";
import type { Hold } from "./hold.ts";
import { releaseAgain } from "./release.ts";
import type { Surroundings } from "./surroundings.ts";

export interface ExitHome extends Surroundings {
  /** A release is on its way: `late` is called unless it is {@link answered} in time. */
  expectAnswer(hold: Hold, late: () => void): void;
  answered(hold: Hold): void;
}

export class Exit {
  /** Releases under way. */
  pending = 0;
  readonly #home: ExitHome;

  constructor(home: ExitHome) {
    this.#home = home;
  }

  /** Releases the hold. A store that is silent is asked again, and then the answer is "unknown". */
  release(hold: Hold): Promise<ReleaseResult> {
    const home = this.#home;
    this.pending++;
    return new Promise((resolve) => {
      let open = true;
      let alone = true;
      const settle = (known: boolean | undefined): void => {
        if (!open) return;
        open = false;
        home.answered(hold);
        this.pending--;
        resolve(toResult(known));
      };
      const again = (): void => {
        if (!alone) return;
        alone = false;
        home.answered(hold);
        void releaseAgain(home, hold).then(settle);
      };
      home.expectAnswer(hold, again);
      // Once it was asked for again, a late "absent" proves nothing: the second asking may have been the first to arrive.
      home.backend
        .release(hold.claim)
        .then((was) => (alone || was === "held" ? settle(was === "held") : undefined), again);
    });
  }

  /** Releases a hold whose first release got no answer. */
  async again(hold: Hold): Promise<ReleaseResult> {
    this.pending++;
    const known = await releaseAgain(this.#home, hold);
    this.pending--;
    return toResult(known);
  }
}

function toResult(known: boolean | undefined): ReleaseResult {
  if (known === undefined) return "unknown";
  return known ? "released" : "lost";
}
