/** The outcomes that are kept after their leases: by lock, each until its time. */
import type { Claim, KeptOutcome, Outcome } from "../../contract/backend.ts";

/** Looked through for those whose time is over when there are more. */
const SWEEP_MIN = 256;

interface Kept {
  readonly claimId: string;
  readonly fence: bigint;
  readonly holder: string;
  readonly value: string;
  readonly atMs: number;
  readonly untilMs: number;
}

export class Outcomes {
  readonly #kept = new Map<string, Kept>();
  #sweepAt = SWEEP_MIN;

  put({ name, id: claimId, holder }: Claim, { value, keepMs, fence }: Outcome, nowMs: number): void {
    this.#kept.set(name, { claimId, fence, holder, value, atMs: nowMs, untilMs: nowMs + keepMs });
    if (this.#kept.size < this.#sweepAt) return;
    for (const lock of this.#kept.keys()) this.#find(lock, nowMs);
    this.#sweepAt = Math.max(SWEEP_MIN, 2 * this.#kept.size);
  }

  get(name: string, nowMs: number): KeptOutcome | undefined {
    const kept = this.#find(name, nowMs);
    if (kept === undefined) return undefined;
    const { value, fence, holder, atMs, untilMs } = kept;
    return { value, fence, holder, ageMs: nowMs - atMs, remainingMs: untilMs - nowMs };
  }

  /** True: what is kept came with the release of this claim. */
  isOf({ name, id }: Claim, { fence }: Outcome, nowMs: number): boolean {
    const kept = this.#find(name, nowMs);
    return kept?.claimId === id && kept.fence === fence;
  }

  remove(name: string, fence: bigint, nowMs: number): boolean {
    return this.#find(name, nowMs)?.fence === fence && this.#kept.delete(name);
  }

  #find(name: string, nowMs: number): Kept | undefined {
    const kept = this.#kept.get(name);
    if (kept === undefined || kept.untilMs > nowMs) return kept;
    this.#kept.delete(name);
    return undefined;
  }
}
