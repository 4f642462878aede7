/**
 * A lease of ours in the cluster, and until when it can be trusted.
 *
 * A keep-alive is not agreed on by the cluster: the leader just notes it, and a member that only believes that it leads
 * (it was stopped or cut off, and another was elected meanwhile) answers as well. So an answer counts only when a later
 * question, to which a majority had to agree, was answered in the same term: then the member that noted the keep-alive was
 * the leader after it had done so, and the next leader starts the lease's time again. `docs/decisions` has the proof.
 */
import type { LeaseResponse } from "./client/lease-messages.ts";

interface Answered {
  readonly sentMs: number;
  readonly heardMs: number;
  readonly term: bigint;
}

export class Lease {
  readonly id: bigint;
  /** As it was asked for: leases of one length are exchangeable. */
  readonly seconds: number;
  /** As the cluster gave it. */
  readonly ttlMs: number;
  /** Locks on which a claim of ours has, or may have, a key of this lease. Two claims on one lock need two leases. */
  readonly names: Set<string> = new Set();
  /** Keys that a request with a lost answer may still create. */
  readonly ghosts: Map<string, Buffer> = new Map();
  /** Used for one claim only: its time does not hang together with others'. */
  isAlone = false;
  /** A request that creates a key of it may still be on its way: it is used for no further claim, and revoked at its end. */
  isTainted = false;
  /** The cluster does not know it, or it cannot be trusted any more. */
  isGone = false;
  #provenMs: number;
  #answered: Answered | undefined;

  /** `sentMs`: before the grant was asked for. A grant is agreed on by the cluster, and proves itself. */
  constructor({ id, ttl }: LeaseResponse, seconds: number, sentMs: number) {
    this.id = id;
    this.seconds = seconds;
    this.ttlMs = ttl * 1000;
    this.#provenMs = sentMs;
  }

  /** The cluster keeps it for `ttlMs` from here on, at least. */
  get provenMs(): number {
    return this.#provenMs;
  }

  /** How much of its time has passed, as far as is proven: 1 is all of it. */
  ageAt(nowMs: number): number {
    return (nowMs - this.#provenMs) / this.ttlMs;
  }

  /** A member answered a keep-alive that was sent at `sentMs`. */
  answered({ header, ttl }: LeaseResponse, sentMs: number): void {
    // A member that does not know it may be behind: its keys decide.
    this.#answered = ttl > 0 ? { sentMs, heardMs: performance.now(), term: header.term } : undefined;
  }

  /** The cluster answered, in this term, what was asked at `askedMs`. */
  confirmed(term: bigint, askedMs: number): void {
    const answered = this.#answered;
    if (answered === undefined || askedMs < answered.heardMs) return;
    if (term === answered.term && answered.sentMs > this.#provenMs) this.#provenMs = answered.sentMs;
    // In another term there was another leader, which may not know of the keep-alive.
    this.#answered = undefined;
  }
}
