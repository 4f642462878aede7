/** What `holdfast doctor` says of the store, asked once a minute while someone watches. */
import { messageOf } from "../contract/errors.ts";
import { clean } from "../telemetry/clean.ts";
import type { CheckedOptions } from "./options.ts";
import type { Finding, StoreView } from "./wire.ts";

const EVERY_MS = 60_000;
const FINDINGS_MAX = 50;

export class HealthChecks {
  readonly #options: Pick<CheckedOptions, "clock" | "health">;
  #askedMs = -Infinity;
  #isAsking = false;
  #shown: Pick<StoreView, "findings" | "findingsError"> = {};

  constructor(options: Pick<CheckedOptions, "clock" | "health">) {
    this.#options = options;
  }

  show(): Pick<StoreView, "findings" | "findingsError"> {
    return this.#shown;
  }

  tick(): void {
    const { clock, health } = this.#options;
    if (health === undefined || this.#isAsking || clock.now() - this.#askedMs < EVERY_MS) return;
    this.#askedMs = clock.now();
    this.#isAsking = true;
    void this.#ask(health).finally(() => (this.#isAsking = false));
  }

  async #ask(health: NonNullable<CheckedOptions["health"]>): Promise<void> {
    try {
      const { findings } = await health();
      const shown = findings.slice(0, FINDINGS_MAX);
      this.#shown = { findings: shown.map(({ level, text }): Finding => ({ level, text: clean(String(text)) })) };
    } catch (error) {
      this.#shown = { findingsError: clean(messageOf(error)) };
    }
  }
}
