/** Holds of one ttl that are renewed together: so 100,000 leases are only a few groups to watch. */
import type { Deadline } from "../contract/deadlines.ts";
import type { Hold } from "./hold.ts";

export class RenewalGroup implements Deadline {
  readonly ttlMs: number;
  /** In no order. An array in which each hold knows its index: a Set would cost more than the rest of keeping it. */
  readonly holds: Hold[] = [];
  /** When to renew next. */
  renewAtMs: number;
  /** When that was due first: tries after a failure do not change it. Only for those who measure. */
  dueMs: number;
  /** When the question that is out left; -Infinity when none is. */
  askedAtMs: number = -Infinity;
  /**
   * No hold can be trusted for less: the first end among them, or earlier where that one has left or was renewed since.
   * Kept and not searched for, because looking at thousands of holds is most of what renewing them costs the core.
   */
  firstEndMs: number = Infinity;
  /** The store gave no answer the last time. A group in trouble is asked for on its own. */
  inTrouble = false;

  // The deadlines' own notes.
  atMs = 0;
  heapIndex = -1;

  constructor(ttlMs: number, renewAtMs: number) {
    this.ttlMs = ttlMs;
    this.dueMs = this.renewAtMs = renewAtMs;
  }

  add(hold: Hold, trustedUntilMs: number): void {
    hold.group = this;
    hold.groupIndex = this.holds.push(hold) - 1;
    this.noteEnd(trustedUntilMs);
  }

  /** One of its holds can be trusted until then. */
  noteEnd(trustedUntilMs: number): void {
    if (trustedUntilMs < this.firstEndMs) this.firstEndMs = trustedUntilMs;
  }

  /** Makes {@link firstEndMs} exact. */
  findFirstEnd(): void {
    this.firstEndMs = Infinity;
    for (const { trustedUntilMs } of this.holds) if (trustedUntilMs < this.firstEndMs) this.firstEndMs = trustedUntilMs;
  }

  remove(hold: Hold): void {
    hold.group = undefined;
    const last = this.holds.pop()!;
    if (last === hold) return;
    this.holds[hold.groupIndex] = last;
    last.groupIndex = hold.groupIndex;
  }

  /** It is renewed by then, and looked at by then: one that was asked for early, in doubt, is looked at a third of its ttl later. */
  isDueBy(ms: number): boolean {
    return this.heapIndex >= 0 && Math.max(this.renewAtMs, this.atMs) <= ms;
  }

  /** Takes the other's holds over. */
  merge(other: RenewalGroup): void {
    for (const hold of other.holds) this.add(hold, hold.trustedUntilMs);
    other.holds.length = 0;
    if (other.renewAtMs < this.renewAtMs) this.renewAtMs = other.renewAtMs;
    if (other.dueMs < this.dueMs) this.dueMs = other.dueMs;
  }

  /** True while an answer is out that may still come. One that hangs for a third of the ttl is asked for again. */
  isAsking(nowMs: number): boolean {
    return nowMs < this.askedAtMs + this.ttlMs / 3;
  }
}
