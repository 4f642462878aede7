/** What the store says of a hold that is in others' way, or in doubt: in messages, and in its answers, which may be older than these. */
import type { Backend, Claim } from "../contract/backend.ts";
import { Changing } from "./changing.ts";

/** The store is to say when the claim is wanted. Where the backend fails, its answers say it all the same. */
export function expectWanted(backend: Backend, claim: Claim): void {
  try {
    backend.expectWanted?.(claim);
  } catch {
    // A custom backend may have a mistake, and the lease is held all the same.
  }
}

export abstract class Newsworthy extends Changing {
  /** By the store's last word, a claim queues for it. */
  isWanted: boolean;
  /** When news of it came last. */
  #newsAtMs = -Infinity;

  constructor(isWanted: boolean) {
    super();
    this.isWanted = isWanted;
  }

  /** When the request left that last confirmed it. */
  abstract get fromMs(): number;
  abstract hearWanted(): void;
  abstract letGo(): void;

  /** The store has confirmed it since there was news of it. */
  get isConfirmed(): boolean {
    return this.fromMs > this.#newsAtMs;
  }

  /** A claim queues for it, says the store. */
  hearNews(nowMs: number): void {
    this.hearDoubt(nowMs).hearAnswer(true, nowMs);
  }

  /** The store is to be asked whether it is still held. Until it has said so, the hold is not kept unused. */
  hearDoubt(nowMs: number): this {
    this.#newsAtMs = nowMs;
    return this;
  }

  /** Whether a claim queued for it, by the answer to a question that left then. News that came since counts more. */
  hearAnswer(isWanted: boolean, sentAtMs: number): void {
    if (!isWanted && sentAtMs <= this.#newsAtMs) return;
    this.isWanted = isWanted;
    if (!isWanted) return;
    this.hearWanted();
    this.letGo();
  }
}
