/** Removes rows that no claim needs: a little after each so many attempts, in the background, in whichever process makes them. */
import type { Clock } from "../../contract/clock.ts";
import type { Connection } from "./connection.ts";
import { CALL_CLEAN } from "./generated/sql.ts";

/** Each attempt may make one row, and each round looks at more rows than were made since the last. */
const ATTEMPTS = 500;
const ROWS = 1000;
/** Also a process that makes few attempts does its part. */
const PAUSE_MS = 60_000;

export class Cleanup {
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #idleMs: number;
  #attempts = 0;
  #lastMs: number;
  /** Where the next round begins. */
  #from = "";
  #under: Promise<void> | undefined;

  constructor(connection: Connection, clock: Clock, idleMs: number) {
    this.#connection = connection;
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#lastMs = clock.now();
  }

  /** Called with each attempt. */
  attempted(): void {
    this.#attempts++;
    if (this.#under !== undefined) return;
    const nowMs = this.#clock.now();
    if (this.#attempts < ATTEMPTS && nowMs - this.#lastMs < PAUSE_MS) return;
    this.#attempts = 0;
    this.#lastMs = nowMs;
    // What fails is tried again after a while: nothing depends on it.
    this.#under = this.step()
      .catch(() => undefined)
      .then(() => (this.#under = undefined));
  }

  async step(): Promise<void> {
    const { answers } = await this.#connection.ask(CALL_CLEAN, [
      `\\x${this.#from}`,
      String(ROWS),
      String(this.#idleMs),
    ]);
    const [next] = answers;
    this.#from = typeof next === "string" && /^(?:[0-9a-f]{2})*$/u.test(next) ? next : "";
  }

  async settled(): Promise<void> {
    await this.#under;
  }
}
