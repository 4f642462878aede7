/**
 * A member as a model: the memory backend's rules, and the marker by which a server notices that it forgot. The simulation
 * runs on it, and model.test.ts holds it against the real scripts on a real Redis.
 */
import type { Claim, Member, Vote } from "../../../src/contract/backend.ts";
import type { Clock } from "../../../src/contract/clock.ts";
import { memory, type MemoryStore, memoryStore } from "../../../src/backends/memory/index.ts";

export class ForgetfulMember {
  readonly #clock: Clock;
  #store: MemoryStore;
  #member: Member;
  /** When it was found to have forgotten; `undefined`: nobody has looked yet. */
  #sinceMs: number | undefined;
  /** The longest quarantine that anybody asked for. */
  #spanMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#store = memoryStore({ clock });
    this.#member = memory({ store: this.#store });
  }

  /** Everything but votes. */
  get member(): Member {
    return this.#member;
  }

  get store(): MemoryStore {
    return this.#store;
  }

  /** All leases, fences and the marker are gone. */
  forget(): void {
    this.#store = memoryStore({ clock: this.#clock });
    this.#member = memory({ store: this.#store });
    this.#sinceMs = undefined;
    this.#spanMs = 0;
  }

  /** An operator vouches for it, and says which quarantine holds from now on. */
  admit(quarantineMs = 0): void {
    this.#sinceMs = -Infinity;
    this.#spanMs = quarantineMs;
  }

  /** A process introduces itself. Tells the longest quarantine that was asked for before. */
  meet(quarantineMs: number): number | undefined {
    const beforeMs = this.#sinceMs === undefined ? undefined : this.#spanMs;
    this.#youngMs(quarantineMs);
    return beforeMs;
  }

  /** A quarantine of 0: the voter takes the member for durable, but obeys what others asked for. */
  async vote(claim: Claim, ballot: bigint, quarantineMs: number): Promise<Vote> {
    const forMs = this.#youngMs(quarantineMs);
    if (forMs > 0) return { vote: "young", forMs, wallMs: this.#clock.wall() };
    return this.#member.vote(claim, ballot);
  }

  #youngMs(quarantineMs: number): number {
    const nowMs = this.#clock.now();
    this.#spanMs = Math.max(this.#spanMs, quarantineMs);
    if (this.#sinceMs === undefined || this.#sinceMs > nowMs) this.#sinceMs = nowMs;
    return Math.max(0, this.#sinceMs + this.#spanMs - nowMs);
  }
}
