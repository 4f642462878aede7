/** Asks which leases are wanted, for a process that no message reaches: only for those whose holder wants to know, all in one statement. */
import type { Claim } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import type { Connection } from "./connection.ts";
import { CALL_LOOK_WANTED } from "./generated/sql.ts";
import { toArray, toBytesArray } from "./records.ts";

/** As often as waiters without messages ask, at their slowest. */
const PACE_MS = 250;
/** Further ones learn it from their renewals. */
const MOST = 1000;

export class WantedPoll {
  readonly #connection: Connection;
  readonly #clock: Clock;
  /** Whether messages arrive. */
  readonly #hears: () => boolean;
  readonly #tell: (claimId: string) => void;
  readonly #expected: Map<string, Claim> = new Map();
  #timer: Timer;
  #asking = false;
  #closed = false;

  constructor(connection: Connection, clock: Clock, hears: () => boolean, tell: (claimId: string) => void) {
    this.#connection = connection;
    this.#clock = clock;
    this.#hears = hears;
    this.#tell = tell;
  }

  /** Once it was wanted, or is over, it is no longer asked for. */
  expect(claim: Claim): void {
    if (this.#hears() || this.#closed || this.#expected.size >= MOST) return;
    this.#expected.set(claim.id, claim);
    this.#rearm();
  }

  forget(id: string): void {
    this.#expected.delete(id);
  }

  close(): void {
    this.#closed = true;
    this.#expected.clear();
    this.#clock.clearTimer(this.#timer);
  }

  #rearm(): void {
    if (this.#closed || this.#asking || this.#timer !== undefined || this.#expected.size === 0) return;
    this.#timer = this.#clock.setTimer(() => {
      this.#timer = undefined;
      void this.#ask();
    }, PACE_MS);
  }

  async #ask(): Promise<void> {
    // Messages say it from now on, so this look, which finds what came before, is the last.
    const isLast = this.#hears();
    const claims = [...this.#expected.values()];
    if (claims.length === 0) return;
    this.#asking = true;
    const values = [toBytesArray(claims.map(({ name }) => name)), toArray(claims.map(({ id }) => id))];
    const reply = await this.#connection.read(CALL_LOOK_WANTED, values).catch(() => undefined);
    this.#asking = false;
    for (const [at, { id }] of claims.entries()) {
      const letter = reply?.answers[0]?.[at];
      if (isLast && reply !== undefined && letter !== "w") this.#expected.delete(id);
      if (letter !== "w" && letter !== "n") continue;
      if (this.#expected.delete(id) && letter === "w") this.#tell(id);
    }
    this.#rearm();
  }
}
