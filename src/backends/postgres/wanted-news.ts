/**
 * Holders that want to know when a claim begins to wait: each is written down in the store, which then sends a message. A process that no message
 * reaches asks instead, at intervals. Both go in one statement for many.
 */
import type { Claim } from "../../contract/backend.ts";
import type { Clock, Timer } from "../../contract/clock.ts";
import type { Connection, Reply } from "./connection.ts";
import { CALL_EXPECT_WANTED, CALL_LOOK_WANTED } from "./generated/sql.ts";
import { toArray, toBytesArray } from "./records.ts";

/** As often as waiters without messages ask, at their slowest. */
const PACE_MS = 250;
/** Further ones learn it from their renewals. */
const MOST = 1000;

/** Where the store sends messages for this process. */
interface Ears {
  readonly address: string | null;
  /** Messages arrive. */
  readonly isLive: boolean;
}

export class WantedNews {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #ears: Ears;
  readonly #tell: (claimId: string) => void;
  /** Those that no message will tell yet. */
  readonly #expected: Map<string, Claim> = new Map();
  #timer: Timer;
  #asking = false;
  #closed = false;

  constructor(connection: Connection, clock: Clock, ears: Ears, tell: (claimId: string) => void) {
    this.#connection = connection;
    this.#clock = clock;
    this.#ears = ears;
    this.#tell = tell;
  }

  /** Once it was wanted, or is over, it is no longer asked for. */
  expect(claim: Claim): void {
    if (this.#closed || this.#expected.size >= MOST) return;
    this.#expected.set(claim.id, claim);
    // Those of the same turn go together.
    this.#rearm(this.#ears.isLive ? 0 : PACE_MS);
  }

  forget(id: string): void {
    this.#expected.delete(id);
  }

  close(): void {
    this.#closed = true;
    this.#expected.clear();
    this.#clock.clearTimer(this.#timer);
  }

  #rearm(ms: number): void {
    if (this.#closed || this.#asking || this.#timer !== undefined || this.#expected.size === 0) return;
    this.#timer = this.#clock.setTimer(() => {
      this.#timer = undefined;
      void this.#ask();
    }, ms);
  }

  async #ask(): Promise<void> {
    const claims = [...this.#expected.values()];
    if (claims.length === 0) return;
    const hears = this.#ears.isLive;
    this.#asking = true;
    const reply = await this.#send(claims, hears).catch(() => undefined);
    this.#asking = false;
    for (const [at, { id }] of claims.entries()) {
      const letter = reply?.answers[0]?.[at];
      // Not wanted yet: from now on a message says it.
      const isOver = letter === "w" || letter === "n" || (letter === "y" && hears);
      if (isOver && this.#expected.delete(id) && letter === "w") this.#tell(id);
    }
    this.#rearm(PACE_MS);
  }

  #send(claims: readonly Claim[], hears: boolean): Promise<Reply> {
    const values = [toBytesArray(claims.map(({ name }) => name)), toArray(claims.map(({ id }) => id))];
    if (!hears) return this.#connection.read(CALL_LOOK_WANTED, values);
    return this.#connection.ask(CALL_EXPECT_WANTED, [...values, this.#ears.address]);
  }
}
