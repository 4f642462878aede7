/**
 * A member as a model: the memory backend's rules, and the marker by which a server notices that it lost its data. The
 * simulation runs on it, and model.test.ts compares it with the real scripts on a real Redis.
 */
import type { Claim, Member, Vote } from "../../../src/contract/backend.ts";
import type { Clock } from "../../../src/contract/clock.ts";
import { memory, type MemoryStore, memoryStore } from "../../../src/backends/memory/index.ts";

export class ModelMember {
  readonly #clock: Clock;
  #store: MemoryStore;
  #member: Member;
  /** When it was found to have lost its data; `undefined`: it was not asked yet. */
  #sinceMs: number | undefined;
  /** The longest quarantine that any process asked for. */
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
  loseData(): void {
    this.#store = memoryStore({ clock: this.#clock });
    this.#member = memory({ store: this.#store });
    this.#sinceMs = undefined;
    this.#spanMs = 0;
  }

  /** An operator ends its quarantine, and sets the one that holds from now on. */
  endQuarantine(quarantineMs = 0): void {
    this.#sinceMs = -Infinity;
    this.#spanMs = quarantineMs;
  }

  /** A process joins. Returns the longest quarantine that was asked for before. */
  join(quarantineMs: number): number | undefined {
    const beforeMs = this.#sinceMs === undefined ? undefined : this.#spanMs;
    this.#abstainsMs(quarantineMs);
    return beforeMs;
  }

  /** A quarantine of 0: the client takes the member for durable, but respects what others asked for. */
  async vote(claim: Claim, ballot: bigint, quarantineMs: number): Promise<Vote> {
    const forMs = this.#abstainsMs(quarantineMs);
    if (forMs > 0) return { vote: "recovering", forMs, wallMs: this.#clock.wall() };
    return this.#member.vote(claim, ballot);
  }

  #abstainsMs(quarantineMs: number): number {
    const nowMs = this.#clock.now();
    this.#spanMs = Math.max(this.#spanMs, quarantineMs);
    if (this.#sinceMs === undefined || this.#sinceMs > nowMs) this.#sinceMs = nowMs;
    return Math.max(0, this.#sinceMs + this.#spanMs - nowMs);
  }
}
