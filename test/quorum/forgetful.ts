/**
 * A member as a model: the memory backend's rules, and the marker by which a server notices that it forgot. The simulation
 * runs on it, and model.test.ts holds it against the real scripts on a real Redis.
 */
import type { Claim, Member, Vote } from "../../src/backend.ts";
import type { Clock } from "../../src/clock.ts";
import { memory, type MemoryStore, memoryStore } from "../../src/memory/index.ts";

export class ForgetfulMember {
  readonly #clock: Clock;
  #store: MemoryStore;
  #member: Member;
  #isMarked = false;
  #youngUntilMs = 0;

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
    this.#isMarked = false;
  }

  /** An operator vouches for it. */
  admit(): void {
    this.#isMarked = true;
    this.#youngUntilMs = 0;
  }

  /** A quarantine of 0: the member is taken for durable, and nobody looks at the marker. */
  async vote(claim: Claim, ballot: bigint, quarantineMs: number): Promise<Vote> {
    const forMs = quarantineMs > 0 ? this.#youngMs(quarantineMs) : 0;
    if (forMs > 0) return { vote: "young", forMs, wallMs: this.#clock.wall() };
    return this.#member.vote(claim, ballot);
  }

  #youngMs(quarantineMs: number): number {
    const nowMs = this.#clock.now();
    if (!this.#isMarked || this.#youngUntilMs - nowMs > quarantineMs) {
      this.#isMarked = true;
      this.#youngUntilMs = nowMs + quarantineMs;
    }
    return Math.max(0, this.#youngUntilMs - nowMs);
  }
}
