/**
 * A warden started before its command: by a run that is next in line. A process takes longer to start than a lock to change
 * hands, and the process that comes after a killed holder should not wait for it. Processes further back start none, to save memory.
 */
import type { Snapshot } from "../format-lock.ts";
import { only } from "../format-lock.ts";
import { Warden } from "./warden.ts";

const FIRST_LOOK_MS = 100;
const LOOK_AGAIN_MS = 1000;

export class WardenAhead {
  readonly #isNext: () => Promise<boolean>;
  #timer: NodeJS.Timeout | undefined;
  #warden: Warden | undefined;
  #over = false;

  /** `holder`: our own, by which we find our place in the queue. */
  constructor(name: string, holder: string, query: () => Promise<Snapshot>) {
    this.#isNext = async () =>
      only(name, await query()).pending.some((one) => one.holder === holder && one.position === 1);
    this.#lookIn(FIRST_LOOK_MS);
  }

  /** The warden, if there is one by now: from here on the caller's to dismiss. */
  take(): Warden | undefined {
    this.#stop();
    const warden = this.#warden;
    this.#warden = undefined;
    return warden;
  }

  /** Nothing came of the waiting. */
  dismiss(): void {
    this.#stop();
    this.#warden?.dismiss();
  }

  #stop(): void {
    this.#over = true;
    clearTimeout(this.#timer);
  }

  #lookIn(ms: number): void {
    this.#timer = setTimeout(() => void this.#look(), ms).unref();
  }

  async #look(): Promise<void> {
    // What is wrong with the store, the waiting itself reports.
    const next = await this.#isNext().catch(() => false);
    if (this.#over) return;
    if (next) this.#warden = new Warden();
    else this.#lookIn(LOOK_AGAIN_MS);
  }
}
