/**
 * How a holder learns that its lock is wanted. The claim with which a queue begins sends a message to the process of the holder. Where no
 * message can come, because the process listens on no socket, it looks at the queue of each lock whose holder wants to know.
 */
import type { Clock, Timer } from "../../contract/clock.ts";
import { jitter } from "../../contract/random.ts";
import type { LocalClaim, LocalClaims } from "./local-claim.ts";
import type { Lock } from "./lock.ts";
import { BARE_POLL_MS } from "./waiting.ts";

export interface WantedOptions {
  readonly clock: Clock;
  readonly claims: LocalClaims;
  /** True while messages can come. */
  hears(): boolean;
  lock(name: string): Lock;
  /** The claim's lease is wanted. */
  tell(claimId: string): void;
}

export class Wanted {
  readonly #options: WantedOptions;
  /** Claims that are looked after, and whether they were wanted at the last look. */
  readonly #watched = new Map<string, boolean>();
  #timer: Timer;

  constructor(options: WantedOptions) {
    this.#options = options;
  }

  /** From now on the holder wants to know. */
  expect(claimId: string): void {
    if (this.#options.hears() || this.#options.claims.known(claimId) === undefined) return;
    if (this.#watched.has(claimId)) return;
    this.#watched.set(claimId, false);
    if (this.#watched.size === 1) this.#schedule();
  }

  /** A message came: a claim waits for what this lease file holds of that lock. `directory`: the lock's. */
  heard(fileId: string, directory: string): void {
    for (const local of this.#options.claims.all()) {
      if (local.file?.facts.id !== fileId) continue;
      if (this.#options.lock(local.claim.name).log.directory !== directory) continue;
      // It was handed the lock, and has not heard of that yet: its grant will say it.
      if (local.held === undefined) local.others = true;
      else this.#options.tell(local.claim.id);
    }
  }

  close(): void {
    this.#watched.clear();
    this.#options.clock.clearTimer(this.#timer);
  }

  #schedule(): void {
    this.#timer = this.#options.clock.setTimer(() => this.#look(), jitter(BARE_POLL_MS, 1 / 3, 5 / 3));
  }

  #look(): void {
    for (const [id, before] of this.#watched) {
      const local = this.#options.claims.known(id);
      if (local?.held === undefined) {
        this.#watched.delete(id);
        continue;
      }
      const wanted = this.#isWanted(local);
      this.#watched.set(id, wanted);
      if (wanted && !before) this.#options.tell(id);
    }
    if (this.#watched.size > 0) this.#schedule();
  }

  #isWanted(local: LocalClaim): boolean {
    try {
      return this.#options.lock(local.claim.name).isWanted(local);
    } catch {
      // The next renewal says what is wrong.
      return false;
    }
  }
}
