/** Remembers for a while that a message spoke of an outcome: the answer to an attempt that was under way then is older. */
import type { Claim } from "../../contract/backend.ts";

/** Longer than an attempt takes. If it takes longer still, the next heartbeat says it. */
const MEMORY_MS = 10_000;

export class OutcomeNews {
  readonly #cameMs: Map<string, number> = new Map();

  came(name: string, nowMs: number): void {
    for (const [lock, atMs] of this.#cameMs) if (atMs < nowMs - MEMORY_MS) this.#cameMs.delete(lock);
    this.#cameMs.set(name, nowMs);
  }

  /** True: since the request of this claim left, the lock has got an outcome, which the claim wants. */
  cameAfter(sentMs: number, { name, wantsOutcome }: Claim): boolean {
    return wantsOutcome === true && (this.#cameMs.get(name) ?? -Infinity) >= sentMs;
  }
}
