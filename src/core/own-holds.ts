/** The holds of this process on one lock, and how they end other than by the release of their last lease. */
import { Acquisitions, type ClaimParts } from "./acquisitions.ts";
import { LockClosedError } from "../contract/errors.ts";
import type { LossReason } from "../contract/loss.ts";
import type { Hold } from "./hold.ts";
import { publishLost } from "./hold-events.ts";
import type { LeaseParts } from "./lease.ts";
import type { Lingering } from "./linger.ts";
import { remove } from "./list.ts";
import { reportLost } from "./report-lost.ts";

export interface HoldParts extends ClaimParts, LeaseParts {
  readonly lingering: Lingering;
}

export abstract class OwnHolds extends Acquisitions {
  /** An array: it nearly always has at most one element. */
  protected held: Hold[] = [];
  readonly #parts: HoldParts;

  constructor(name: string, parts: HoldParts) {
    super(name, parts);
    this.#parts = parts;
  }

  get holds(): readonly Hold[] {
    return this.held;
  }

  abstract serve(): void;

  /** Asks all work under this lock to stop. Its leases are held while it winds down; what no work uses goes back. */
  stopAll(): void {
    this.letGo();
    const leases = this.held.flatMap((hold) => hold.leases);
    for (const lease of leases) lease.stop(LockClosedError.whileHeld(this.name));
  }

  /** A hold that lingers goes back to the store. */
  letGo(): void {
    this.held.find((hold) => hold.isIdle)?.letGo();
  }

  /** Begins to release every hold, used or not. */
  endAll(loss: LossReason): void {
    for (const hold of this.held.slice()) {
      if (!hold.end("ending")) continue;
      this.drop(hold);
      hold.released = this.#parts.releases.release(hold);
      hold.released.catch(() => {});
      reportLost(hold.leases, loss);
    }
  }

  /** Its leases learn of it; the line goes on without it. Where it had none, nothing is lost but time: it is given back at once. */
  lose(hold: Hold, loss: LossReason): void {
    const { isIdle } = hold;
    if (!hold.end("lost")) return;
    this.drop(hold);
    this.#parts.releases.keepLost(hold);
    if (isIdle) void this.#parts.releases.freeLost(hold);
    reportLost(hold.leases, loss);
    if (!isIdle) publishLost(this.#parts.backend.name, this.name, hold.firstFence, loss);
    this.serve();
  }

  /** From here on nothing renews it or finds it. */
  protected drop(hold: Hold): void {
    remove(this.held, hold);
    this.#parts.watchdog.drop(hold);
    if (hold.idle !== undefined) this.#parts.lingering.drop(hold);
  }
}
