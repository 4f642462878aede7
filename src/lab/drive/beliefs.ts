/** The leases that a process believes in now: read every few milliseconds, so the record knows until when they are trusted. */
import type { GroupLease, Lease } from "../../core/api.ts";
import { machineMs } from "../../contract/machine-clock.ts";
import type { Holdfast } from "./library.ts";
import type { Reporter } from "./report.ts";

const LOOK_MS = 5;
/** Two readings of one instant differ by the time between two clocks' readings. */
const SAME_MS = 1.5;
const EPSILON_MS = 0.001;

interface Open {
  readonly who: string;
  readonly lease: GroupLease;
  readonly locks: readonly string[];
  untilMs: number;
}

export class Beliefs {
  readonly #holdfast: Holdfast;
  readonly #reporter: Reporter;
  readonly #open: Map<GroupLease, Open> = new Map();
  readonly #timer: NodeJS.Timeout;

  constructor(holdfast: Holdfast, reporter: Reporter) {
    this.#holdfast = holdfast;
    this.#reporter = reporter;
    this.#timer = setInterval(() => this.look(), LOOK_MS);
  }

  /** From now on `who` believes that it holds these locks. */
  begin(who: string, lease: GroupLease, locks: readonly string[]): void {
    // First what the others believe at this very instant.
    this.look();
    const atMs = machineMs();
    const trustedUntilMs = atMs + this.#holdfast.leftMs(lease);
    for (const lock of locks)
      this.#reporter.event({ kind: "held", atMs, who, lock, fence: fenceOf(lease, lock), trustedUntilMs });
    this.#open.set(lease, { who, lease, locks, untilMs: trustedUntilMs });
  }

  /** `who` believes no longer. Only the first end counts. */
  end(lease: GroupLease, kind: "releasing" | "lost"): void {
    const open = this.#open.get(lease);
    if (open === undefined) return;
    this.#open.delete(lease);
    const atMs = machineMs();
    for (const lock of open.locks)
      this.#reporter.event({ kind, atMs, who: open.who, lock, fence: fenceOf(lease, lock) });
  }

  /** Milliseconds for which the lease is still believed in. */
  leftMs(lease: GroupLease): number {
    return this.#holdfast.leftMs(lease);
  }

  look(): void {
    for (const open of this.#open.values()) {
      const atMs = machineMs();
      const leftMs = this.#holdfast.leftMs(open.lease);
      // What is over stays over where it ended: at the instant until which it was trusted, or now if that was to come.
      const untilMs = leftMs > 0 ? atMs + leftMs : Math.min(atMs, open.untilMs);
      if (Math.abs(untilMs - open.untilMs) < (leftMs > 0 ? SAME_MS : EPSILON_MS)) continue;
      open.untilMs = untilMs;
      for (const lock of open.locks) {
        const fence = fenceOf(open.lease, lock);
        this.#reporter.event({ kind: "trusted", atMs, who: open.who, lock, fence, trustedUntilMs: untilMs });
      }
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

export function fenceOf(lease: GroupLease, lock: string): bigint {
  // Earlier builds have no fenceOf().
  return lease.fences.get(lock) ?? (lease as Lease).fence;
}
